//! A circuit breaker: after a number of failures in a row the server is not asked for a while. Then one request tries;
//! after a success the others follow, after a failure the pause begins again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Breaker {
    failures: u32,
    pause_ms: u64,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The server is asked; the failures in a row so far.
    Closed(u32),
    /// It is left alone until then.
    Open(u64),
    /// One request tries.
    Probing,
}

/// A request in progress. When dropped without a result it counts as a failure, at the moment it began.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    breaker: &'a Breaker,
    began_ms: u64,
    settled: bool,
}

impl Breaker {
    pub(super) fn new(failures: u32, pause: Duration) -> Self {
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        Self { failures: failures.max(1), pause_ms, state: Mutex::new(State::Closed(0)) }
    }

    /// The right to ask, unless the server is being left alone.
    pub(super) fn enter(&self, now_ms: u64) -> Option<Attempt<'_>> {
        let mut state = self.lock();
        match *state {
            State::Closed(_) => {}
            State::Open(until_ms) if now_ms >= until_ms => *state = State::Probing,
            State::Open(_) | State::Probing => return None,
        }
        Some(Attempt { breaker: self, began_ms: now_ms, settled: false })
    }

    fn failed(&self, now_ms: u64) -> bool {
        let mut state = self.lock();
        let open = State::Open(now_ms.saturating_add(self.pause_ms));
        *state = match *state {
            State::Closed(count) if count + 1 < self.failures => State::Closed(count + 1),
            State::Closed(_) | State::Probing => open,
            // A request from before the server was given up.
            State::Open(_) => return false,
        };
        *state == open
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt<'_> {
    /// The server has answered.
    pub(super) fn succeeded(mut self) {
        self.settled = true;
        let mut state = self.breaker.lock();
        // A request that began before the breaker opened does not close it.
        if !matches!(*state, State::Open(_)) {
            *state = State::Closed(0);
        }
    }

    /// It has not; true when it is left alone from now on.
    pub(super) fn failed(mut self, now_ms: u64) -> bool {
        self.settled = true;
        self.breaker.failed(now_ms)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.breaker.failed(self.began_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Breaker, now_ms: u64) -> bool {
        breaker.enter(now_ms).is_some_and(|attempt| attempt.failed(now_ms))
    }

    fn succeed(breaker: &Breaker, now_ms: u64) -> bool {
        breaker.enter(now_ms).map(Attempt::succeeded).is_some()
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_one_request_tries_again() {
        let breaker = Breaker::new(3, Duration::from_secs(10));
        assert!(!fail(&breaker, 0) && !fail(&breaker, 0));
        assert!(succeed(&breaker, 0), "a success restarts the count");
        assert!(!fail(&breaker, 1) && !fail(&breaker, 1) && fail(&breaker, 1));
        assert!(breaker.enter(10_000).is_none());
        let probe = breaker.enter(10_001);
        assert!(probe.is_some());
        assert!(breaker.enter(10_001).is_none(), "only one tries");
        assert!(probe.is_some_and(|probe| probe.failed(10_500)));
        assert!(breaker.enter(20_499).is_none());
        assert!(succeed(&breaker, 20_500));
        assert!(breaker.enter(20_500).is_some());
    }

    #[test]
    fn a_request_that_is_given_up_counts_as_a_failure() {
        let breaker = Breaker::new(1, Duration::from_secs(1));
        drop(breaker.enter(0));
        assert!(breaker.enter(999).is_none());
        drop(breaker.enter(1000));
        assert!(breaker.enter(1999).is_none(), "also for the request that tries");
    }

    #[test]
    fn a_late_answer_does_not_close_it() {
        let breaker = Breaker::new(1, Duration::from_secs(1));
        let slow = breaker.enter(0);
        assert!(fail(&breaker, 0));
        if let Some(slow) = slow {
            slow.succeeded();
        }
        assert!(breaker.enter(1).is_none());
    }
}
