//! The table of homes: the orchestrator of each partition (BRK-27), as the manager keeps it.
//!
//! The book has no copy of it: each orchestrator stores its table, and decides about its own partitions. The manager
//! only creates tables that leave every orchestrator its partitions, and sets each on the condition that the
//! orchestrator's table is unchanged. So partitions change hands by moves alone, and two orchestrators never have the
//! same one, whichever dies or is late. `table.rs` computes the table, `moves.rs` the moves.

mod moves;
mod table;

pub(super) use table::HomesState;

use std::collections::BTreeMap;

use crate::provider::ResourceName;

/// Partitions of the clients.
pub const PARTITIONS: usize = 64;

/// Where an orchestrator is, each `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomePlace {
    /// Where clients reach it.
    pub mqtt: String,
    /// Where others relay clients to.
    pub relay: String,
    /// Where others bring partitions.
    pub admin: String,
}

/// A table of homes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomesTable {
    /// Grows with each change; 1 or more.
    pub epoch: u64,
    /// Orchestrators that may have partitions.
    pub places: BTreeMap<ResourceName, HomePlace>,
    /// The home of each of the [`PARTITIONS`].
    pub homes: Vec<ResourceName>,
}

impl HomesTable {
    /// The partitions of a place.
    pub fn at(&self, name: &ResourceName) -> Vec<u16> {
        (0..).zip(&self.homes).filter(|(_, home)| *home == name).map(|(partition, _)| partition).collect()
    }

    /// The home of a partition.
    pub fn home(&self, partition: u16) -> Option<&ResourceName> {
        self.homes.get(usize::from(partition))
    }
}

/// An orchestrator's state of homes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomesView {
    /// Its current table; `None` if it serves all clients.
    pub table: Option<HomesTable>,
    /// The other orchestrator of a move in progress.
    pub moving: Option<ResourceName>,
}

impl HomesView {
    /// The epoch of its table; 0 for none.
    pub fn epoch(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.epoch)
    }
}

/// The home of a partition among some orchestrators: the one whose name, hashed together with the partition, has the
/// highest value, so that few partitions move when an orchestrator joins or leaves.
pub(super) fn rendezvous<'a>(
    names: impl IntoIterator<Item = &'a ResourceName>,
    partition: u16,
) -> Option<&'a ResourceName> {
    names.into_iter().max_by_key(|name| (weight(name.as_str(), partition), *name))
}

/// A number for a place and a partition (FNV-1a, finished by the mixer of splitmix64).
fn weight(name: &str, partition: u16) -> u64 {
    let bytes = name.bytes().chain(partition.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}
