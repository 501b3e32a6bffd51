//! Long queues are sent to the new home before their sessions.

use crate::cluster::transfer::error::ImageError;
use crate::engine::facets::MoveCalls;
use crate::ids::{Partitions, partition_of};
use crate::image::ahead::{LongQueue, PieceTaken};
use crate::image::tail::SentAhead;
use crate::now::Now;

impl MoveCalls<'_> {
    /// The queues of partitions here whose ends are in the store alone. All that they name is in the store when the batch
    /// of [`MoveCalls::written_batch`](crate::MoveCalls::written_batch) is committed.
    pub fn long_queues(&self, partitions: Partitions) -> Vec<LongQueue> {
        let sessions = &self.engine.state.sessions;
        let long = |key: &crate::ids::SessionKey| {
            let session = sessions.get(key.0)?;
            let tail = session.flow.as_ref()?.tail.as_deref()?;
            Some(LongQueue {
                partition: partition_of(session.tenant, &session.client_id),
                tenant: session.tenant,
                client_id: session.client_id.to_string(),
                session: session.stored?.0.get(),
                first: tail.first,
                last: tail.last,
                bytes: tail.bytes,
            })
        };
        sessions.by_partition(self.engine.place.own(partitions)).all().filter_map(long).collect()
    }

    /// The new home has these parts of queues in its store: the next images name them, as long as their partitions are
    /// held.
    pub fn note_sent_ahead(&mut self, sent: &[SentAhead]) {
        self.engine.handover.sent.note(self.engine.place, sent);
    }

    /// Writes a piece of a queue whose session comes later, if its home is this shard.
    ///
    /// # Errors
    /// When the piece is damaged; nothing of it is written then.
    pub fn take_ahead(&mut self, now: Now, piece: &[u8]) -> Result<PieceTaken, ImageError> {
        self.engine.state.journal.now = now;
        self.engine.handover.ahead.take(self.engine.place, &mut self.engine.state.journal, piece)
    }

    /// Drops the queues that have come here before their sessions by other moves than these.
    pub fn keep_ahead(&mut self, transfers: &[u64]) {
        self.engine.handover.ahead.keep(&mut self.engine.state.journal, transfers);
    }
}
