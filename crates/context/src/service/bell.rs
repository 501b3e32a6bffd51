//! The bell that wakes a service.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wakes its waiting thread. A ring without a waiter is not lost, and many rings are one.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    rung: bool,
    /// When it rings without a call.
    alarm: Option<Instant>,
}

impl Bell {
    /// Wakes the waiting thread, or the next one that would wait.
    pub fn ring(&self) {
        self.state().rung = true;
        self.0.1.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings at this moment, or earlier if that was asked for; for the thread that waits for it.
    pub(crate) fn ring_at(&self, at: Instant) {
        let mut state = self.state();
        state.alarm = Some(state.alarm.map_or(at, |alarm| alarm.min(at)));
    }

    /// The function that rings the bell.
    pub fn wake(&self) -> Arc<dyn Fn() + Send + Sync> {
        let bell = self.clone();
        Arc::new(move || bell.ring())
    }

    /// Waits until it rings or this moment has come.
    pub(crate) fn wait_until(&self, until: Instant) {
        let mut state = self.state();
        let until = state.alarm.map_or(until, |alarm| alarm.min(until));
        while !state.rung {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            state = self.0.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.rung = false;
        state.alarm = state.alarm.filter(|alarm| *alarm > Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bell that does not ring would let this test wait for an hour.
    #[test]
    fn an_alarm_ends_the_wait_once() {
        let (bell, now) = (Bell::default(), Instant::now());
        bell.ring_at(now + Duration::from_secs(3_600));
        bell.ring_at(now);
        bell.wait_until(now + Duration::from_secs(3_600));
        assert_eq!(bell.state().alarm, None);
    }
}
