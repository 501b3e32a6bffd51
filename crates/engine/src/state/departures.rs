//! Partitions that move between orchestrators, as shared groups see them.

use crate::ids::{PartitionId, Partitions};
use crate::roster::Roster;

/// Partitions for whose groups brokers deliver messages to a home that leaves, or to one that is about to serve them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Departures {
    /// Their images were given out, and their messages are collected for the new home. Their groups are not dealt here.
    pub(crate) left: Partitions,
    /// Their images were taken in, and the old home may still pass messages on. Their groups are dealt here.
    pub(crate) come: Partitions,
}

impl Departures {
    /// Whether this shard deals the messages of brokers to the groups of a partition: each message at one member of the
    /// cluster. One that replaces an unreachable home does not, since the brokers deliver to the home as well.
    pub(crate) fn deals(&self, roster: &Roster, partition: PartitionId) -> bool {
        if self.left.has(partition) {
            return false;
        }
        self.come.has(partition) || roster.works(partition)
    }

    /// Whether groups of a partition stay here without members, since brokers deliver messages for them while the
    /// partition moves between orchestrators. `moving` are the partitions that this shard holds.
    pub(crate) fn keep(&self, roster: &Roster, moving: Partitions, partition: PartitionId) -> bool {
        let moves = self.left.has(partition) || self.come.has(partition) || moving.has(partition);
        moves && roster.is_of_orchestrators()
    }
}
