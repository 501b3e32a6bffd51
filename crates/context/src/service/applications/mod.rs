//! Between nodes and applications on the bus: what nodes publish becomes records, and records of applications reach
//! nodes.
//!
//! Both ways it is at least once. A node's message is acknowledged when its record is on the bus. How far the records
//! of applications have been delivered is noted behind the broker's word that it answers for them.

mod inbound;
mod outbound;
mod positions;

use std::time::{Duration, Instant};

use tidegate_bus::{GroupName, MemberName, Membership};

use self::inbound::Inbound;
use self::outbound::Outbound;
use super::courier::Courier;
use super::{Bell, Course, Running, ServiceError};
use crate::records::{Delivery, NodeMessage, Packing};
use crate::register::Topic;

/// Events of the broker that are taken at once.
const TAKEN_AT_ONCE: usize = 1_024;
/// How long the service sleeps when nobody wakes it.
const SLEEP: Duration = Duration::from_secs(60);
/// The group in which gateways share the records of applications.
const GROUP: &str = "deliveries";

/// Says that a message is on the bus; dropped without being called, it says that it is not.
pub type Confirm = Box<dyn FnOnce() + Send>;

/// Something that the broker tells.
pub enum ApplicationEvent {
    /// A node has published this for applications.
    Message {
        /// The message.
        message: Box<NodeMessage>,
        /// Who waits for it.
        confirm: Confirm,
    },
    /// The broker answers for what it was given under this number, or (not `taken`) has to be given it again.
    Taken {
        /// As it was given.
        number: u64,
        /// Whether it does.
        taken: bool,
    },
}

/// The broker, as this service sees it. No call waits.
pub trait ApplicationHost: Send {
    /// The next thing that it tells.
    fn take(&mut self) -> Option<ApplicationEvent>;
    /// Has a message delivered to nodes; [`ApplicationEvent::Taken`] follows.
    fn deliver(&mut self, delivery: &Delivery, number: u64);
}

/// Which records of applications a broker delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Its share: any of the brokers reaches all nodes, since they are a cluster, or since there is one. The name is
    /// that of this process among them.
    Shared(String),
    /// All: each broker reaches the nodes that it knows.
    Each,
}

/// How the service runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationSettings {
    /// The name of the gateway.
    pub gateway: String,
    /// How messages are packed in records, and those of applications that do not say.
    pub packing: Packing,
    /// Which records are delivered here.
    pub sharing: Sharing,
}

/// Starts the thread of the service.
///
/// # Errors
/// When the thread cannot be started, or the name of the member is none.
pub fn start_applications(
    courier: Courier,
    settings: ApplicationSettings,
    mut host: Box<dyn ApplicationHost>,
    bell: Bell,
) -> Result<Running, ServiceError> {
    let membership = match &settings.sharing {
        Sharing::Shared(member) => {
            let (group, member) = (GroupName::new(GROUP)?, MemberName::new(member)?);
            Some(courier.bus().join(&group, &member, courier.partitions(), bell.wake())?)
        }
        Sharing::Each => None,
    };
    let body = move |bell: &Bell, course: &Course| run(&courier, &settings, &mut *host, membership, bell, course);
    Running::start("applications", bell, body).map_err(ServiceError::Thread)
}

fn run(
    courier: &Courier,
    settings: &ApplicationSettings,
    host: &mut dyn ApplicationHost,
    membership: Option<Membership>,
    bell: &Bell,
    course: &Course,
) {
    if courier.prepare(&Topic::APPLICATIONS, course).is_none() {
        return;
    }
    let mut outbound = Outbound::new(settings, bell);
    let mut inbound = Inbound::new(courier, settings, membership, bell);
    course.stands(true);
    while !course.is_over() {
        let mut taken = 0;
        while taken < TAKEN_AT_ONCE
            && let Some(event) = host.take()
        {
            taken += 1;
            match event {
                ApplicationEvent::Message { message, confirm } => outbound.send(courier, &message, confirm),
                ApplicationEvent::Taken { number, taken } => inbound.taken(number, taken),
            }
        }
        if taken == TAKEN_AT_ONCE {
            bell.ring();
        }
        let retries = [outbound.turn(courier), inbound.turn(courier, host, bell, course)];
        bell.wait_until(retries.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + SLEEP));
    }
    if let Some(membership) = inbound.into_membership() {
        courier.leave(membership);
    }
}

#[cfg(test)]
mod tests;
