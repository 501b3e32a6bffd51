//! Batches of the journal go to the store, parts of queues come from it.

use tidegate_engine::{LoadedQueue, ReadFailure, ShardId, Usage, WantedQueue};
use tidegate_store::{Loaded, ReadError, Status};

use crate::durable::QueueRead;
use crate::limits::UNCOMMITTED_BYTES;
use crate::orders::ToShard;
use crate::shard::Shard;
use crate::shard::facets::StoreCalls;

/// The last batch that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// There was none.
    Nothing,
    /// One for whose commit nothing waits: it may be committed later, with another one.
    Unawaited,
    /// The one with this number, whose commit is awaited.
    Awaited(u64),
}

impl Submitted {
    /// The batch whose commit lets promises of a turn leave, after this submission; `before` is that of the submissions
    /// before it. After a batch that is put off no batch does: a promise of its content needs a later one.
    pub(crate) fn lets_leave(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Nothing => before,
            Self::Unawaited => None,
            Self::Awaited(sequence) => Some(sequence),
        }
    }
}

impl StoreCalls<'_> {
    /// Submits the journal of this turn to the store. This must happen before any output to other shards or to clients,
    /// which may depend on it.
    pub(crate) fn submit_journal(&mut self) -> Submitted {
        let mut last = Submitted::Nothing;
        let Some(journal) = &mut self.shard.journal else { return last };
        while let Some(mut batch) = self.shard.engine.store().take_journal() {
            // A full store has room for deletions only.
            if batch.takes_usage && !self.shard.store_full && self.shard.engine.store().has_changed_usage() {
                let mut writing = journal.usage.begin(self.shard.now, &mut batch.operations);
                let mut put = |tenant, user: &str, usage: &Usage| writing.put(tenant, user, usage);
                self.shard.engine.store().take_changed_usage(self.shard.now, &mut put);
                writing.end();
            }
            let submitted = if batch.is_awaited {
                last = Submitted::Awaited(batch.sequence);
                journal.writer.submit(batch.sequence, batch.operations)
            } else {
                last = Submitted::Unawaited;
                journal.writer.submit_unawaited(batch.sequence, batch.operations)
            };
            if let Err(error) = submitted {
                // A batch that cannot be stored is never confirmed: its clients keep waiting, and the process cannot
                // continue.
                tracing::error!(shard = self.shard.place.shard.0, %error, "the store rejected a batch");
            }
        }
        last
    }

    /// Usage of earlier processes is in the books.
    pub(crate) fn forget_usage(&mut self, keys: Vec<Vec<u8>>) {
        if let Some(journal) = &mut self.shard.journal {
            journal.usage.forget(keys);
        }
    }

    /// Requests a part of a queue from the store; the answer arrives in the inbox.
    pub(crate) fn read_queue(&mut self, wanted: WantedQueue) {
        let inbox = self.shard.inboxes.get(usize::from(self.shard.place.shard.0)).cloned();
        let (Some(journal), Some(inbox)) = (&self.shard.journal, inbox) else { return };
        let WantedQueue { tenant, client_id, session, from, to, max_bytes } = wanted;
        let done = move |read: Result<Loaded, ReadError>| {
            let entries = read.map(|loaded| loaded.entries);
            inbox.send(ToShard::Read(Box::new(QueueRead { tenant, client_id, session, entries })));
        };
        journal.reader.load(from, to, max_bytes, Box::new(done));
    }

    /// Passes a part of a queue from the store to the engine.
    pub(crate) fn take_queue_read(&mut self, read: QueueRead) {
        let QueueRead { tenant, client_id, session, entries } = read;
        match entries {
            Ok(entries) => {
                self.shard
                    .engine
                    .store()
                    .handle_read(self.shard.now, &LoadedQueue { tenant, client_id, session, entries });
            }
            Err(ReadError::Busy) => {
                self.shard.engine.store().fail_read(self.shard.now, tenant, &client_id, session, ReadFailure::Busy);
            }
            Err(error) => {
                tracing::error!(client_id, %error, "cannot read a part of a queue; its messages are lost. `tidegate store check` shows where");
                self.shard.engine.store().fail_read(self.shard.now, tenant, &client_id, session, ReadFailure::Lost);
            }
        }
    }

    /// Looks how the store is doing, at the beginning of a turn.
    pub(crate) fn watch_store(&mut self) {
        let Some(journal) = &self.shard.journal else { return };
        let full = journal.status.is_full();
        if full != self.shard.store_full {
            self.shard.store_full = full;
            self.shard.engine.store().set_store_full(full);
            // All shards see the same store; one of them logs.
            if self.shard.place.shard == ShardId(0) {
                tell_full(&journal.status);
            }
        }
        // A slow disk slows down publishers; a stalled one makes the engine refuse messages.
        self.shard.stalled = !full && journal.status.pending_bytes() > UNCOMMITTED_BYTES;
    }

    /// Notifies the starter of the node when the other shards know the restored state of this one.
    pub(crate) fn tell_settled(&mut self) {
        if self.shard.engine.questions().is_settled()
            && let Some(settled) = self.shard.settled.take()
        {
            let _ = settled.send(self.shard.place.shard);
        }
    }
}

/// Logs that the store is full, or accepts messages again.
fn tell_full(status: &Status) {
    let (used, free) = (status.store_bytes(), status.free_bytes());
    let (pending, error) = (status.pending_bytes(), status.last_error());
    if status.is_fenced() {
        // Another process owns it now. This one ends, and its exit reports the reason and the remedy.
        tracing::info!(pending, "the store rejects writes: another process owns it");
    } else if status.is_full() {
        let (min_free, max) = (status.min_free_bytes(), status.max_bytes());
        tracing::error!(
            used,
            max,
            free,
            min_free,
            pending,
            error,
            "the store takes no more: new messages and sessions are refused"
        );
    } else {
        tracing::info!(used, free, pending, "the store accepts new messages and sessions again");
    }
}

impl Shard {
    /// Memory of the store's index of its journal, which the first shard counts.
    pub(super) fn index_bytes(&self) -> u64 {
        let journal = self.journal.as_ref().filter(|_| self.place.shard == ShardId(0));
        journal.map_or(0, |journal| journal.status.index_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_waits_for_a_batch_behind_all_of_its_turn() {
        let all = |submissions: &[Submitted]| submissions.iter().fold(None, |before, it| it.lets_leave(before));
        assert_eq!(all(&[Submitted::Awaited(5), Submitted::Nothing]), Some(5));
        assert_eq!(all(&[Submitted::Awaited(5), Submitted::Awaited(6)]), Some(6));
        assert_eq!(all(&[Submitted::Awaited(5), Submitted::Unawaited]), None, "the second is put off");
        assert_eq!(all(&[Submitted::Unawaited, Submitted::Awaited(6)]), Some(6));
    }
}
