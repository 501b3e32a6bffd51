//! Links between the nodes of a cluster: one TCP session with each other node, over which the shards of both talk.
//!
//! To an engine, a shard of another node is a shard like any other ([`Roster`](tidegate_engine::Roster)). This module
//! carries the batches: `shard.rs` is a shard's side, `outbox.rs` the queue of a session, `thread.rs` and `links.rs`
//! the one thread that has all sockets, `handshake.rs` the mutual proof of two nodes, `membership.rs` the arrival and
//! departure of nodes, and `wire` the frames. The members of the cluster and the homes of partitions are decided
//! elsewhere and come as a [`ClusterView`]. `carrying.rs` has sessions whose bytes a third node carries. `questions.rs`
//! carries requests of administration to other nodes. `docs/cluster.md` has the limits.

mod carrying;
mod frames;
mod handle;
mod handshake;
mod indirect;
mod links;
mod loss;
mod membership;
mod name;
mod outbox;
mod peer;
mod prepared;
mod questions;
mod rosters;
mod seating;
pub(crate) mod secret;
mod session;
mod settings;
mod shard;
mod slots;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod thread;
mod view;
pub mod wire;

pub(crate) use handle::LinksHandle;
pub use name::{MAX_NODE_NAME, NodeName, NodeNameError};
pub use prepared::LinkBindError;
pub(crate) use prepared::PreparedLinks;
pub use questions::{AskError, MAX_QUESTION_BYTES, PeerAnswer, PeerEvent, PeerQuestion};
pub use secret::{MIN_SECRET_BYTES, Secret, SecretTooShort};
pub use settings::{Carried, ClusterSettings, LinkLimits};
pub(crate) use shard::{ClusterShard, PeerNews, RosterOrder};
pub use status::{ClusterStatus, LinkCounters, LinkState, PeerStatus};
pub(crate) use thread::{LinksSender, LinksThread};
pub use view::{ClusterView, PeerNode};
