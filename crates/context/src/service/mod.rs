//! The services around what decides: threads that read and append on the bus, and a gateway that asks its node.
//!
//! Each service has one thread, which sleeps until the bus, the node or its own clock rings. Nothing here is waited for by a
//! shard.

mod applications;
mod bell;
mod contexts;
mod counters;
mod courier;
mod definer;
mod gateway;
mod left_out;
mod manager;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub use applications::{ApplicationEvent, ApplicationHost, ApplicationSettings, Confirm, Sharing, start_applications};
pub use bell::Bell;
pub(crate) use contexts::KnownContexts;
pub use counters::{CoreCounters, CoreFigures};
pub use courier::Courier;
pub use definer::{DefinerSettings, start_definer};
pub use gateway::{GatewaySettings, Host, HostLoad, HostNode, NodeContext, start_gateway};
pub use left_out::LeftOut;
pub use manager::{ManagerSettings, start_manager};

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
    stop: Arc<AtomicBool>,
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

/// Whether a service is to end.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Running {
    /// Starts the thread of a service.
    pub(crate) fn start(
        name: &str,
        bell: Bell,
        body: impl FnOnce(&Bell, &Stop) + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (rung, asked) = (bell.clone(), Stop(Arc::clone(&stop)));
        let builder = std::thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn(move || body(&rung, &asked))?;
        Ok(Self { stop, bell, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A service that panicked has said so already.
            let _ = thread.join();
        }
    }
}
