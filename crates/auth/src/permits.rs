//! A bound on how much of something happens at once.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many may hold a permit at once; others wait, for a while.
#[derive(Debug)]
pub(crate) struct Permits {
    free: Mutex<usize>,
    returned: Condvar,
}

/// The right to go on, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Permits);

impl Permits {
    /// At least one.
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), returned: Condvar::new() }
    }

    /// A permit, or none when the time is over.
    pub(crate) fn acquire(&self, wait: Duration) -> Option<Permit<'_>> {
        let until = Instant::now() + wait;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            free = self.returned.wait_timeout(free, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        Some(Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_comes_back_when_it_is_dropped() {
        let permits = Permits::new(1);
        let first = permits.acquire(Duration::ZERO);
        assert!(first.is_some());
        assert!(permits.acquire(Duration::ZERO).is_none());
        drop(first);
        assert!(permits.acquire(Duration::ZERO).is_some());
    }
}
