//! The cluster of orchestrators as its members report it.

use std::collections::BTreeMap;

/// A cluster as one of its members sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// Whether it is a member, with a lease.
    pub is_member: bool,
    /// Whether it decides about the table.
    pub leads: bool,
    /// Whether it takes partitions; otherwise it hands over its own.
    pub wants_share: bool,
    /// The epoch of the table that it knows.
    pub epoch: u64,
    /// How many partitions each member works.
    pub partitions: BTreeMap<String, usize>,
    /// Moves that are under way in the whole cluster.
    pub moves: usize,
    /// Moves of this member that are under way, or whose later messages it still forwards, and connections of dead members
    /// to brokers that this member works off.
    pub own_moves: u64,
}
