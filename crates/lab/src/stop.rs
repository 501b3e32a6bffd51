//! The request to stop, also in the middle of a wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A request to stop that everything which waits can see. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Arc<AtomicBool>,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    /// Asks all parts to stop.
    pub fn ask(&self) {
        let _guard = self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.asked.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
    }

    /// Whether it was asked for.
    pub fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// The bare flag, for readers only.
    pub fn flag(&self) -> &AtomicBool {
        &self.shared.asked
    }

    /// Waits for this time, or until the stop is requested; returns true in that case.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut guard = self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_asked() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            guard = self.shared.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_it_is_asked_for() {
        let stop = Stop::default();
        assert!(!stop.wait(Duration::ZERO));
        stop.clone().ask();
        assert!(stop.wait(Duration::from_secs(3600)));
        assert!(stop.flag().load(Ordering::SeqCst));
    }
}
