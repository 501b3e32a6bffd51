//! Tries of one call: when it may be tried again.

use std::time::Duration;

use super::error::MachineError;
use super::settings::Limits;

/// The tries of one call. All times are milliseconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct Tries {
    running: bool,
    /// Failures in a row.
    failures: u32,
    not_before: u64,
    error: Option<MachineError>,
    /// The last end, and whether it was a success.
    ended: Option<(u64, bool)>,
}

impl Tries {
    pub(super) fn begin(&mut self) {
        self.running = true;
    }

    pub(super) fn is_running(&self) -> bool {
        self.running
    }

    /// A success sets the count of failures to 0.
    pub(super) fn succeeded(&mut self, now: u64) {
        *self = Self { not_before: now, ended: Some((now, true)), ..Self::default() };
    }

    pub(super) fn failed(&mut self, now: u64, error: MachineError, limits: &Limits) {
        self.running = false;
        self.failures = self.failures.saturating_add(1);
        let doubled = limits.backoff.saturating_mul(1 << (self.failures - 1).min(20));
        let pause =
            if self.failures >= limits.tries { limits.backoff_limit } else { doubled.min(limits.backoff_limit) };
        self.not_before = now.saturating_add(millis(pause));
        self.ended = Some((now, false));
        self.error = Some(error);
    }

    /// Forgets failures: the aim of the call was reached without it.
    pub(super) fn settle(&mut self) {
        (self.failures, self.not_before, self.error) = (0, 0, None);
    }

    /// Whether it can begin now.
    pub(super) fn is_due(&self, now: u64) -> bool {
        !self.running && now >= self.not_before
    }

    /// The time until it can begin.
    pub(super) fn pause(&self, now: u64) -> Duration {
        Duration::from_millis(self.not_before.saturating_sub(now))
    }

    /// The last error, when the number of failures in a row is one that is reported and the next try has not begun.
    pub(super) fn report(&self, limits: &Limits) -> Option<&MachineError> {
        self.error.as_ref().filter(|_| self.failures >= limits.tries)
    }

    /// Why it failed last, unless it has succeeded since.
    pub(super) fn error(&self) -> Option<&MachineError> {
        self.error.as_ref()
    }

    /// When it last ended.
    pub(super) fn ended(&self) -> Option<u64> {
        self.ended.map(|(at, _)| at)
    }

    /// When it last ended, if that was a success.
    pub(super) fn done(&self) -> Option<u64> {
        self.ended.filter(|(_, done)| *done).map(|(at, _)| at)
    }
}

/// A length of time in milliseconds.
pub(super) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ResourceName;

    #[test]
    fn pauses_double_up_to_a_limit_and_tries_are_reported() {
        let (backoff, backoff_limit) = (Duration::from_secs(1), Duration::from_secs(3));
        let limits = Limits { backoff, backoff_limit, tries: 4, ..Limits::default() };
        let name: ResourceName = "broker-1".parse().unwrap();
        let mut tries = Tries::default();
        let mut at = 0;
        for (pause, reported) in [(1_000, false), (2_000, false), (3_000, false), (3_000, true), (3_000, true)] {
            tries.begin();
            assert!(!tries.is_due(at));
            tries.failed(at, MachineError::Hanging(name.clone()), &limits);
            assert_eq!(tries.report(&limits).is_some(), reported, "{pause}");
            assert!(!tries.is_due(at + pause - 1) && tries.is_due(at + pause), "{pause}");
            at += pause;
        }
        tries.begin();
        tries.succeeded(at);
        assert!(tries.is_due(at) && tries.report(&limits).is_none() && tries.done() == Some(at));
    }
}
