//! Connects shards and the store: batches of the journal go out, commits return. At the start every shard gets its
//! part of the store's content.

pub(crate) mod place;
pub(crate) mod stored_usage;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use tidegate_engine::{
    Engine, Now, RestoreError, RestoreRoute, Restored, SecondReading, ShardId, Takers, TenantId, session_of_queue,
};
use tidegate_store::{MergeError, ReadError, Reader, Running, Status, Store, Writer};

use crate::admission::stored_bans::{self, StoredBans};
use crate::admission::{Admission, RecordError};
pub(crate) use crate::durable::stored_usage::LeftRuns;
use crate::durable::stored_usage::{LeftUsage, UsageWriter};
use crate::limits::{RESTORE_CHUNK_BYTES, RESTORE_CHUNK_PAIRS, RESTORE_CHUNKS};
use crate::memory::return_free_pages;
use crate::memory::room::{Room, TooLittleMemory};

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
    pub usage: UsageWriter,
    pub reader: Reader,
    pub status: Arc<Status>,
}

impl ShardJournal {
    /// Of a store that runs; `run` is the number of the process for its usage.
    pub(crate) fn new(running: &Running, shard: u16, run: u64) -> Self {
        let usage = UsageWriter::new(run, ShardId(shard));
        Self { writer: running.writer(shard), usage, reader: running.reader(), status: running.status() }
    }
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
    left: Vec<LeftUsage>,
    answers: Receiver<(ShardId, Result<ShardAnswer, RestoreError>)>,
    settled: Receiver<ShardId>,
}

/// Makes both ends of a restore for this number of shards, and for the bans of this admission.
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
    let restorer = Restorer {
        admission,
        now,
        room: Room::default(),
        route: RestoreRoute::new(shards),
        pairs: senders,
        chunks,
        left: Vec::new(),
        answers: all_answers,
        settled: all_settled,
    };
    (restorer, seeds)
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
    /// other. Returns the usage of earlier runs, too.
    ///
    /// # Errors
    /// When a part cannot be read or restored, or does not fit into this memory.
    pub(crate) fn run(mut self, store: &Store, room: Room) -> Result<(Restored, LeftRuns), DurableError> {
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
        Ok((sum, LeftRuns::before(self.now, self.left)))
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
        if let Some(left) = stored_usage::read(key, value) {
            self.left.push(left);
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

/// Reports to a shard the last of its batches that is committed.
pub(crate) type Commits = Box<dyn Fn(u64) + Send + Sync>;

/// Starts a store that reports commits to the shards. The last writer, behind the shards' writers, belongs to the bans.
pub(crate) fn start(store: Store, shards: Vec<Commits>, bans: &Arc<StoredBans>) -> Result<Running, DurableError> {
    let of_bans = shards.len() as u16;
    let committed = Arc::clone(bans);
    let commits = move |writer: u16, sequence: u64| match shards.get(usize::from(writer)) {
        Some(shard) => shard(sequence),
        None => committed.on_committed(sequence),
    };
    let running = store.start(Box::new(commits)).map_err(DurableError::Threads)?;
    bans.serve(running.writer(of_bans));
    Ok(running)
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
