//! When work that could not be done is tried again, and which errors are logged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The shortest and the longest pause between two attempts; each failure doubles it.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Attempts that have failed, by the name of the work.
#[derive(Debug, Default)]
pub struct Attempts(BTreeMap<String, Failure>);

#[derive(Debug)]
struct Failure {
    next: Instant,
    pause: Duration,
    why: String,
}

impl Attempts {
    /// Whether the work may be tried now.
    pub fn is_due(&self, name: &str, now: Instant) -> bool {
        self.0.get(name).is_none_or(|failure| now >= failure.next)
    }

    /// Notes a failed attempt. Returns true if the log does not have its error yet.
    pub fn fail(&mut self, name: &str, now: Instant, why: &str) -> bool {
        let before = self.0.get(name);
        let pause = before.map_or(PAUSE.0, |failure| (failure.pause * 2).min(PAUSE.1));
        let is_new = before.is_none_or(|failure| failure.why != why);
        self.0.insert(name.to_owned(), Failure { next: now + pause, pause, why: why.to_owned() });
        is_new
    }

    /// Forgets the failures of work that has succeeded, or that belongs to another member.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_failed_attempts_grow_to_a_minute() {
        let (mut attempts, mut now) = (Attempts::default(), Instant::now());
        assert!(attempts.is_due("a", now));
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            attempts.fail("a", now, "no threads");
            let next = now + Duration::from_secs(seconds);
            let just_before = now + Duration::from_millis(seconds * 1_000 - 1);
            assert!(!attempts.is_due("a", just_before) && attempts.is_due("a", next));
            assert!(attempts.is_due("b", now), "other work does not wait");
            now = next;
        }
        attempts.forget("a");
        assert!(attempts.is_due("a", now));
    }

    #[test]
    fn an_error_is_logged_once_until_it_changes() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        assert!(attempts.fail("a", now, "no threads"));
        assert!(!attempts.fail("a", now, "no threads"));
        assert!(attempts.fail("a", now, "no sockets"));
        attempts.forget("a");
        assert!(attempts.fail("a", now, "no sockets"));
    }
}
