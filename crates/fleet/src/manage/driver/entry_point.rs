//! Where clients find the orchestrators.

use std::sync::{Arc, Mutex, PoisonError};

use crate::manage::command::Endpoint;
use crate::provider::ResourceName;

/// What names the orchestrators that serve to clients, such as a DNS zone (BRK-18).
pub trait EntryPoint: Send {
    /// From now on these are named, and no other. Returns those that cannot be named yet, each with the reason: the
    /// others are. It waits for nothing, such as the resolution of a name: it is asked again soon.
    ///
    /// # Errors
    /// When nothing could be changed; it is asked again soon.
    fn set_endpoints(&mut self, endpoints: &[Endpoint]) -> Result<Unnamed, String>;

    /// Its counters in the text format of Prometheus; nothing where it counts nothing.
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
    fn set_endpoints(&mut self, _: &[Endpoint]) -> Result<Unnamed, String> {
        Ok(Unnamed::new())
    }
}

/// An entry point that others in this process ask.
#[derive(Clone, Debug, Default)]
pub struct Remembered(Arc<Mutex<Vec<Endpoint>>>);

impl Remembered {
    /// What is named now.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EntryPoint for Remembered {
    fn set_endpoints(&mut self, endpoints: &[Endpoint]) -> Result<Unnamed, String> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = endpoints.to_vec();
        Ok(Unnamed::new())
    }
}
