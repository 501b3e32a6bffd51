//! A shard whose turns take too long: the publishers that cause most work wait, and all other clients continue.
//!
//! While its shell reports long turns, a shard counts the work of each publisher per second. A publisher with more than
//! the mean of the second before waits until the present one is over: its PUBLISH packets are parked as with the policy
//! `block`, and its acknowledgements and pings are served. As long as turns stay long, less is allowed in each second;
//! once they are short again, more is. When this has lasted as long as publishers may be made to wait, no publisher is
//! held any more, and the policies of the queues decide which messages are dropped.
//!
//! Nothing is counted while turns are short.

use crate::ids::ShardId;
use crate::now::{Millis, Now};
use crate::session::BlockedPublisher;
use std::collections::{BTreeMap, BTreeSet};

/// The time in which work is counted and a publisher held at most, milliseconds.
pub(crate) const WINDOW_MS: u64 = 1000;

/// Publishers that are counted at once. Those beyond are not held.
const COUNTED_MAX: usize = 65_536;

/// The recent use of a shard by publishers while its turns are too long, and the publishers that wait.
#[derive(Debug)]
pub(crate) struct LoopLag {
    /// The time until which turns count as too long, if no report follows.
    pub(crate) until: Millis,
    /// Since when they have been without a break.
    pub(crate) since: Millis,
    /// When the present second is over, which is also the key among the timers; never while turns are short.
    pub(crate) window_ends: Millis,
    /// Whether a turn of this second was too long.
    pub(crate) long: bool,
    /// The work allowed to each publisher in this second, bytes; unlimited until a second has been measured.
    allowed: u64,
    /// The work done for each of them, bytes.
    work: BTreeMap<BlockedPublisher, u64>,
    pub(crate) waiting: BTreeSet<BlockedPublisher>,
}

impl Default for LoopLag {
    fn default() -> Self {
        Self {
            until: Millis(0),
            since: Millis(0),
            window_ends: Millis::NEVER,
            long: false,
            allowed: u64::MAX,
            work: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }
}

impl LoopLag {
    /// Whether turns take too long at the moment.
    #[inline]
    pub(crate) fn is_on(&self, now: Now) -> bool {
        now.monotonic < self.until
    }

    /// Whether a publisher waits for shorter turns.
    pub(crate) fn holds(&self, publisher: &BlockedPublisher) -> bool {
        self.waiting.contains(publisher)
    }

    /// Whether it has a timer.
    pub(crate) fn has_timer(&self) -> bool {
        self.window_ends != Millis::NEVER
    }

    /// No publisher of a shard waits any longer.
    pub(crate) fn give_up_shard(&mut self, shard: ShardId) {
        self.waiting.retain(|publisher| publisher.shard != shard);
        self.work.retain(|publisher, _| publisher.shard != shard);
    }

    /// A publisher waits no longer.
    pub(crate) fn give_up(&mut self, publisher: &BlockedPublisher) {
        self.waiting.remove(publisher);
    }

    /// Counts work; returns whether the publisher has had more than is allowed.
    pub(crate) fn count(&mut self, publisher: BlockedPublisher, work: u64) -> bool {
        if self.work.len() >= COUNTED_MAX && !self.work.contains_key(&publisher) {
            return false;
        }
        let had = self.work.entry(publisher).or_default();
        *had = had.saturating_add(work);
        *had > self.allowed
    }

    /// Begins the next second: decides from the last one how much work each publisher may cause in it.
    pub(crate) fn begin_window(&mut self, now: Millis, exempt: u64) {
        if self.long {
            let sum = self.work.values().fold(0_u64, |sum, work| sum.saturating_add(*work));
            let mean = sum.checked_div(self.work.len() as u64).unwrap_or(u64::MAX);
            self.allowed = mean.min(self.allowed / 4 * 3).max(exempt);
        } else {
            self.allowed = self.allowed.saturating_mul(2);
        }
        self.long = false;
        self.work.clear();
        self.window_ends = now.plus(WINDOW_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ConnectionKey;

    const EXEMPT: u64 = 1000;

    fn publisher(index: u32) -> BlockedPublisher {
        BlockedPublisher { shard: ShardId(0), connection: ConnectionKey { index, generation: 0 } }
    }

    #[test]
    fn the_allowance_falls_in_long_and_rises_in_short_seconds() {
        let mut lag = LoopLag::default();
        assert!(!lag.count(publisher(0), 1 << 40), "there is nothing to compare with yet");
        lag.count(publisher(1), 0);
        lag.long = true;
        lag.begin_window(Millis(0), EXEMPT);
        assert_eq!(lag.allowed, 1 << 39, "the mean");
        let mut before = lag.allowed;
        while before > EXEMPT {
            lag.count(publisher(0), before);
            lag.long = true;
            lag.begin_window(Millis(0), EXEMPT);
            assert!(lag.allowed <= (before / 4 * 3).max(EXEMPT), "{} after {before}", lag.allowed);
            before = lag.allowed;
        }
        assert!(!lag.count(publisher(0), EXEMPT) && lag.count(publisher(0), 1));
        for _ in 0..64 {
            lag.begin_window(Millis(0), EXEMPT);
        }
        assert_eq!(lag.allowed, u64::MAX);
    }

    #[test]
    fn a_second_without_a_publish_keeps_the_allowance() {
        let mut lag = LoopLag { allowed: 1 << 20, long: true, ..LoopLag::default() };
        lag.begin_window(Millis(0), EXEMPT);
        assert_eq!(lag.allowed, (1 << 20) / 4 * 3);
    }

    #[test]
    fn publishers_beyond_the_limit_are_not_counted() {
        let mut lag = LoopLag { allowed: 0, ..LoopLag::default() };
        let held = (0..=COUNTED_MAX as u32).filter(|index| lag.count(publisher(*index), 1)).count();
        assert_eq!((held, lag.work.len()), (COUNTED_MAX, COUNTED_MAX));
        assert!(lag.count(publisher(0), 1), "counted publishers stay counted");
    }
}
