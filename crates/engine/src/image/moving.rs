//! Moves of partitions to another process.
//!
//! The old home holds the partitions: it serves no client of them, and its sessions still collect messages. It gives out
//! images and keeps its copy until the new home has confirmed. The steps, and why a crash between two of them loses
//! nothing, are in docs/cluster.md and docs/orchestrators.md.

use super::Owed;
use crate::ids::{PartitionId, Partitions, ShardPosition};

/// The image of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// The partition.
    pub partition: PartitionId,
    /// Its content, for [`MoveCalls::arrive`](crate::MoveCalls::arrive).
    pub image: Vec<u8>,
    /// Counts of its sessions and messages.
    pub owed: Owed,
}

/// The outcome of an attempt to take images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// Parts of queues are being read from the store; try again shortly.
    Loading,
    /// The images of all that is at home on this shard.
    Taken(Vec<PartitionImage>),
}

impl ShardPosition {
    /// The partitions whose home is this shard.
    pub(crate) fn own(self, partitions: Partitions) -> Partitions {
        partitions.filtered(|partition| self.owns(partition))
    }
}
