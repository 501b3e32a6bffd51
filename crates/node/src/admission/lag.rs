//! Overload: when the turns of a shard take too long, new connections are the first thing that is given up, and then
//! those wait who give the shard most to do.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_engine::Millis;

/// How long the past counts, milliseconds: a single long turn among short ones is no overload.
const MEMORY_MS: u64 = 5_000;

/// Longest time for which one turn can announce overload, milliseconds.
const LONGEST_MS: u64 = 30_000;

/// Longest turn and longest pause that are measured, milliseconds.
const HOUR_MS: u64 = 3_600_000;

/// How often the claim of a shard's thread is read at most, milliseconds.
const CLAIM_READ_MS: u64 = 50;

/// A turn counts with at most this multiple of the claim of its thread: the time in which it has used a processor or
/// waited for one. A thread waits while others use all processors, and while its container has used up its quota: both
/// are overload. During a turn that is longer than that, the process was stopped or the machine suspended, which is no
/// work of the shard.
const WALL_PER_CLAIM: u64 = 4;

/// The length of a shard's turns: a mean over the last seconds, in which each moment counts with the length of its
/// turn. Time spent waiting for events counts as 0.
#[derive(Debug)]
pub(crate) struct LoopLag {
    /// Microseconds, so that rounding down does not make it vanish.
    mean_us: u64,
    /// When the last turn ended.
    ended: Millis,
    /// The claim of the thread when it was last read, microseconds, and when that was.
    claim: (u64, Millis),
    /// Whether the mean was above the mark, and has not been a quarter below it since.
    over: bool,
}

/// A shard with too long turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong {
    /// Until when they will, if the shard is idle from now on.
    pub until: Millis,
    /// Whether the last one did. After a single very long turn the mean is above the mark for a while without that.
    pub still: bool,
}

impl LoopLag {
    /// A shard that begins now.
    pub(crate) fn new(now: Millis) -> Self {
        Self { mean_us: 0, ended: now, claim: (0, now), over: false }
    }

    /// Notes a turn. Returns whether turns take too long: from when the mean is above `mark_ms` until it is a quarter
    /// below, so that a shard at its mark does not go to and fro.
    pub(crate) fn note(&mut self, began: Millis, ended: Millis, mark_ms: u64) -> Option<TooLong> {
        let turn = ended.since(began).min(HOUR_MS);
        self.mean_us = (self.faded(began) * MEMORY_MS + turn * turn * 1000) / (turn + MEMORY_MS);
        self.ended = ended;
        let high_us = mark_ms.min(HOUR_MS) * 1000;
        let low_us = high_us / 4 * 3;
        self.over = high_us != 0 && self.mean_us > if self.over { low_us } else { high_us };
        if !self.over {
            return None;
        }
        // The moment at which it has faded enough.
        let left = (MEMORY_MS * (self.mean_us - low_us)).div_ceil(low_us);
        Some(TooLong { until: ended.plus(left.min(LONGEST_MS)), still: turn * 1000 > low_us })
    }

    /// When a turn would have begun if it had taken only the time that its thread was busy or wanted to be. `claim_us`
    /// reads the claim of the thread since its start, microseconds; without it, all of the turn counts.
    pub(crate) fn busy_from(&mut self, began: Millis, ended: Millis, claim_us: impl FnOnce() -> Option<u64>) -> Millis {
        if ended.since(self.claim.1) < CLAIM_READ_MS {
            return began;
        }
        let Some(now_us) = claim_us() else { return began };
        let claimed_us = now_us.saturating_sub(self.claim.0);
        self.claim = (now_us, ended);
        let longest = claimed_us.saturating_mul(WALL_PER_CLAIM).div_ceil(1000);
        Millis(ended.0 - ended.since(began).min(longest).min(ended.0))
    }

    /// When the last turn ended.
    pub(crate) fn ended(&self) -> Millis {
        self.ended
    }

    /// The mean at a moment, milliseconds.
    pub(crate) fn at(&self, now: Millis) -> u64 {
        self.faded(now) / 1000
    }

    fn faded(&self, now: Millis) -> u64 {
        self.mean_us * MEMORY_MS / (MEMORY_MS + now.since(self.ended).min(HOUR_MS))
    }
}

/// Until when the node is overloaded, over all shards. It expires: an idle shard reports nothing.
#[derive(Debug, Default)]
pub(crate) struct Overload(AtomicU64);

impl Overload {
    /// A shard is overloaded until then.
    pub(crate) fn announce(&self, until: Millis) {
        self.0.fetch_max(until.0, Ordering::Relaxed);
    }

