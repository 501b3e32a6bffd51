//! The shards of other nodes: how much each of them and this shard know of the other's subscriptions.

use crate::cluster::outgoing::Outgoing;
use crate::roster::Shards;

/// The shards of other nodes: which have announced all their subscriptions, and which are gone.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Announcements of interest that other shards have not confirmed yet.
    pub interest_under_way: u64,
    /// Shards of other nodes that have not confirmed all subscriptions of this one.
    pub welcomes: u64,
    /// Shards of other nodes that are gone while their subscribers are still owed messages.
    pub gone: Shards,
    /// Whether the subscriptions of some node, dead or back, are unknown.
    pub is_blind: bool,
    /// Shards that are back and have not announced all their subscriptions.
    pub returning: Shards,
    /// Shards that have announced all their subscriptions.
    pub heard: Shards,
    /// Shards that have not confirmed all that was sent to them, of a process that is about to stop. `None` before they
    /// are asked.
    pub farewells: Option<u64>,
    /// Messages that all nodes must get and that no client sends again.
    pub outgoing: Outgoing,
}
