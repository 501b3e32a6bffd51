//! What an earlier process has left in the store, from the first entry that is read until all shards have delivered it.

use crate::durable::crossing::Replay;
use crate::durable::restore::Restoration;
use crate::ids::Place;

/// The state of a restart.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// What the store holds, while it is taken in.
    pub restoration: Option<Restoration>,
    /// Messages that were between shards, until all shards know of each other.
    pub replay: Option<Replay>,
    /// Numbers of such messages, and where they had arrived, until all shards have delivered them.
    pub replayed: Vec<(u64, Vec<Place>)>,
    /// Other shards that have taken in what the store holds for them.
    pub others_restored: u16,
    /// Other shards that have delivered the messages that were left to them.
    pub others_replayed: u16,
}
