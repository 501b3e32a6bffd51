//! Shards of other nodes come and go, and partitions change their homes.
//!
//! To an engine, a shard of another node is a shard like any other: the same records go over a link to it. What differs is that it
//! can die alone. Then nobody may wait for it any more, and who was promised something that only it could confirm is sent away
//! to ask again.

pub(crate) mod asked_to_wait;
pub(crate) mod exchanges;
pub(crate) mod outgoing;
pub(crate) mod peers;
pub(crate) mod transfer;

/// Tickets with this connection index belong to nobody: they ask a new shard to say when it knows of all that is wanted here.
pub(crate) const WELCOME_INDEX: u32 = u32::MAX - 3;
