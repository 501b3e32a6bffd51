//! The brokers of a fleet, shared by all parts of a process that connect to them.

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
    /// Whether it is draining: it gets no more messages.
    pub(crate) draining: bool,
}

impl Brokers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        // A poisoned lock is fine: the map is consistent at every step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, or changes it.
    pub(crate) fn know(&self, broker: BrokerSettings) {
        self.all().insert(broker.name.clone(), Known { broker, draining: false });
    }

    /// Marks a broker as draining.
    pub(crate) fn drain(&self, name: &str) {
        if let Some(known) = self.all().get_mut(name) {
            known.draining = true;
        }
    }

    /// Removes a broker.
    pub(crate) fn forget(&self, name: &str) {
        self.all().remove(name);
    }

    /// All of them, in the order of their names.
    pub(crate) fn list(&self) -> Vec<Known> {
        self.all().values().cloned().collect()
    }
}
