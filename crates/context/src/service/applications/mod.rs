//! Between nodes and applications on the bus: nodes' messages become records, and records of applications reach
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
use super::answer::Answer;
use super::courier::Courier;
use super::{Bell, Course, Running, ServiceError};
use crate::records::{Delivery, NodeMessage, Packing};
use crate::register::Topic;

/// Events of the broker that are taken at once.
const TAKEN_AT_ONCE: usize = 1_024;
/// How long the service sleeps without a wake-up.
const SLEEP: Duration = Duration::from_secs(60);
/// The group in which gateways share the records of applications.
const GROUP: &str = "deliveries";
/// The group in which gateways that each deliver all records share the rejection of bad ones.
const REJECTING_GROUP: &str = "rejections";

/// Something that the broker tells.
pub enum ApplicationEvent {
    /// A node has published this for applications.
    Message {
        /// The message.
        message: Box<NodeMessage>,
        /// The request that waits for it.
        answer: Answer,
    },
    /// The broker confirms the record of this number, or (not `taken`) has to get it again.
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
    /// How messages are packed in records, including messages of applications that do not say.
    pub packing: Packing,
    /// Which records are delivered here.
    pub sharing: Sharing,
}

/// Starts the thread of the service.
///
/// # Errors
/// When the thread cannot be started, or the name of the member is invalid.
pub fn start_applications(
    courier: Courier,
    settings: ApplicationSettings,
    mut host: Box<dyn ApplicationHost>,
    bell: Bell,
) -> Result<Running, ServiceError> {
    let (group, member) = match &settings.sharing {
        Sharing::Shared(member) => (GROUP, member),
        Sharing::Each => (REJECTING_GROUP, &settings.gateway),
    };
    let (group, member) = (GroupName::new(group)?, MemberName::new(member)?);
    let membership = courier.bus().join(&group, &member, courier.partitions(), bell.wake())?;
    let body = move |bell: &Bell, course: &Course| run(&courier, &settings, &mut *host, membership, bell, course);
    Running::start("applications", bell, body).map_err(ServiceError::Thread)
}

fn run(
    courier: &Courier,
    settings: &ApplicationSettings,
    host: &mut dyn ApplicationHost,
    membership: Membership,
    bell: &Bell,
    course: &Course,
) {
    if courier.prepare(&Topic::APPLICATIONS, course).is_none() {
        return;
    }
    let mut outbound = Outbound::new(settings, bell);
    let (sharing, rejecting) = match &settings.sharing {
        Sharing::Shared(_) => (Some(membership), None),
        Sharing::Each => (None, Some(Inbound::rejecting(courier, settings.packing, membership, bell))),
    };
    let mut readers = vec![Inbound::new(courier, settings, sharing, bell)];
    readers.extend(rejecting);
    course.stands(true);
    while !course.is_over() {
        let mut taken = 0;
        while taken < TAKEN_AT_ONCE
            && let Some(event) = host.take()
        {
            taken += 1;
            match event {
                ApplicationEvent::Message { message, answer } => outbound.send(courier, &message, answer),
                ApplicationEvent::Taken { number, taken } => {
                    // The first reader gives the broker records.
                    if let Some(delivering) = readers.first_mut() {
                        delivering.taken(number, taken);
                    }
                }
            }
        }
        if taken == TAKEN_AT_ONCE {
            bell.ring();
        }
        let mut retry = outbound.turn(courier);
        for reader in &mut readers {
            retry = retry.into_iter().chain(reader.turn(courier, host, bell, course)).min();
        }
        bell.wait_until(retry.unwrap_or_else(|| Instant::now() + SLEEP));
    }
    for membership in readers.into_iter().filter_map(Inbound::into_membership) {
        courier.leave(membership);
    }
}

#[cfg(test)]
mod tests;
