//! What wakes a service.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wakes the thread that waits for it. Rings while nobody waits are not lost, and many are one.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    /// Wakes whoever waits, or the next one who would.
    pub fn ring(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_one();
    }

    /// What to call for a ring.
    pub fn wake(&self) -> Arc<dyn Fn() + Send + Sync> {
        let bell = self.clone();
        Arc::new(move || bell.ring())
    }

    /// Waits until it rings or this moment has come.
    pub(crate) fn wait_until(&self, until: Instant) {
        let mut rung = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*rung {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            rung = self.0.1.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung = false;
    }
}
