//! Long queues go to the store of the new home ahead of their sessions: the control plane's steps on the shards.

use std::sync::Arc;

use tidegate_engine::{LongQueue, Partitions, PieceTaken, SentAhead, ShardId};

use super::NoAnswer;
use super::moves::{MoveError, NodeMoves};
use crate::moves::MoveOrder;
use crate::moves::ahead::{AheadOrder, QueuePart};

impl NodeMoves<'_> {
    /// The queues of partitions here whose ends are in the store alone, each with its shard. All that they name is in the
    /// store.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn long_queues(&self, partitions: Partitions) -> Result<Vec<(ShardId, LongQueue)>, NoAnswer> {
        let mut all = Vec::new();
        for shard in self.shard_ids() {
            let queues = self.on(shard, |answer| MoveOrder::Ahead(AheadOrder::LongQueues { partitions, answer }))?;
            all.extend(queues.into_iter().map(|queue| (shard, queue)));
        }
        Ok(all)
    }

    /// Reads pairs of a range of the store, at most `max_bytes` of them, but at least one. `None` if the store is busy, or
    /// cannot be read, which is logged.
    ///
    /// # Errors
    /// When the shard does not answer.
    pub fn read_queue(
        &self,
        shard: ShardId,
        (from, to): (Vec<u8>, Vec<u8>),
        max_bytes: usize,
    ) -> Result<Option<QueuePart>, NoAnswer> {
        self.on(shard, |answer| MoveOrder::Ahead(AheadOrder::Read { from, to, max_bytes, answer }))
    }

    /// The new home has these parts of queues: the next images name them, as long as their partitions are held.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn note_sent_ahead(&self, sent: Vec<SentAhead>) -> Result<(), NoAnswer> {
        let sent: Arc<[SentAhead]> = sent.into();
        self.on_all(|done| MoveOrder::Ahead(AheadOrder::NoteSent { sent: Arc::clone(&sent), done })).map(drop)
    }

    /// Writes a piece of a queue whose session comes later. Returns when it is in the store whether there was room.
    ///
    /// # Errors
    /// When the piece is damaged, or a shard does not answer.
    pub fn take_ahead(&self, piece: Vec<u8>) -> Result<bool, MoveError> {
        let piece: Arc<[u8]> = piece.into();
        let taken = self.on_all(|answer| MoveOrder::Ahead(AheadOrder::Take { piece: Arc::clone(&piece), answer }))?;
        let taken = taken.into_iter().collect::<Result<Vec<PieceTaken>, _>>()?;
        Ok(taken.contains(&PieceTaken::Written))
    }

    /// Drops the queues that have come here before their sessions by other moves than these.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn keep_ahead(&self, transfers: Vec<u64>) -> Result<(), NoAnswer> {
        let transfers: Arc<[u64]> = transfers.into();
        self.on_all(|done| MoveOrder::Ahead(AheadOrder::Keep { transfers: Arc::clone(&transfers), done })).map(drop)
    }
}
