//! Deadlines in order.

use crate::ids::{BrokerLinkKey, ConnectionKey, SessionKey};
use crate::now::Millis;
use std::collections::BTreeSet;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_and_once() {
        let mut timers = Timers::new();
        for (deadline, key) in [(30, 'c'), (10, 'b'), (10, 'a'), (20, 'a'), (10, 'a')] {
            timers.set(Millis(deadline), key);
        }
        assert_eq!((timers.len(), timers.next()), (4, Millis(10)));
        assert_eq!(timers.pop_due(Millis(9)), None);
        assert_eq!(timers.pop_due(Millis(10)), Some((Millis(10), 'a')));
        assert_eq!(timers.pop_due(Millis(10)), Some((Millis(10), 'b')));
        assert_eq!(timers.pop_due(Millis(10)), None);
        assert!(timers.cancel(Millis(20), 'a'));
        assert!(!timers.cancel(Millis(20), 'a'));
        assert_eq!(timers.pop_due(Millis(99)), Some((Millis(30), 'c')));
        assert!(timers.is_empty());
    }

    #[test]
    fn never_is_not_kept() {
        let mut timers = Timers::new();
        timers.set(Millis::NEVER, 1);
        assert_eq!((timers.len(), timers.next()), (0, Millis::NEVER));
        assert!(!timers.cancel(Millis::NEVER, 1));
        assert_eq!(timers.pop_due(Millis(u64::MAX - 1)), None);
    }
}

/// A set of deadlines with the keys of their waiters. The waiter keeps its deadline, by which it is found again; one
/// key may wait for several. Each operation takes logarithmic time.
///
/// [`Millis::NEVER`] is a deadline that is not kept, so a waiter without a deadline costs nothing.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    waiting: BTreeSet<(Millis, K)>,
}

impl<K: Copy + Ord> Timers<K> {
    /// No deadline; owns no memory.
    pub(crate) const fn new() -> Self {
        Self { waiting: BTreeSet::new() }
    }

    /// Number of deadlines ahead.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no timer is set.
    #[inline]
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Makes `key` due at `deadline`, in addition to whatever else it waits for.
    #[inline]
    pub(crate) fn set(&mut self, deadline: Millis, key: K) {
        if deadline != Millis::NEVER {
            self.waiting.insert((deadline, key));
        }
    }

    /// Takes back a deadline of [`Timers::set`]; returns whether it was still ahead.
    #[inline]
    pub(crate) fn cancel(&mut self, deadline: Millis, key: K) -> bool {
        deadline != Millis::NEVER && self.waiting.remove(&(deadline, key))
    }

    /// The earliest deadline, or [`Millis::NEVER`].
    #[inline]
    pub(crate) fn next(&self) -> Millis {
        self.waiting.first().map_or(Millis::NEVER, |first| first.0)
    }

    /// Takes the earliest deadline that has come by `now`, the lower key first among equals.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<(Millis, K)> {
        if self.next() > now {
            return None;
        }
        self.waiting.pop_first()
    }
}

impl<K: Copy + Ord> Default for Timers<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// The purpose of a deadline.
pub(crate) trait Waits: Copy + Ord {
    /// Whether the deadline means that a peer was silent for too long. Such a deadline has effect only after the input
    /// that had arrived by then has been taken.
    fn counts_silence(self) -> bool;
}

/// All deadlines of a shard: deadlines that count a peer's silence, and the others.
#[derive(Debug)]
pub(crate) struct Schedule<K> {
    work: Timers<K>,
    silence: Timers<K>,
}

impl<K: Waits> Schedule<K> {
    /// Number of deadlines ahead.
    pub(crate) fn len(&self) -> usize {
        self.work.len() + self.silence.len()
    }

    fn of(&mut self, key: K) -> &mut Timers<K> {
        if key.counts_silence() { &mut self.silence } else { &mut self.work }
    }

    /// As [`Timers::set`].
    #[inline]
    pub(crate) fn set(&mut self, deadline: Millis, key: K) {
        self.of(key).set(deadline, key);
    }

    /// As [`Timers::cancel`].
    #[inline]
    pub(crate) fn cancel(&mut self, deadline: Millis, key: K) -> bool {
        self.of(key).cancel(deadline, key)
    }

    /// The earliest deadline that does not count silence.
    #[inline]
    pub(crate) fn next(&self) -> Millis {
        self.work.next()
    }

    /// The earliest deadline that counts silence.
    #[inline]
    pub(crate) fn next_silence(&self) -> Millis {
        self.silence.next()
    }

    /// As [`Timers::pop_due`], for deadlines that do not count silence.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<(Millis, K)> {
        self.work.pop_due(now)
    }

    /// As [`Timers::pop_due`], for deadlines that count silence.
    #[inline]
    pub(crate) fn pop_silence(&mut self, heard: Millis) -> Option<(Millis, K)> {
        self.silence.pop_due(heard)
    }
}

impl<K: Waits> Default for Schedule<K> {
    fn default() -> Self {
        Self { work: Timers::new(), silence: Timers::new() }
    }
}

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// CONNECT timeout or keep-alive.
    Connection(ConnectionKey),
    /// A parked publisher has waited long enough.
    Parked(ConnectionKey),
    /// A publisher may go on after it was too fast.
    Rate(ConnectionKey),
    /// A will's delay is over.
    Will(SessionKey),
    /// A connection is expected no more whose client has connected again.
    FormerWill(SessionKey),
    /// Something in a session's queue has expired.
    Expiry(SessionKey),
    /// A session without a connection ends.
    SessionEnd(SessionKey),
    /// A second is over in which turns took too long.
    LoopLag,
    /// Publishers may have waited for a pipeline for too long.
    Pace,
    /// Messages of groups that wait for a member are looked at.
    Deals,
    /// The next round of `$SYS`.
    Sys,
    /// Counts of receipts are reported.
    Receipts,
    /// A broker link is probed, reached again, or given up.
    BrokerLink(BrokerLinkKey),
    /// Brokers of an earlier process that are not named are given up.
    FormerBrokerLinks,
}

impl Waits for Timer {
    fn counts_silence(self) -> bool {
        match self {
            Self::Connection(_) | Self::Parked(_) | Self::Will(_) | Self::SessionEnd(_) | Self::BrokerLink(_) => true,
            Self::Rate(_)
            | Self::FormerWill(_)
            | Self::Expiry(_)
            | Self::LoopLag
            | Self::Pace
            | Self::Deals
            | Self::Sys
            | Self::Receipts
            | Self::FormerBrokerLinks => false,
        }
    }
}
