//! The brokers of a fleet, as all of a process know them who speak to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::BrokerSettings;

/// The brokers of a fleet. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Brokers(Arc<Mutex<BTreeMap<String, Known>>>);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) broker: BrokerSettings,
    /// Whether it is given nothing any more.
    pub(crate) draining: bool,
}

impl Brokers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        // Whoever panicked while holding it left a map that is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, or changes it.
    pub(super) fn know(&self, broker: BrokerSettings) {
        self.all().insert(broker.name.clone(), Known { broker, draining: false });
    }

    /// One is given nothing any more.
    pub(super) fn drain(&self, name: &str) {
        if let Some(known) = self.all().get_mut(name) {
            known.draining = true;
        }
    }

    /// One is gone.
    pub(super) fn forget(&self, name: &str) {
        self.all().remove(name);
    }

    /// All of them, in the order of their names.
    pub(crate) fn list(&self) -> Vec<Known> {
        self.all().values().cloned().collect()
    }
}
