//! Which orchestrator is home to which partition of the clients (BRK-27), as the manager keeps it.
//!
//! Nothing of this is in the book: each orchestrator remembers the table that it has, and its word about its own
//! partitions counts. The manager only makes tables that leave everybody what it says to have, and sets each on the
//! condition that the orchestrator's table has not changed since it was seen. So partitions change hands by moves
//! alone, whoever dies or comes late, and at no time have two orchestrators the same one. `table.rs` works the table
//! out, `moves.rs` who gives what to whom.

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
    /// Orchestrators that may be home to somebody.
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

/// What an orchestrator says of homes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomesView {
    /// The table in force there; `None` where it is home to everybody that comes.
    pub table: Option<HomesTable>,
    /// With whom a move is under way: who gets partitions of it, or whose partitions come to it.
    pub moving: Option<ResourceName>,
}

impl HomesView {
    /// The epoch of its table; 0 for none.
    pub fn epoch(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.epoch)
    }
}

/// The one of some orchestrators that is to be home to a partition: the one whose name, hashed together with it, comes
/// out highest, so that few partitions move when an orchestrator comes or goes.
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
