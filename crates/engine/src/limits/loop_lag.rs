//! A shard whose turns take too long: those who give it most to do wait, and everybody else goes on.
//!
//! While its shell says so, a shard counts second by second what each publisher makes it do. Whoever has had more than
//! the mean of the second before waits until the present one is over: its PUBLISH packets are parked as those of
//! `block` are, and its acknowledgements and pings are served. As long as turns stay long, less is allowed in each
//! second; once they are short again, more is. When it has lasted for as long as publishers may be made to wait, nobody
//! is held any more, and the policies of the queues decide what is dropped.
//!
//! Nothing is counted while turns are short.

use crate::connection::parking::Parking;
use std::collections::{BTreeMap, BTreeSet};

use crate::desk::{Desk, Timer};
use crate::engine::Engine;
use crate::event::Delay;
use crate::ids::{ConnectionKey, ShardId, TenantId};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::publish::dispatch::Source;
use crate::session::BlockedPublisher;

/// For how long work is counted, and a publisher held at most, before it is looked at anew, milliseconds.
const WINDOW_MS: u64 = 1000;
/// What a message costs beside its bytes, each time that it is handed on, in bytes.
const MESSAGE_BYTES: u64 = 256;
/// Publishers that are counted at once. Those beyond are not held.
const COUNTED_MAX: usize = 65_536;

/// What publishers have made a shard do lately whose turns take too long, and who waits for that.
#[derive(Debug)]
pub(crate) struct LoopLag {
    /// Until when turns are taken to be too long, if nobody says so again.
    until: Millis,
    /// Since when they have been without a break.
    since: Millis,
    /// When the present second is over, which is also the key among the timers; never while turns are short.
    window_ends: Millis,
    /// Whether a turn of this second was too long.
    long: bool,
    /// What each publisher may have done in this second, bytes; all of it until there was a second to compare with.
    allowed: u64,
    /// What each of them has had, bytes.
    work: BTreeMap<BlockedPublisher, u64>,
    waiting: BTreeSet<BlockedPublisher>,
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

    /// Counts work; says whether the publisher has had more than is allowed.
    fn count(&mut self, publisher: BlockedPublisher, work: u64) -> bool {
        if self.work.len() >= COUNTED_MAX && !self.work.contains_key(&publisher) {
            return false;
        }
        let had = self.work.entry(publisher).or_default();
        *had = had.saturating_add(work);
        *had > self.allowed
    }

    /// Begins the next second: decides from the last one what each publisher may have done in it.
    fn begin_window(&mut self, now: Millis, exempt: u64) {
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

impl Desk {
    /// Counts what a message has made this shard do that went to so many sessions. Whoever has made it do more than the
    /// others waits, unless that has not helped for as long as publishers may be made to wait.
    #[cold]
    pub(crate) fn charge_loop_lag(&mut self, now: Now, publisher: BlockedPublisher, receivers: usize, payload: usize) {
        let patient = now.monotonic.since(self.loop_lag.since) < self.settings.limits.block_timeout_ms;
        let work = (receivers as u64 + 1).saturating_mul(payload as u64 + MESSAGE_BYTES);
        if self.loop_lag.count(publisher, work) && patient && self.loop_lag.waiting.insert(publisher) {
            self.counters.held_for_lag += 1;
            self.to_park.push(publisher);
            if publisher.shard == self.shard {
                self.reports().tell_delayed(Delay::LoopLag, publisher.connection);
            }
        }
    }

    /// The same for a message that another shard has handed on. Brokers of a fleet are not held: what they bring,
    /// clients have sent.
    #[inline]
    pub(crate) fn charge_others_loop_lag(
        &mut self,
        now: Now,
        source: &Source,
        receivers: usize,
        publication: &Publication<'_>,
    ) {
        if self.loop_lag.is_on(now)
            && let Some(publisher) = source.publisher()
            && (publication.tenant == TenantId::UPLINK || self.settings.uplinks.is_none())
        {
            self.charge_loop_lag(now, publisher, receivers, publication.payload.len());
        }
    }
}

impl Engine {
    /// Tells that this shard's turns take too long, and will be taken to until then unless that is told again; `long`
    /// says whether the last one did. Publishers that give the shard most to do wait meanwhile.
    pub fn note_loop_lag(&mut self, now: Now, until: Millis, long: bool) {
        let lag = &mut self.desk.loop_lag;
        lag.until = lag.until.max(until);
        lag.long |= long;
        if !lag.has_timer() && lag.is_on(now) {
            lag.since = now.monotonic;
            lag.window_ends = now.monotonic.plus(WINDOW_MS);
            self.desk.timers.set(lag.window_ends, Timer::LoopLag);
        }
    }

    /// A second is over in which turns took too long, or had before. Whoever was held goes on.
    pub(crate) fn handle_loop_lag_timer(&mut self, now: Now) {
        let lag = &mut self.desk.loop_lag;
        self.desk.to_unpark.extend(std::mem::take(&mut lag.waiting));
        if lag.is_on(now) {
            lag.begin_window(now.monotonic, self.settings.limits.lag_exempt_bytes);
            self.desk.timers.set(lag.window_ends, Timer::LoopLag);
        } else {
            *lag = LoopLag::default();
        }
    }
}

impl Parking<'_> {
    /// Counts a message of a client of this shard.
    #[inline]
    pub(crate) fn charge_own_loop_lag(&mut self, now: Now, key: ConnectionKey, receivers: usize, payload: usize) {
        if self.desk.loop_lag.is_on(now) {
            let publisher = BlockedPublisher { shard: self.place.shard, connection: key };
            self.desk.charge_loop_lag(now, publisher, receivers, payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXEMPT: u64 = 1000;

    fn publisher(index: u32) -> BlockedPublisher {
        BlockedPublisher { shard: ShardId(0), connection: ConnectionKey { index, generation: 0 } }
    }

    #[test]
    fn less_is_allowed_in_each_long_second_and_more_in_each_short_one() {
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
    fn a_second_in_which_nobody_published_allows_no_more_than_the_one_before() {
        let mut lag = LoopLag { allowed: 1 << 20, long: true, ..LoopLag::default() };
        lag.begin_window(Millis(0), EXEMPT);
        assert_eq!(lag.allowed, (1 << 20) / 4 * 3);
    }

    #[test]
    fn so_many_publishers_are_counted_and_no_more() {
        let mut lag = LoopLag { allowed: 0, ..LoopLag::default() };
        let held = (0..=COUNTED_MAX as u32).filter(|index| lag.count(publisher(*index), 1)).count();
        assert_eq!((held, lag.work.len()), (COUNTED_MAX, COUNTED_MAX));
        assert!(lag.count(publisher(0), 1), "those who are counted are counted on");
    }
}
