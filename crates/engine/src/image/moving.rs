//! Moving partitions to another process without losing what arrives meanwhile.
//!
//! The old place holds the partitions: nobody is served, sessions go on collecting. It gives out images and keeps its
//! copy until the new place has confirmed. The steps, and why a crash between two of them loses nothing, are in
//! docs/orchestrators.md.

use super::Owed;
use crate::ids::{PartitionId, Partitions, Place};

/// A partition as it is given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// Which one.
    pub partition: PartitionId,
    /// Its content, for [`Engine::arrive`](crate::Engine::arrive).
    pub image: Vec<u8>,
    /// What it owes.
    pub owed: Owed,
}

/// What an attempt to take images came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// Parts of queues are being read from the store; try again shortly.
    Loading,
    /// The images of all that is at home on this shard.
    Taken(Vec<PartitionImage>),
}

impl Place {
    /// Those that are at home on this shard.
    pub(crate) fn own(self, partitions: Partitions) -> Partitions {
        partitions.filtered(|partition| self.owns(partition))
    }
}
