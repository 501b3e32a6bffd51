//! The steps of forwarding brokers' messages for partitions that have moved, on a shard.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_engine::{Behind, Forwarded, ImageError, Partitions, Settling};

type PieceAnswer = Result<(Partitions, Vec<u8>), ImageError>;

/// A step of forwarding brokers' messages for partitions that have moved.
#[derive(Debug)]
pub(crate) enum PieceOrder {
    TakeForwarded { transfer: u64, served_there: bool, answer: Sender<Option<Forwarded>> },
    ResumeForwarding { transfer: u64, partitions: Partitions, done: Sender<()> },
    ReturnForwarded { transfer: u64, partitions: Partitions, answer: Sender<Result<Vec<u8>, ImageError>> },
    ConfirmForwarded { transfer: u64, messages: usize },
    BeginSettling { answer: Sender<Settling> },
    TakeHad { transfer: u64, answer: Sender<Vec<u8>> },
    EndForwarding { transfer: u64, partitions: Partitions, done: Sender<()> },
    TakePiece { transfer: u64, partitions: Partitions, piece: Arc<[u8]>, behind: Behind, answer: Sender<PieceAnswer> },
    DeliverBrought { partitions: Partitions, messages: Arc<[u8]>, answer: Sender<PieceAnswer> },
    RefuseArrival { partitions: Partitions, done: Sender<()> },
    ResumeAwaiting { transfer: u64, partitions: Partitions, done: Sender<()> },
    KnowsGroups { partitions: Partitions, answer: Sender<bool> },
    EndAwaiting { transfer: u64, done: Sender<()> },
}
