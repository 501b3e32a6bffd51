//! What the shards of other nodes know of this one, and this one of them.

use crate::cluster::roster::Shards;

/// The shards of other nodes: which have told everything that is wanted there, and which of them are gone.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Announcements of interest that other shards have not confirmed yet.
    pub interest_under_way: u64,
    /// Shards of other nodes that do not know yet all that is wanted here.
    pub welcomes: u64,
    /// Shards of other nodes that are gone while their subscribers are still owed messages.
    pub gone: Shards,
    /// Whether there are nodes, dead ones or such that have come back, of which it is not known what is wanted there.
    pub is_blind: bool,
    /// Shards that are back, and have not told everything yet.
    pub returning: Shards,
    /// Shards that have told all that is wanted there.
    pub heard: Shards,
}
