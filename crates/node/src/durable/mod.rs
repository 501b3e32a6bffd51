//! Connects shards and the store: batches of the journal go out, commits come back. At the start every shard gets its
//! part of the store's content.

pub(crate) mod place;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use tidegate_engine::{
    Engine, LoadedQueue, Now, ReadFailure, RestoreError, RestoreRoute, Restored, SecondReading, ShardId, Takers,
    TenantId, WantedQueue, session_of_queue,
};
use tidegate_store::{Loaded, MergeError, ReadError, Reader, Running, Status, Store, Writer};

use crate::admission::stored_bans::{self, StoredBans};
use crate::admission::{Admission, RecordError};
use crate::limits::{RESTORE_CHUNK_BYTES, RESTORE_CHUNK_PAIRS, RESTORE_CHUNKS, UNCOMMITTED_BYTES};
use crate::memory::return_free_pages;
use crate::memory::room::{Room, TooLittleMemory};
use crate::shard::facets::StoreCalls;
use crate::shard::inbox::{InboxSender, ToShard};

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Why the content of a store could not be served.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// The store could not be read.
    #[error("the store cannot be read: {0}; `tidegate store check` says where")]
    Read(#[from] MergeError),
    /// Its content is inconsistent.
    #[error("cannot load the store: {0}; `tidegate store export` shows its entries")]
    Restore(#[from] RestoreError),
    /// A ban cannot be read.
    #[error("{0}; `tidegate store export` shows it")]
    Ban(#[from] RecordError),
    /// It does not fit into the memory that the process may have.
    #[error("cannot load the store: {0}")]
    Memory(#[from] TooLittleMemory),
    /// A shard ended while it was taking it in.
    #[error("{0} ended while it loaded the store")]
    ShardEnded(ShardId),
    /// The store's threads could not be started.
    #[error("the store's threads cannot be started: {0}")]
    Threads(std::io::Error),
}

/// Pairs of a store for a shard.
pub(crate) enum RestorePortion {
    /// In the order of their keys.
    First(Vec<Pair>),
    /// All pairs have come. The shard answers which sessions it needs again.
    FirstEnds,
    /// Pairs of those sessions, in the order of their keys.
    Again(Vec<Pair>),
}

/// An answer of a shard to the thread that reads the store.
pub(crate) enum ShardAnswer {
    /// The numbers of sessions whose queues are to be read again.
    NeedsAgain(Vec<u64>),
    /// It has restored its part.
    Restored(Restored),
}

/// A shard's part in restoring the content of a store.
pub(crate) struct RestoreSeed {
    pub pairs: Receiver<RestorePortion>,
    pub answers: Sender<(ShardId, Result<ShardAnswer, RestoreError>)>,
    pub settled: Sender<ShardId>,
}

/// The journal of a shard.
pub(crate) struct ShardJournal {
    pub writer: Writer,
    pub reader: Reader,
    pub status: Arc<Status>,
}

impl std::fmt::Debug for ShardJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardJournal").field("status", &self.status).finish_non_exhaustive()
    }
}

/// A part of a queue that the store has read, or why it has not.
#[derive(Debug)]
pub(crate) struct QueueRead {
    pub tenant: TenantId,
    pub client_id: String,
    pub session: u64,
    pub entries: Result<Vec<Pair>, ReadError>,
}

/// The node's end of a restore that is about to begin.
pub(crate) struct Restorer {
    admission: Arc<Admission>,
    now: Now,
    room: Room,
    route: RestoreRoute,
    pairs: Vec<SyncSender<RestorePortion>>,
    chunks: Vec<Chunk>,
    answers: Receiver<(ShardId, Result<ShardAnswer, RestoreError>)>,
    settled: Receiver<ShardId>,
}

/// Makes both ends of a restore for so many shards, and for the bans of this admission.
pub(crate) fn restorer(shards: u16, admission: Arc<Admission>, now: Now) -> (Restorer, VecDeque<RestoreSeed>) {
    let (answers, all_answers) = channel();
    let (settled, all_settled) = channel();
    let mut seeds = VecDeque::new();
    let mut senders = Vec::new();
    for _ in 0..shards {
        let (sender, pairs) = sync_channel(RESTORE_CHUNKS);
        senders.push(sender);
        seeds.push_back(RestoreSeed { pairs, answers: answers.clone(), settled: settled.clone() });
    }
    let chunks = (0..shards).map(|_| Chunk::default()).collect();
    let (room, route) = (Room::default(), RestoreRoute::new(shards));
    (
        Restorer { admission, now, room, route, pairs: senders, chunks, answers: all_answers, settled: all_settled },
        seeds,
    )
}

/// A portion of a store for a shard. Its bytes are bounded, so that a start needs little memory beside the restored
/// sessions.
#[derive(Debug, Default)]
struct Chunk {
    pairs: Vec<Pair>,
    bytes: usize,
}

impl Chunk {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes += key.len() + value.len();
        self.pairs.push((key.to_vec(), value.to_vec()));
    }

    fn is_full(&self) -> bool {
        self.pairs.len() >= RESTORE_CHUNK_PAIRS || self.bytes >= RESTORE_CHUNK_BYTES
    }
}

