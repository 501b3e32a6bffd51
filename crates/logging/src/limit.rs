//! The limit of lines of a kind: clients, servers and other nodes cause lines, as many as they like.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;

/// Lines of a kind that are written within [`PERIOD`]. Beyond it, one is written per period from then on, until a
/// period has fewer.
pub(super) const LINES: u64 = 100;

/// Time within which lines are counted.
const PERIOD: Duration = Duration::from_secs(60);

/// Limits the lines of each call site of the log: their number is fixed by the program.
#[derive(Debug, Default)]
pub(super) struct Limits(Mutex<HashMap<Identifier, Limit>>);

impl Limits {
    /// Counts a line of a place. Returns the notes to write with it, or `None` if it is left out.
    pub(super) fn note(&self, place: Identifier, now: Instant) -> Option<Told> {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        limits.entry(place).or_insert_with(|| Limit::starting(now)).note(now)
    }
}

/// The notes in a line about lines left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Lines of its kind before it that were left out.
    pub(super) omitted: u64,
    /// Further ones are left out for a while.
    pub(super) is_last: bool,
}

/// The lines of one kind.
#[derive(Debug)]
struct Limit {
    /// When the present period began.
    began: Instant,
    /// Lines since then.
    lines: u64,
    /// The number of lines that this period may write.
    allowed: u64,
    /// Lines since the last written one.
    omitted: u64,
}

impl Limit {
    fn starting(now: Instant) -> Self {
        Self { began: now, lines: 0, allowed: LINES, omitted: 0 }
    }

    /// Counts a line at a given time; times never decrease.
    fn note(&mut self, now: Instant) -> Option<Told> {
        let past = now.saturating_duration_since(self.began);
        if past >= PERIOD {
            // A lasting flood has one line per period. It is over when a period had no more lines than the limit.
            let floods = self.lines > LINES && past < 2 * PERIOD;
            let allowed = if floods { 1 } else { LINES };
            *self = Self { allowed, omitted: self.omitted, ..Self::starting(now) };
        }
        self.lines += 1;
        if self.lines > self.allowed {
            self.omitted += 1;
            return None;
        }
        Some(Told { omitted: std::mem::take(&mut self.omitted), is_last: self.lines == self.allowed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Told = Told { omitted: 0, is_last: false };

    /// Lines of one kind at these times in milliseconds.
    struct Lines {
        start: Instant,
        limit: Limit,
    }

    impl Lines {
        fn new() -> Self {
            let start = Instant::now();
            Self { start, limit: Limit::starting(start) }
        }

        fn at(&mut self, milliseconds: u64) -> Option<Told> {
            self.limit.note(self.start + Duration::from_millis(milliseconds))
        }

        /// The notes of the written lines, out of a number of lines with ten milliseconds between them.
        fn flood(&mut self, from: u64, count: u64) -> Vec<Told> {
            (0..count).filter_map(|line| self.at(from + line * 10)).collect()
        }
    }

    #[test]
    fn a_flood_is_cut_to_its_first_lines_and_one_count_a_minute() {
        let mut lines = Lines::new();
        // 6,000 a minute, for five minutes.
        let told = lines.flood(0, 5 * 6_000);
        let (first, further) = told.split_at(LINES as usize);
        assert!(first[..first.len() - 1].iter().all(|line| *line == NONE), "the first ones are whole");
        assert_eq!(first.last(), Some(&Told { omitted: 0, is_last: true }), "the last of them says so");
        let omitted = [6_000 - LINES, 5_999, 5_999, 5_999];
        assert_eq!(further, omitted.map(|omitted| Told { omitted, is_last: true }));
    }

    #[test]
    fn rare_lines_are_all_logged() {
        let mut lines = Lines::new();
        // Lines at the limit per minute, for an hour.
        let told = (0..60 * LINES).filter_map(|line| lines.at(line * 60_000 / LINES)).count();
        assert_eq!(told as u64, 60 * LINES);
    }

    #[test]
    fn after_a_flood_all_lines_and_the_count_of_the_omitted_come() {
        let mut lines = Lines::new();
        assert_eq!(lines.flood(0, LINES + 50).len() as u64, LINES);
        assert_eq!(lines.at(60_000), Some(Told { omitted: 50, is_last: true }), "it may go on");
        assert_eq!((lines.at(60_001), lines.at(60_002)), (None, None));
        // That minute had no more lines than the limit.
        assert_eq!(lines.at(120_000), Some(Told { omitted: 2, is_last: false }));
        assert_eq!(lines.flood(120_001, LINES).len() as u64, LINES - 1);
        // No line for a long time, so no line to carry the count.
        assert_eq!(lines.flood(600_000, LINES).first(), Some(&Told { omitted: 1, is_last: false }));
    }
}
