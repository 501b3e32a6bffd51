//! Exact accounts of each receiver's messages: which have arrived, how often, and in which order.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::chance::mix;

/// The kind of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// The next one, or a later one: the messages between are missing so far.
    New {
        /// Messages that are missing before it.
        missing: u32,
    },
    /// A missing one.
    Reordered,
    /// A duplicate.
    Duplicate,
}

/// Why messages are missing, as far as a receiver can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It was connected and read slowly on purpose.
    Overflow,
    /// It was away for longer than messages are kept.
    Expiry,
    /// It was away.
    Disconnect,
    /// It cannot see why.
    Unknown,
}

/// Missing messages that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    first: u32,
    last: u32,
    cause: Cause,
}

/// A receiver's messages of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// The first message that is due.
    first: u32,
    /// The message after the latest received one.
    next: u32,
    /// The receiver's connection of the latest message.
    epoch: u32,
    /// The missing messages before `next`; most tracks have none.
    gaps: Vec<Gap>,
}

/// A receiver at the moment of a receipt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// How many connections it has lost.
    pub(crate) epoch: u32,
    /// The cause of losses while it is connected.
    pub(crate) connected: Cause,
    /// Why messages went missing while it was away.
    pub(crate) away: Cause,
}

impl Circumstances {
    fn cause(self, epoch: u32) -> Cause {
        if epoch == self.epoch { self.connected } else { self.away }
    }
}

/// Missing messages, by the circumstances that the receiver can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) overflow: u64,
    pub(crate) expiry: u64,
    pub(crate) disconnect: u64,
    pub(crate) unknown: u64,
}

impl Missing {
    pub(crate) fn add(&mut self, cause: Cause, messages: u64) {
        *match cause {
            Cause::Overflow => &mut self.overflow,
            Cause::Expiry => &mut self.expiry,
            Cause::Disconnect => &mut self.disconnect,
            Cause::Unknown => &mut self.unknown,
        } += messages;
    }

    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.overflow + self.expiry + self.disconnect + self.unknown
    }
}

impl Track {
    /// A track on which messages are due from this one on.
    pub(crate) fn from(first: u32, epoch: u32) -> Self {
        Self { first, next: first, epoch, gaps: Vec::new() }
    }

    /// Takes in a message.
    pub(crate) fn take(&mut self, sequence: u32, now: Circumstances) -> Receipt {
        if sequence < self.next {
            return if self.fill(sequence) { Receipt::Reordered } else { Receipt::Duplicate };
        }
        let missing = sequence - self.next;
        if missing > 0 {
            let gap = Gap { first: self.next, last: sequence - 1, cause: now.cause(self.epoch) };
            self.gaps.push(gap);
        }
        self.next = sequence + 1;
        self.epoch = now.epoch;
        Receipt::New { missing }
    }

    /// Removes a message from the missing ones; returns whether it was missing. Before the first due message, none is.
    fn fill(&mut self, sequence: u32) -> bool {
        let gaps = &mut self.gaps;
        let at = gaps.partition_point(|gap| gap.last < sequence);
        let Some(gap) = gaps.get_mut(at).filter(|gap| gap.first <= sequence) else { return false };
        match (gap.first == sequence, gap.last == sequence) {
            (true, true) => {
                gaps.remove(at);
            }
            (true, false) => gap.first += 1,
            (false, true) => gap.last -= 1,
            (false, false) => {
                let before = Gap { last: sequence - 1, ..*gap };
                gap.first = sequence + 1;
                gaps.insert(at, before);
            }
        }
        true
    }

    /// The number of due messages of a stream with `sent` messages.
    pub(crate) fn due(&self, sent: u32) -> u64 {
        u64::from(sent.saturating_sub(self.first))
    }

    /// The missing messages of a stream with `sent` messages.
    pub(crate) fn missing(&self, sent: u32, end: Circumstances) -> Missing {
        let mut missing = Missing::default();
        for gap in &self.gaps {
            missing.add(gap.cause, u64::from(gap.last - gap.first) + 1);
        }
        missing.add(end.cause(self.epoch), u64::from(sent.saturating_sub(self.next)));
        missing
    }
}

/// The tracks of all receivers.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    tracks: HashMap<u64, Track, BuildHasherDefault<Mixed>>,
}

impl Ledger {
    /// Counts a message of a receiver. `from_begin` means that all messages were due to it; otherwise messages are due
    /// from the first received one on.
    #[inline]
    pub(crate) fn take(
        &mut self,
        receiver: u32,
        stream: u32,
        sequence: u32,
        from_begin: bool,
        now: Circumstances,
    ) -> Receipt {
        let track = self.tracks.entry(key(receiver, stream)).or_insert_with(|| {
            let first = if from_begin { 0 } else { sequence };
            Track::from(first, if from_begin { 0 } else { now.epoch })
        });
        track.take(sequence, now)
    }

    /// A receiver's messages of a stream; `None` when none has arrived.
    pub(crate) fn track(&self, receiver: u32, stream: u32) -> Option<&Track> {
        self.tracks.get(&key(receiver, stream))
    }
}

fn key(receiver: u32, stream: u32) -> u64 {
    u64::from(receiver) << 32 | u64::from(stream)
}

/// Spreads numeric keys. They are not chosen by an attacker.
#[derive(Clone, Copy, Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(number);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const NOW: Circumstances = Circumstances { epoch: 0, connected: Cause::Unknown, away: Cause::Disconnect };

    proptest! {
        /// Compared with a simple model: a set of received messages, and the latest one.
        #[test]
        fn every_order_is_counted_as_by_a_set(sequences in prop::collection::vec(0..40_u32, 0..120), sent in 40..60_u32) {
            let mut track = Track::from(0, 0);
            let (mut seen, mut latest) = (BTreeSet::new(), None);
            for sequence in sequences {
                let expected = if !seen.insert(sequence) {
                    Receipt::Duplicate
                } else if latest > Some(sequence) {
                    Receipt::Reordered
                } else {
                    Receipt::New { missing: sequence - latest.map_or(0, |latest: u32| latest + 1) }
                };
                latest = latest.max(Some(sequence));
                prop_assert_eq!(track.take(sequence, NOW), expected);
                prop_assert_eq!(track.missing(sent, NOW).total() + seen.len() as u64, track.due(sent));
            }
        }
    }

    #[test]
    fn losses_around_an_absence_have_it_as_their_cause() {
        let mut track = Track::from(0, 0);
        let connected = Circumstances { epoch: 0, connected: Cause::Overflow, away: Cause::Disconnect };
        let back = Circumstances { epoch: 1, ..connected };
        track.take(0, connected);
        track.take(3, connected);
        assert_eq!(track.take(10, back), Receipt::New { missing: 6 });
        assert_eq!(track.take(5, back), Receipt::Reordered, "a broker repeats messages in flight");
        let gone = Circumstances { epoch: 2, ..back };
        let missing = track.missing(12, gone);
        assert_eq!(missing, Missing { overflow: 2, disconnect: 5 + 1, ..Missing::default() });
    }

    #[test]
    fn to_a_late_subscriber_messages_are_due_from_its_first() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.take(1, 2, 50, false, NOW), Receipt::New { missing: 0 });
        assert_eq!(ledger.take(1, 2, 49, false, NOW), Receipt::Duplicate, "it was not due, so it is one too many");
        assert_eq!(ledger.track(1, 2).unwrap().due(60), 10);
        assert_eq!(ledger.take(1, 3, 5, true, NOW), Receipt::New { missing: 5 });
        assert_eq!(ledger.track(1, 3).unwrap().due(60), 60);
    }
}
