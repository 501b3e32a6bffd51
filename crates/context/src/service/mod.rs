//! The services around what decides: threads that read and append on the bus, and a gateway that asks its node.
//!
//! Each service has one thread, which sleeps until the bus, the node or its own clock rings. Nothing here is waited for
//! by a shard.

mod answer;
mod applications;
mod bell;
mod complaints;
mod contexts;
mod counters;
mod courier;
mod course;
mod definer;
mod gateway;
mod left_out;
mod manager;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

pub use answer::{Answer, ClientAdvertisement, DeliveryOutcome, NodeContext};
pub use applications::{ApplicationEvent, ApplicationHost, ApplicationSettings, Sharing, start_applications};
pub use bell::Bell;
pub(crate) use contexts::KnownContexts;
pub use counters::{CoreCounters, CoreFigures};
pub use courier::Courier;
pub(crate) use course::Course;
pub use course::{BlockReason, Stage, Watch};
pub use definer::{DefinerSettings, start_definer};
pub use gateway::{GatewaySettings, Host, HostLoad, HostNode, start_gateway};
pub use left_out::LeftOut;
pub use manager::{ManagerSettings, start_manager};

/// Milliseconds since 1970.
fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The number of a new life of a gateway: microseconds since 1970 at its start, with a random part below a
/// millisecond: gateways that start in one millisecond need different numbers.
fn new_life() -> u64 {
    let random = RandomState::new().hash_one(std::process::id()) % 1_000;
    wall_ms().saturating_mul(1_000).saturating_add(random)
}

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A name that the bus cannot carry.
    #[error(transparent)]
    Name(#[from] tidegate_bus::NameError),
    /// The bus refused it.
    #[error(transparent)]
    Bus(#[from] tidegate_bus::BusError),
    /// Its thread.
    #[error("a thread of the core could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A service that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    course: Course,
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts the thread of a service.
    pub(crate) fn start(
        name: &str,
        bell: Bell,
        body: impl FnOnce(&Bell, &Course) + Send + 'static,
    ) -> std::io::Result<Self> {
        let course = Course::new(name);
        let (rung, its_course) = (bell.clone(), course.clone());
        let builder = std::thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn(move || {
            body(&rung, &its_course);
            its_course.has_ended();
        })?;
        Ok(Self { course, bell, thread: Some(thread) })
    }

    /// Shows how far it has come, also after it has ended.
    pub fn watch(&self) -> Watch {
        self.course.watch().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.course.end();
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}
