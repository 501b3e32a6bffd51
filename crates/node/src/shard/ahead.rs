//! Long queues are sent ahead of their sessions.

use tidegate_engine::PieceTaken;
use tidegate_store::{Loaded, ReadError};

use crate::moves::ahead::{AheadOrder, QueuePart};
use crate::shard::facets::PeerCalls;

/// Percent of the limits of a store that queues leave free which come before their sessions.
const FREE_PERCENT: u64 = 10;

impl PeerCalls<'_> {
    /// Carries out a step. The caller may have given up waiting.
    pub(super) fn take_ahead_order(&mut self, order: AheadOrder) {
        let now = self.shard.now;
        match order {
            AheadOrder::LongQueues { partitions, answer } => {
                let queues = self.shard.engine.moves().long_queues(partitions);
                if queues.is_empty() {
                    let _ = answer.send(queues);
                } else {
                    self.answer_committed(answer, queues);
                }
            }
            AheadOrder::Read { from, to, max_bytes, answer } => {
                let done = move |read: Result<Loaded, ReadError>| {
                    let part = match read {
                        Ok(Loaded { entries, next }) => Some(QueuePart { pairs: entries, ends: next.is_none() }),
                        Err(ReadError::Busy) => None,
                        Err(error) => {
                            tracing::warn!(%error, "cannot read a queue that is to move; it is tried again");
                            None
                        }
                    };
                    let _ = answer.send(part);
                };
                match &self.shard.journal {
                    Some(journal) => journal.reader.load(from, to, max_bytes, Box::new(done)),
                    None => done(Err(ReadError::Stopped)),
                }
            }
            AheadOrder::NoteSent { sent, done } => {
                self.shard.engine.moves().note_sent_ahead(&sent);
                let _ = done.send(());
            }
            AheadOrder::Take { piece, answer } => {
                let status = self.shard.journal.as_ref().map(|journal| &journal.status);
                let has_room = status.is_some_and(|status| status.has_free_share(FREE_PERCENT));
                let taken =
                    if has_room { self.shard.engine.moves().take_ahead(now, &piece) } else { Ok(PieceTaken::NoRoom) };
                if taken == Ok(PieceTaken::Written) {
                    self.answer_committed(answer, taken);
                } else {
                    let _ = answer.send(taken);
                }
            }
            AheadOrder::Keep { transfers, done } => {
                self.shard.engine.moves().keep_ahead(&transfers);
                let _ = done.send(());
            }
        }
    }
}
