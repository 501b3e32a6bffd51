//! Where clients find the orchestrators.

use std::sync::{Arc, Mutex, PoisonError};

use crate::manage::command::Endpoint;

/// What names the orchestrators that serve to clients, such as a DNS zone (BRK-18).
pub trait EntryPoint: Send {
    /// From now on these are named, and no other.
    ///
    /// # Errors
    /// When they cannot be; the manager goes on, and says so.
    fn set_endpoints(&mut self, endpoints: &[Endpoint]) -> Result<(), String>;
}

/// No entry point: clients know the orchestrators.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEntryPoint;

impl EntryPoint for NoEntryPoint {
    fn set_endpoints(&mut self, _: &[Endpoint]) -> Result<(), String> {
        Ok(())
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
    fn set_endpoints(&mut self, endpoints: &[Endpoint]) -> Result<(), String> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = endpoints.to_vec();
        Ok(())
    }
}
