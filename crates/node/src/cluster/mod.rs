//! Links between the nodes of a cluster: one TCP session with each other node, over which the shards of both talk.
//!
//! To an engine, a shard of another node is a shard like any other ([`Roster`](tidegate_engine::Roster)). Here its
//! batches cross: `shard/nodes.rs` is a shard's side, `outbox.rs` the batches that wait, `links.rs` the sessions and
//! their sockets, `work.rs` the thread or shard that works them, `handshake.rs` how nodes find out that they belong
//! together, `membership.rs` the arrival and departure of nodes, and `wire` the frames. The members and the homes of
//! partitions are decided elsewhere and come as a [`ClusterView`]. `carrying.rs` has sessions whose bytes a third node
//! carries. `questions.rs` carries what administration asks of other nodes. `docs/cluster.md` has the limits.

mod asking;
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
mod session;
mod settings;
mod slots;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod to_links;
mod to_shards;
mod view;
pub mod wire;
mod work;

pub(crate) use handle::LinksHandle;
pub use name::{MAX_NODE_NAME, NodeName, NodeNameError};
pub use prepared::LinkBindError;
pub(crate) use prepared::PreparedLinks;
pub use settings::{Carried, ClusterSettings, LinkLimits};
pub use status::{ClusterStatus, LinkCounters, LinkState, PeerStatus};
pub use to_links::{AskError, MAX_QUESTION_BYTES, PeerAnswer, PeerEvent, PeerQuestion};
pub(crate) use to_links::{LinksSender, ToLinks};
pub(crate) use to_shards::{FromLinks, PeerNews, PeerSeat, RosterOrder, ShardDoor};
pub use view::{ClusterView, PeerNode};
pub(crate) use work::{AttachedLinks, LinksThread, SharedLinks};