    /// Whether some shard is.
    pub(crate) fn holds(&self, now: Millis) -> bool {
        now.0 < self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Turns of one length without a pause.
    fn turns(lag: &mut LoopLag, now: &mut Millis, length: u64, times: u32, mark: u64) -> Option<TooLong> {
        let mut last = None;
        for _ in 0..times {
            let began = *now;
            *now = now.plus(length);
            last = lag.note(began, *now, mark);
        }
        last
    }

    #[test]
    fn short_turns_are_no_overload_however_many() {
        let (mut lag, mut now) = (LoopLag::new(Millis(0)), Millis(0));
        assert_eq!(turns(&mut lag, &mut now, 900, 1000, 1000), None);
        assert!((800..=900).contains(&lag.at(now)));
    }

    #[test]
    fn long_turns_are_a_lag_that_ends() {
        let (mut lag, mut now) = (LoopLag::new(Millis(0)), Millis(0));
        assert_eq!(turns(&mut lag, &mut now, 1500, 1, 1000), None, "one is not enough");
        let TooLong { until, still } = turns(&mut lag, &mut now, 1500, 30, 1000).unwrap();
        assert!(still);
        let overload = Overload::default();
        overload.announce(until);
        overload.announce(Millis(1));
        assert!(overload.holds(now) && overload.holds(Millis(until.0 - 1)) && !overload.holds(until));
        assert!(lag.at(until) <= 750, "an idle shard has recovered by then");
        assert_eq!(turns(&mut lag, &mut now, 5, 2000, 1000), None, "short turns bring it down as well");
    }

    #[test]
    fn one_turn_of_many_seconds_is_overload_at_once() {
        let (mut lag, mut now) = (LoopLag::new(Millis(0)), Millis(0));
        let long = turns(&mut lag, &mut now, 60_000, 1, 1000);
        assert_eq!(long, Some(TooLong { until: now.plus(30_000), still: true }));
        let short = turns(&mut lag, &mut now, 10, 1, 1000).unwrap();
        assert!(!short.still, "the mean is still above the mark, and turns are short");
        assert_eq!(turns(&mut LoopLag::new(Millis(0)), &mut Millis(0), 60_000, 1, 0), None, "no mark, no overload");
    }

    #[test]
    fn a_stop_of_the_process_is_no_overload() {
        let mut lag = LoopLag::new(Millis(0));
        assert_eq!(lag.busy_from(Millis(10), Millis(12), || panic!("read too often")), Millis(10));
        assert_eq!(lag.busy_from(Millis(90), Millis(100), || Some(10_000)), Millis(90));
        let stopped = lag.busy_from(Millis(120), Millis(30_120), || Some(60_000));
        assert_eq!(stopped, Millis(29_920), "50 ms of work, a quarter of 200 ms");
        assert_eq!(lag.note(stopped, Millis(30_120), 1000), None);
        let worked = lag.busy_from(Millis(30_120), Millis(60_120), || Some(25_000_000));
        assert_eq!(worked, Millis(30_120), "it was busy, though other processes were, too");
        assert_eq!(lag.busy_from(Millis(70_000), Millis(80_000), || None), Millis(70_000));
    }

    #[test]
    fn a_container_above_its_quota_is_overloaded() {
        // A quota of a twentieth: in 2 s the thread has used 0.1 s and waited 1.3 s for the rest, as Linux counts it.
        let (used, waited) = (100_000, 1_300_000);
        let mut lag = LoopLag::new(Millis(0));
        let began = lag.busy_from(Millis(100), Millis(2_100), || Some(used + waited));
        assert_eq!(began, Millis(100), "the whole turn counts");
        // A stop between: it neither uses a processor nor waits for one.
        let stopped = lag.busy_from(Millis(2_100), Millis(32_100), || Some(used + waited + 10_000));
        assert_eq!(stopped, Millis(32_060));
    }

    #[test]
    fn a_mean_near_the_mark_does_not_go_to_and_fro() {
        let (mut lag, mut now) = (LoopLag::new(Millis(0)), Millis(0));
        assert_eq!(turns(&mut lag, &mut now, 900, 100, 1000), None, "it has not been above");
        assert!(turns(&mut lag, &mut now, 1500, 10, 1000).is_some());
        assert!(turns(&mut lag, &mut now, 900, 100, 1000).is_some(), "it has not been a quarter below");
        assert_eq!(turns(&mut lag, &mut now, 700, 100, 1000), None);
        assert_eq!(turns(&mut lag, &mut now, 900, 100, 1000), None);
    }

    proptest! {
        #[test]
        fn the_mean_stays_below_the_longest_turn(steps in prop::collection::vec((0_u64..3000, 0_u64..3000), 1..100)) {
            let (mut lag, mut now) = (LoopLag::new(Millis(0)), Millis(0));
            let longest = steps.iter().map(|(_, turn)| *turn).max().unwrap_or_default();
            for (idle, turn) in steps {
                let began = now.plus(idle);
                now = began.plus(turn);
                lag.note(began, now, 1000);
                prop_assert!(lag.at(now) <= longest);
            }
        }
    }
}
