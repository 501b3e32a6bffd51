//! Faults that are counted always and logged now and then: other programs write records, in any number.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines of the log.
const QUIET: Duration = Duration::from_secs(60);

/// Counts an event that is worth at most one line of the log per minute.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    /// The time of the last line.
    told: Option<Instant>,
    /// How often it has happened since.
    since: u64,
}

impl Tally {
    /// Counts the event. Returns the count since the last line, this event included, if a line is due.
    pub fn note(&self) -> Option<u64> {
        self.note_at(Instant::now())
    }

    /// The same at a given time; times never decrease.
    pub fn note_at(&self, now: Instant) -> Option<u64> {
        let mut count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.since += 1;
        if count.told.is_some_and(|told| now.saturating_duration_since(told) < QUIET) {
            return None;
        }
        count.told = Some(now);
        Some(std::mem::take(&mut count.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_events_are_logged_once_a_minute_with_a_count() {
        let (tally, start) = (Tally::default(), Instant::now());
        let at = |seconds| tally.note_at(start + Duration::from_secs(seconds));
        assert_eq!(at(0), Some(1));
        assert_eq!((1..60).filter_map(at).count(), 0);
        assert_eq!((at(60), at(61), at(200)), (Some(60), None, Some(2)));
    }
}
