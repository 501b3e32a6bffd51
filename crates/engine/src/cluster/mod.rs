//! Arrival and departure of shards of other nodes, and changes of homes.
//!
//! To an engine, a shard of another node is a shard like any other: the same records use a link to it. The difference
//! is that it can die alone. Then no waiter may wait for it any more, and a client whose promise only that shard could
//! confirm is disconnected and asks again.

pub(crate) mod asked_to_wait;
pub(crate) mod exchanges;
pub(crate) mod outgoing;
pub(crate) mod peers;
pub(crate) mod transfer;

/// Tickets with this connection index belong to no client: they ask whether a shard has read all that this one has sent
/// before its process stops.
pub(crate) const FAREWELL_INDEX: u32 = u32::MAX - 7;

/// Tickets with this connection index belong to no client: they ask a new shard to report when it knows the whole
/// interest of this one.
pub(crate) const WELCOME_INDEX: u32 = u32::MAX - 3;
