//! Marks: other nodes confirm that the records before a mark have arrived.
//!
//! A shard that learns that its interest is known asks the homes of topics for retained messages next. By then, this
//! shard's messages to those homes must have arrived. Within a process they have, once they are handed over; another
//! node has to return a mark.

use std::collections::VecDeque;

use crate::ids::ShardId;
use crate::roster::Shards;

/// Sent marks that have not returned.
#[derive(Debug, Default)]
pub(super) struct SentMarks {
    /// Shards of other nodes that were sent messages since the last mark.
    unmarked: Shards,
    sent: u64,
    waiting: VecDeque<(u64, Shards)>,
}

impl SentMarks {
    /// A message was sent to a shard of another node.
    #[inline]
    pub(super) fn note_message(&mut self, peer: ShardId) {
        self.unmarked.add(peer);
    }

    /// The number of the last mark, and the shards to which it has yet to be sent.
    pub(super) fn set(&mut self) -> (u64, Shards) {
        let to = std::mem::take(&mut self.unmarked);
        if to != Shards::default() {
            self.sent += 1;
            self.waiting.push_back((self.sent, to));
        }
        (self.sent, to)
    }

    /// A mark has returned.
    pub(super) fn take_back(&mut self, peer: ShardId, number: u64) {
        for (mark, waiting) in &mut self.waiting {
            if *mark == number {
                *waiting = waiting.without(Shards::of(peer));
            }
        }
        self.drop_complete();
    }

    /// A peer is gone: its marks do not return.
    pub(super) fn forget(&mut self, peer: ShardId) {
        self.unmarked = self.unmarked.without(Shards::of(peer));
        for (_, waiting) in &mut self.waiting {
            *waiting = waiting.without(Shards::of(peer));
        }
        self.drop_complete();
    }

    fn drop_complete(&mut self) {
        self.waiting.retain(|(_, waiting)| *waiting != Shards::default());
    }

    /// True if all marks up to this one have returned, except from `peer`: it asks, and its own link keeps the order.
    pub(super) fn are_back(&self, number: u64, peer: ShardId) -> bool {
        let mut before = self.waiting.iter().take_while(|(mark, _)| *mark <= number);
        before.all(|(_, waiting)| waiting.without(Shards::of(peer)) == Shards::default())
    }
}
