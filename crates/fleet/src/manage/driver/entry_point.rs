//! The entry point by which clients find the orchestrators.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use crate::manage::command::Endpoint;
use crate::provider::ResourceName;

/// Why an entry point has not changed.
#[derive(Debug, thiserror::Error)]
pub enum EntryPointError {
    /// It still names this orchestrator, which must not be withdrawn before.
    #[error("the DNS server of dns.update still names {0}")]
    StillNames(String),
    /// It refuses the endpoints.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
}

/// Publishes the serving orchestrators to clients, such as a DNS zone (BRK-18).
pub trait EntryPoint: Send {
    /// Sets the named endpoints. Returns the endpoints that cannot be named yet, each with the reason; the others are
    /// named. It does not block, for example on the resolution of a name: it is called again soon.
    ///
    /// # Errors
    /// When the change failed; it is called again soon.
    fn set_endpoints(&mut self, endpoints: &[Endpoint]) -> Result<Unnamed, EntryPointError>;

    /// Its counters in the text format of Prometheus; empty without counters.
    fn metrics(&self) -> String {
        String::new()
    }
}

/// Orchestrators that an entry point cannot name, and why.
pub type Unnamed = Vec<(ResourceName, String)>;

/// No entry point: clients know the orchestrators.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEntryPoint;

impl EntryPoint for NoEntryPoint {
    fn set_endpoints(&mut self, _: &[Endpoint]) -> Result<Unnamed, EntryPointError> {
        Ok(Unnamed::new())
    }
}

/// An entry point that others in this process ask.
#[derive(Clone, Debug, Default)]
pub struct Remembered(Arc<Mutex<Vec<Endpoint>>>);

impl Remembered {
    /// The named endpoints.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EntryPoint for Remembered {
    fn set_endpoints(&mut self, endpoints: &[Endpoint]) -> Result<Unnamed, EntryPointError> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = endpoints.to_vec();
        Ok(Unnamed::new())
    }
}
