//! When files run out while clients knock.
//!
//! A listener that cannot accept stays readable, so retrying would burn a core and serve no client. Instead, one
//! waiting client is accepted with a reserved file and closed at once, so that it is informed. Then accepting rests
//! until a connection closes, or for a second.

use std::fs::File;

use tidegate_engine::Millis;

use crate::limits::{ACCEPT_REST_MS, SHORTAGE_LOG_MS};

/// A file kept open for the moment when there are no others.
#[derive(Debug)]
pub(crate) struct Reserve(Option<File>);

impl Reserve {
    pub(crate) fn new() -> Self {
        Self(open())
    }

    /// Runs an action that needs one more file, and must close it again.
    pub(crate) fn spend<T>(&mut self, action: impl FnOnce() -> T) -> T {
        self.0 = None;
        let result = action();
        self.0 = open();
        result
    }

    /// Tries again to have a reserve, where another thread was faster the last time.
    pub(crate) fn refill(&mut self) {
        if self.0.is_none() {
            self.0 = open();
        }
    }
}

fn open() -> Option<File> {
    File::open("/dev/null").ok()
}

/// A period in which connections cannot be taken, for lack of files or because of the limit of connections.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    rest_until: Option<Millis>,
    /// When the last log line was written, and the failures since then.
    logged: Option<Millis>,
    unlogged: u64,
}

impl Shortage {
    /// Begins or extends the rest.
    pub(crate) fn rest(&mut self, now: Millis) {
        self.rest_until = Some(now.plus(ACCEPT_REST_MS));
    }

    /// A connection closed, so there is room again.
    pub(crate) fn relieve(&mut self) {
        self.rest_until = None;
    }

    /// Whether accepting still rests.
    pub(crate) fn is_resting(&mut self, now: Millis) -> bool {
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
        }
        self.rest_until.is_some()
    }

    /// When to try again.
    pub(crate) fn deadline(&self) -> Millis {
        self.rest_until.unwrap_or(Millis::NEVER)
    }

    /// Counts one case and returns how many to report now, `None` to keep silent for the moment.
    pub(crate) fn note(&mut self, now: Millis) -> Option<u64> {
        self.unlogged += 1;
        if self.logged.is_some_and(|logged| now.since(logged) < SHORTAGE_LOG_MS) {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resting_ends_with_time_or_with_a_closed_connection() {
        let mut shortage = Shortage::default();
        assert!(!shortage.is_resting(Millis(0)));
        assert_eq!(shortage.deadline(), Millis::NEVER);
        shortage.rest(Millis(100));
        assert_eq!(shortage.deadline(), Millis(1100));
        assert!(shortage.is_resting(Millis(1099)));
        assert!(!shortage.is_resting(Millis(1100)));
        shortage.rest(Millis(2000));
        shortage.relieve();
        assert!(!shortage.is_resting(Millis(2001)));
    }

    #[test]
    fn a_shortage_is_logged_once_per_period_with_its_count() {
        let mut shortage = Shortage::default();
        assert_eq!(shortage.note(Millis(5)), Some(1));
        assert_eq!(shortage.note(Millis(6)), None);
        assert_eq!(shortage.note(Millis(5 + SHORTAGE_LOG_MS - 1)), None);
        assert_eq!(shortage.note(Millis(5 + SHORTAGE_LOG_MS)), Some(3));
    }

    #[test]
    fn the_reserve_is_there_again_afterwards() {
        let mut reserve = Reserve::new();
        assert_eq!(reserve.spend(|| 7), 7);
        assert!(reserve.0.is_some());
    }
}
