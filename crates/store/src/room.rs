//! Decides when a full store is merged to free the space of dead entries. Pure, so that the policy can be read and
//! tested in one place.
//!
//! A delete takes tens of bytes of journal where the deleted entry took thousands, so the usual threshold would never
//! be reached. A full store is therefore merged after any write, and once after it was opened. A store that is full of
//! live entries must not be merged again and again.

use std::time::{Duration, Instant};

/// Pause before the next merge for room; it doubles with each that did not give enough, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// A merge rewrites the table: the next one waits at least this multiple of the last one's duration.
const MERGE_TIMES: u32 = 8;

/// When merges for room were asked for.
#[derive(Debug, Default)]
pub(crate) struct Room {
    asked: Option<Instant>,
    /// How many were asked for since there was room.
    attempts: u32,
}

impl Room {
    /// Whether a merge may be asked for now, where room is lacking and the last merge took so long.
    pub(crate) fn is_due(&mut self, now: Instant, lacks_room: bool, merge_took: Duration) -> bool {
        if !lacks_room {
            self.attempts = 0;
            return false;
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.attempts.saturating_sub(1).min(10));
        let pause = doubled.min(LONGEST_PAUSE).max(merge_took.saturating_mul(MERGE_TIMES));
        // Also where there was room in between: otherwise a store at its limit would be merged for each few messages.
        self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= pause)
    }

    /// A merge was asked for.
    pub(crate) fn note_asked(&mut self, now: Instant) {
        self.asked = Some(now);
        self.attempts = self.attempts.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of merges requested within a number of seconds, with a request every tenth of a second.
    fn merges(seconds: u32, lacks_room: impl Fn(u32) -> bool, merge_took: Duration) -> u32 {
        let (begin, mut room, mut merges) = (Instant::now(), Room::default(), 0);
        for tenth in 0..seconds * 10 {
            let now = begin + Duration::from_millis(100) * tenth;
            if room.is_due(now, lacks_room(tenth), merge_took) {
                room.note_asked(now);
                merges += 1;
            }
        }
        merges
    }

    #[test]
    fn a_full_store_is_merged_at_once_and_others_are_not() {
        assert!(Room::default().is_due(Instant::now(), true, Duration::from_secs(60)));
        assert_eq!(merges(100, |_| false, Duration::ZERO), 0);
    }

    #[test]
    fn a_store_full_of_live_entries_is_merged_ever_more_rarely() {
        // At 0, 1, 3, 7, 15, 23 s and so on.
        assert_eq!(merges(10, |_| true, Duration::ZERO), 4);
        assert_eq!(merges(100, |_| true, Duration::ZERO), 4 + 11);
        assert_eq!(merges(100, |_| true, Duration::from_secs(5)), 3, "each eight times as long after as it takes");
    }

    #[test]
    fn a_store_that_fills_again_and_again_is_not_merged_each_time() {
        assert_eq!(merges(10, |tenth| tenth % 2 == 0, Duration::ZERO), 10);
        assert_eq!(merges(100, |tenth| tenth % 2 == 0, Duration::from_secs(2)), 7);
    }
}
