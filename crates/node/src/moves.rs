//! The steps of moves of partitions between processes, as orders for the shards.

pub(crate) mod ahead;
pub(crate) mod pieces;

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tidegate_engine::{ImageError, Owed, PartitionId, PartitionImage, Partitions, Settling, ShardId, Snapshot};

use crate::left_out::LeftOut;
use ahead::AheadOrder;
use pieces::PieceOrder;

/// The shard that has all broker links: the home of partition 0.
pub(crate) const BROKER_LINK_SHARD: ShardId = ShardId(0);

/// The messages collected for partitions while they move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collecting {
    /// Messages from other nodes, by the id of the move.
    FromNodes(u64),
    /// Messages from brokers, in pieces, by the id of the transfer: the old home is dead.
    InPieces(u64),
    /// Both, by the id of the move: messages on topics of addresses, and messages of shared groups, come from other
    /// orchestrators.
    FromBoth(u64),
}

pub(crate) type SnapshotAnswer = Result<Snapshot, ImageError>;
pub(crate) type ArriveAnswer = Result<(Vec<(PartitionId, Owed)>, Owed), ImageError>;

/// A step of a move.
#[derive(Debug)]
pub(crate) enum MoveOrder {
    Hold {
        partitions: Partitions,
        reference: Option<Arc<str>>,
        done: Sender<()>,
    },
    Release {
        partitions: Partitions,
        done: Sender<()>,
    },
    BeginToLeave {
        partitions: Partitions,
        left_out: LeftOut,
        done: Sender<()>,
    },
    Leave {
        answer: Sender<usize>,
    },
    Snapshot {
        partitions: Partitions,
        max_bytes: u64,
        collecting: Collecting,
        answer: Sender<SnapshotAnswer>,
    },
    Settle {
        settling: Settling,
        answer: Sender<Option<Settling>>,
    },
    Forget {
        partitions: Partitions,
        answer: Sender<Owed>,
    },
    ForgetRetained {
        partitions: Partitions,
        answer: Sender<()>,
    },
    Arrive {
        images: Arc<[PartitionImage]>,
        had: Option<Arc<[u8]>>,
        collecting: Collecting,
        answer: Sender<ArriveAnswer>,
    },
    IsCut {
        transfer: u64,
        answer: Sender<bool>,
    },
    TakeLeave {
        gives_kept: bool,
        answer: Sender<bool>,
    },
    TakeTransferRest {
        transfer: u64,
        answer: Sender<Result<Vec<u8>, ImageError>>,
    },
    FinishTransfer {
        transfer: u64,
        rests: Arc<[Vec<u8>]>,
        answer: Sender<Result<u64, ImageError>>,
    },
    Deliver {
        partitions: Partitions,
        messages: Arc<[u8]>,
        answer: Sender<Result<(), ImageError>>,
    },
    Piece(PieceOrder),
    Ahead(AheadOrder),
}

/// An answer that waits until earlier writes are committed.
pub(crate) struct Committing {
    pub(crate) batch: u64,
    pub(crate) answer: Box<dyn FnOnce() + Send>,
}
