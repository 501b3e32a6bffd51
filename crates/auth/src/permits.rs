//! A limit on concurrent work.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A semaphore with a limit of holders and of their bytes in total; others wait in order, up to a time.
#[derive(Debug)]
pub(crate) struct Permits {
    bytes: u64,
    state: Mutex<State>,
    /// A waiter has reached the front, or permits were returned.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: usize,
    free_bytes: u64,
    next_ticket: u64,
    line: VecDeque<u64>,
}

/// The right to go on, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    permits: &'a Permits,
    bytes: u64,
}

impl Permits {
    /// At least one, and no limit of bytes.
    pub(crate) fn new(count: usize) -> Self {
        Self::with_bytes(count, u64::MAX)
    }

    /// Permits for at least one holder; all holders together have at most `bytes` bytes.
    pub(crate) fn with_bytes(count: usize, bytes: u64) -> Self {
        let state = State { free: count.max(1), free_bytes: bytes, next_ticket: 0, line: VecDeque::new() };
        Self { bytes, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Most bytes that one permit can be for.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A permit, or none when the time is over.
    pub(crate) fn acquire(&self, wait: Duration) -> Option<Permit<'_>> {
        self.acquire_bytes(0, wait)
    }

    /// A permit for this number of bytes; none when the time is over or the number exceeds the limit.
    pub(crate) fn acquire_bytes(&self, bytes: u64, wait: Duration) -> Option<Permit<'_>> {
        if bytes > self.bytes {
            return None;
        }
        let until = Instant::now() + wait;
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.line.push_back(ticket);
        while state.line.front() != Some(&ticket) || state.free == 0 || state.free_bytes < bytes {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            let Some(left) = left else {
                state.line.retain(|other| *other != ticket);
                drop(state);
                self.changed.notify_all();
                return None;
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.line.pop_front();
        state.free -= 1;
        state.free_bytes -= bytes;
        drop(state);
        self.changed.notify_all();
        Some(Permit { permits: self, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.permits.lock();
        state.free += 1;
        state.free_bytes += self.bytes;
        drop(state);
        self.permits.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_returns_when_it_is_dropped() {
        let permits = Permits::new(1);
        let first = permits.acquire(Duration::ZERO);
        assert!(first.is_some());
        assert!(permits.acquire(Duration::ZERO).is_none());
        drop(first);
        assert!(permits.acquire(Duration::ZERO).is_some());
    }

    #[test]
    fn permits_together_hold_at_most_their_bytes() {
        let permits = Permits::with_bytes(8, 100);
        let first = permits.acquire_bytes(60, Duration::ZERO);
        assert!(first.is_some());
        assert!(permits.acquire_bytes(41, Duration::ZERO).is_none(), "101 bytes");
        let second = permits.acquire_bytes(40, Duration::ZERO);
        assert!(second.is_some());
        drop(first);
        assert!(permits.acquire_bytes(61, Duration::ZERO).is_none());
        drop(second);
        assert!(permits.acquire_bytes(100, Duration::ZERO).is_some());
        assert!(permits.acquire_bytes(101, Duration::from_secs(3600)).is_none(), "above the limit");
    }

    #[test]
    fn a_large_request_is_not_overtaken() {
        let permits = Permits::with_bytes(8, 100);
        let first = permits.acquire_bytes(60, Duration::ZERO);
        std::thread::scope(|scope| {
            let large = scope.spawn(|| permits.acquire_bytes(100, Duration::from_secs(60)).is_some());
            while permits.lock().line.is_empty() {
                std::thread::yield_now();
            }
            assert!(permits.acquire_bytes(1, Duration::ZERO).is_none(), "another one is before it");
            drop(first);
            assert!(large.join().unwrap());
        });
        assert!(permits.acquire_bytes(1, Duration::ZERO).is_some());
    }
}
