//! The state of a restart: entries of an earlier process, from the first that is read until all shards have delivered them.

use crate::durable::crossing::Replay;
use crate::durable::restore::Restoration;
use crate::ids::ShardPosition;

/// The state of a restart.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// The entries of the store, while they are read.
    pub restoration: Option<Restoration>,
    /// Messages that were between shards, until all shards know of each other.
    pub replay: Option<Replay>,
    /// Numbers of such messages, and where they had arrived, until all shards have delivered them.
    pub replayed: Vec<(u64, Vec<ShardPosition>)>,
    /// Other shards that have restored their part of the store.
    pub others_restored: u16,
    /// Other shards that have delivered the messages that were left to them.
    pub others_replayed: u16,
}
