//! Addresses of mobile nodes, on plain topics (CTX-02 to CTX-04).
//!
//! A node is a client of a listener for nodes, and has a client id of its own. Messages to `PREFIX/to/node/ID/...`, to
//! `PREFIX/to/group/GROUP/...` and to `PREFIX/to/all/...` reach it as if it had subscribed at QoS 2. The subscription
//! index holds nothing for that: a node is found by its client id, the nodes of a shard are its node sessions, and a
//! group is a set of sessions. So a node costs no more memory than any other client, and a message to one goes only to
//! the shard of the node. A shard announces its interest in groups and in all nodes to other shards like any other, as
//! long as it has members.

pub(crate) mod groups;
pub(crate) mod mailbox;
pub(crate) mod nodes;
pub(crate) mod receipts;
pub(crate) mod restore;
mod route;
pub(crate) mod tally;

pub use groups::{MembershipChange, MembershipError, MembershipOutcome};
pub(crate) use nodes::Nodes;
pub(crate) use receipts::{Receipts, SET_BY_BROKER, asks_for_unknown_receipts};
pub(crate) use restore::{NODE_GROUP, group_of_stored};
pub(crate) use tally::Tallies;
