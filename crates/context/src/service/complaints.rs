//! Unusable messages: their counts, and a line in the log now and then.

use std::time::Instant;

use tidegate_bus::Tally;

use super::counters::{CoreCounters, Count};
use super::left_out::LeftOut;

/// Bytes of a name that a line of the log shows.
const SHOWN_BYTES: usize = 64;

/// Counts unusable data, and logs each cause once a minute at most.
#[derive(Debug, Default)]
pub(super) struct Complaints([Tally; LeftOut::ALL.len()]);

impl Complaints {
    /// Something was left out, which `whose` has said or which is about it.
    pub(super) fn note(&self, counters: &CoreCounters, why: LeftOut, whose: &str) {
        counters.left_out(why).add(1);
        if let Some(times) = self.due(why, Instant::now()) {
            let whose: String = whose.chars().take(SHOWN_BYTES).collect();
            tracing::warn!(cause = why.label(), times, whose, "{why}; it was left out");
        }
    }

    /// The count to log now.
    fn due(&self, why: LeftOut, now: Instant) -> Option<u64> {
        LeftOut::ALL.iter().position(|it| *it == why).and_then(|at| self.0.get(at))?.note_at(now)
    }
}

impl CoreCounters {
    /// The counter of a cause.
    fn left_out(&self, why: LeftOut) -> &Count {
        match why {
            LeftOut::TooLong => &self.left_out_too_long,
            LeftOut::NotJson => &self.left_out_not_json,
            LeftOut::Name => &self.left_out_name,
            LeftOut::Advertisement => &self.left_out_advertisement,
            LeftOut::Definer => &self.left_out_definer,
            LeftOut::Limit => &self.left_out_limit,
            LeftOut::Groups => &self.left_out_groups,
            LeftOut::Record => &self.left_out_records,
            LeftOut::NotStored => &self.left_out_not_stored,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_cause_is_logged_once_a_minute_with_its_count() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(complaints.due(LeftOut::NotJson, at(0)), Some(1));
        assert_eq!(complaints.due(LeftOut::TooLong, at(0)), Some(1), "another cause");
        assert_eq!((1..60).filter_map(|second| complaints.due(LeftOut::NotJson, at(second))).count(), 0);
        assert_eq!(complaints.due(LeftOut::NotJson, at(60)), Some(60));
    }

    #[test]
    fn each_cause_is_counted_separately() {
        let (counters, complaints) = (CoreCounters::default(), Complaints::default());
        for (times, why) in (1..).zip(LeftOut::ALL) {
            (0..times).for_each(|_| complaints.note(&counters, why, "n"));
        }
        let counted = counters.figures().left_out();
        assert_eq!(counted.map(|(_, count)| count), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(counted.map(|(why, _)| why), LeftOut::ALL.map(LeftOut::label));
    }
}
