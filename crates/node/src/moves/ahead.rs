//! The steps of sending long queues ahead of their sessions, on a shard.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_engine::{ImageError, LongQueue, Partitions, PieceTaken, SentAhead};

/// Keys and values of a queue in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePart {
    /// In ascending order of the keys.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the range has no further ones.
    pub ends: bool,
}

/// A step of sending long queues ahead of their sessions.
#[derive(Debug)]
pub(crate) enum AheadOrder {
    LongQueues { partitions: Partitions, answer: Sender<Vec<LongQueue>> },
    Read { from: Vec<u8>, to: Vec<u8>, max_bytes: usize, answer: Sender<Option<QueuePart>> },
    NoteSent { sent: Arc<[SentAhead]>, done: Sender<()> },
    Take { piece: Arc<[u8]>, answer: Sender<Result<PieceTaken, ImageError>> },
    Keep { transfers: Arc<[u64]>, done: Sender<()> },
}