impl Restorer {
    /// Distributes the content of the store to the shards, and waits until they have restored it and know of each
    /// other.
    ///
    /// # Errors
    /// When a part cannot be read or restored, or does not fit into this memory.
    pub(crate) fn run(mut self, store: &Store, room: Room) -> Result<Restored, DurableError> {
        self.room = room;
        let mut failure = None;
        store.for_each(&mut |key, value| {
            if failure.is_none() {
                failure = self.hand_out(key, value).err();
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        let shards = self.pairs.len();
        for shard in 0..shards {
            self.flush(shard, RestorePortion::First)?;
            self.send(shard, RestorePortion::FirstEnds)?;
        }
        self.hand_out_again(store)?;
        // The shards learn by this that no more parts follow.
        self.pairs.clear();
        let mut sum = Restored::default();
        for shard in 0..shards {
            if let (_, ShardAnswer::Restored(restored)) = self.answer(shard)? {
                sum.add(&restored);
            }
        }
        for shard in 0..shards {
            self.settled.recv().map_err(|_| DurableError::ShardEnded(ShardId(shard as u16)))?;
        }
        Ok(sum)
    }

    /// Reads queues once more that need more messages in memory than were kept.
    fn hand_out_again(&mut self, store: &Store) -> Result<(), DurableError> {
        let mut homes = HashMap::new();
        for shard in 0..self.pairs.len() {
            if let (from, ShardAnswer::NeedsAgain(sessions)) = self.answer(shard)? {
                homes.extend(sessions.into_iter().map(|session| (session, usize::from(from.0))));
            }
        }
        if homes.is_empty() {
            return Ok(());
        }
        let mut failure = None;
        store.for_each(&mut |key, value| {
            let home = session_of_queue(key).and_then(|session| homes.get(&session)).filter(|_| failure.is_none());
            if let Some(shard) = home {
                failure = self.put(*shard, (key, value), RestorePortion::Again).err();
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        (0..self.pairs.len()).try_for_each(|shard| self.flush(shard, RestorePortion::Again))
    }

    /// The next answer of a shard; `shard` is named if all of them have ended.
    fn answer(&self, shard: usize) -> Result<(ShardId, ShardAnswer), DurableError> {
        let (from, answer) = self.answers.recv().map_err(|_| DurableError::ShardEnded(ShardId(shard as u16)))?;
        Ok((from, answer?))
    }

    fn hand_out(&mut self, key: &[u8], value: &[u8]) -> Result<(), DurableError> {
        if stored_bans::restore(&self.admission, self.now, key, value)? {
            return Ok(());
        }
        match self.route.takers(key, value)? {
            Takers::One(shard) => self.put(usize::from(shard.0), (key, value), RestorePortion::First),
            Takers::All => {
                (0..self.pairs.len()).try_for_each(|shard| self.put(shard, (key, value), RestorePortion::First))
            }
            Takers::None => Ok(()),
        }
    }

    fn put(
        &mut self,
        shard: usize,
        (key, value): (&[u8], &[u8]),
        portion: fn(Vec<Pair>) -> RestorePortion,
    ) -> Result<(), DurableError> {
        let Some(chunk) = self.chunks.get_mut(shard) else { return Ok(()) };
        chunk.push(key, value);
        if chunk.is_full() { self.flush(shard, portion) } else { Ok(()) }
    }

    fn flush(&mut self, shard: usize, portion: fn(Vec<Pair>) -> RestorePortion) -> Result<(), DurableError> {
        let Some(chunk) = self.chunks.get_mut(shard).filter(|chunk| !chunk.pairs.is_empty()) else { return Ok(()) };
        let chunk = std::mem::take(chunk);
        self.room.check()?;
        self.send(shard, portion(chunk.pairs))
    }

    fn send(&self, shard: usize, portion: RestorePortion) -> Result<(), DurableError> {
        let Some(pairs) = self.pairs.get(shard) else { return Ok(()) };
        if pairs.send(portion).is_ok() {
            return Ok(());
        }
        // It has stopped taking, and its error is among the answers.
        loop {
            self.answer(shard)?;
        }
    }
}

/// Restores a shard's parts, on its thread; returns whether all succeeded.
pub(crate) fn take_in(engine: &mut Engine, now: Now, shard: ShardId, seed: &RestoreSeed) -> bool {
    let mut take = || {
        for portion in &seed.pairs {
            match portion {
                RestorePortion::First(pairs) => {
                    pairs.iter().try_for_each(|(key, value)| engine.store().restore(now, key, value))?;
                }
                RestorePortion::FirstEnds => {
                    let again = SecondReading::of(engine).sessions()?;
                    // The waiting thread may have given up.
                    let _ = seed.answers.send((shard, Ok(ShardAnswer::NeedsAgain(again))));
                }
                RestorePortion::Again(pairs) => {
                    let mut reading = SecondReading::of(engine);
                    pairs.iter().try_for_each(|(key, value)| reading.restore(now, key, value))?;
                }
            }
        }
        engine.store().finish_restore(now)
    };
    let taken = take();
    let whole = taken.is_ok();
    // More of a long queue was in memory than stays there.
    engine.control().shrink();
    return_free_pages();
    let _ = seed.answers.send((shard, taken.map(ShardAnswer::Restored)));
    whole
}

/// Starts a store that reports commits to the inboxes of shards. The last writer, behind the shards' writers, belongs
/// to the bans.
pub(crate) fn start(store: Store, inboxes: Vec<InboxSender>, bans: &Arc<StoredBans>) -> Result<Running, DurableError> {
    let of_bans = inboxes.len() as u16;
    let committed = Arc::clone(bans);
    let commits = move |writer: u16, sequence: u64| match inboxes.get(usize::from(writer)) {
        Some(inbox) => inbox.send(ToShard::Committed(sequence)),
        None => committed.on_committed(sequence),
    };
    let running = store.start(Box::new(commits)).map_err(DurableError::Threads)?;
    bans.serve(running.writer(of_bans));
    Ok(running)
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

impl StoreCalls<'_> {
    /// Submits the journal of this turn to the store. This must happen before any output to other shards or to clients,
    /// which may depend on it. Returns the number of the last batch submitted whose commit is awaited.
    pub(crate) fn submit_journal(&mut self) -> Option<u64> {
        let journal = self.shard.journal.as_ref()?;
        let mut last = None;
        while let Some(batch) = self.shard.engine.store().take_journal() {
            let submitted = if batch.is_awaited {
                last = Some(batch.sequence);
                journal.writer.submit(batch.sequence, batch.operations)
            } else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_for_a_shard_is_bounded_in_pairs_and_bytes() {
        let fill = |value: &[u8]| {
            let mut chunk = Chunk::default();
            while !chunk.is_full() {
                chunk.push(b"key", value);
            }
            (chunk.pairs.len(), chunk.bytes)
        };
        assert_eq!(fill(b"x").0, RESTORE_CHUNK_PAIRS);
        let (pairs, bytes) = fill(&vec![0; 100_000]);
        assert!(pairs == 11 && bytes < RESTORE_CHUNK_BYTES + 100_003);
        assert_eq!(fill(&vec![0; 4 * RESTORE_CHUNK_BYTES]).0, 1);
    }

    #[test]
    fn only_a_chunk_with_pairs_takes_memory() {
        let now = crate::clock::Clock::start().now();
        let admission = Arc::new(Admission::new(now, crate::admission::AdmissionSettings::default(), 1));
        let (mut restorer, _seeds) = restorer(1, admission, now);
        restorer.room = Room::exceeded();
        restorer.flush(0, RestorePortion::First).unwrap();
        restorer.put(0, (b"key", b"value"), RestorePortion::First).unwrap();
        let refused = restorer.flush(0, RestorePortion::First);
        assert!(matches!(refused, Err(DurableError::Memory(_))), "{refused:?}");
    }
}
