//! A shard near its memory ceiling: publishers that fill the memory wait first, and messages are dropped only after
//! that.

use crate::ids::ShardId;
use crate::memory::MemoryUse;
use crate::session::BlockedPublisher;
use std::collections::BTreeSet;

/// Publishers that wait for the memory of a shard.
#[derive(Debug, Default)]
pub(crate) struct Overload {
    pub(crate) waiting: BTreeSet<BlockedPublisher>,
    /// One has waited too long: until there is memory again, the policies of the queues decide at the ceiling.
    pub(crate) given_up: bool,
}

impl Overload {
    /// True if connections that wait for memory may continue: a quarter below the ceiling.
    #[inline]
    pub(crate) fn has_memory_again(&self, memory: &MemoryUse) -> bool {
        (self.given_up || !self.waiting.is_empty()) && memory.taken() - memory.input_bytes <= memory.ceiling / 4 * 3
    }

    /// Whether a publisher waits for memory.
    pub(crate) fn holds(&self, publisher: &BlockedPublisher) -> bool {
        self.waiting.contains(publisher)
    }

    /// No publisher of a shard waits any longer.
    pub(crate) fn give_up_shard(&mut self, shard: ShardId) {
        let before = self.waiting.len();
        self.waiting.retain(|publisher| publisher.shard != shard);
        self.given_up |= self.waiting.len() < before;
    }

    /// A publisher waits no longer.
    pub(crate) fn give_up(&mut self, publisher: &BlockedPublisher) {
        self.given_up |= self.waiting.remove(publisher);
    }
}
