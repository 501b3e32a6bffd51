//! The control plane's questions about the links to other nodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tidegate_engine::{PartitionId, ShardId};

use super::{NoAnswer, NodeHandle, wait};
use crate::cluster::{
    AskError, ClusterStatus, ClusterView, MAX_QUESTION_BYTES, NodeName, PeerAnswer, PeerEvent, ToLinks,
};

impl NodeHandle {
    /// Puts another view of the cluster in force: sessions with nodes that are in it no longer end, others are begun.
    /// Returns when all shards follow the new homes; sessions begin later, and [`NodeHandle::cluster`] tells.
    ///
    /// # Errors
    /// When a shard does not answer, or the node was started without [`ClusterSettings`](crate::ClusterSettings).
    pub fn set_cluster(&self, view: Arc<ClusterView>) -> Result<(), NoAnswer> {
        let links = self.links().ok_or(NoAnswer { shard: ShardId(0) })?;
        let (done, answers) = channel();
        links.sender.send(ToLinks::View { view, done });
        wait(ShardId(0), &answers)
    }

    /// How the links to all other nodes are; of a node in no cluster, or one that is stopping, nothing.
    pub fn cluster(&self) -> ClusterStatus {
        let Some(links) = self.links() else { return ClusterStatus::default() };
        let (answer, answers) = channel();
        links.sender.send(ToLinks::Status(answer));
        wait(ShardId(0), &answers).unwrap_or_default()
    }

    /// The other node that serves a partition; `None` if this one does, or is in no cluster.
    pub fn node_of(&self, partition: PartitionId) -> Option<NodeName> {
        let links = self.links()?;
        let (answer, answers) = channel();
        links.sender.send(ToLinks::NodeOf { partition, answer });
        wait(ShardId(0), &answers).ok().flatten()
    }

    /// The address at which other nodes reach this one, if it is in a cluster.
    pub fn cluster_address(&self) -> Option<SocketAddr> {
        self.links().map(|links| links.address)
    }

    /// Asks another node of the cluster. The answer comes later, or never if the other process hangs: wait for it for a
    /// bounded time.
    ///
    /// # Errors
    /// When the question is too long, or this node is in no cluster. Other failures come in place of the answer.
    pub fn ask_node(&self, node: &NodeName, body: Vec<u8>) -> Result<PeerAnswer, AskError> {
        if body.len() > MAX_QUESTION_BYTES {
            return Err(AskError::TooLong);
        }
        let links = self.links().ok_or(AskError::NotLinked)?;
        let (answer, answers) = channel();
        links.sender.send(ToLinks::Ask { node: node.clone(), body, answer });
        Ok(answers)
    }

    /// The receiver of other nodes' questions, and of the news of sessions with them. Without a cluster nothing
    /// comes, and the receiver ends at once.
    pub fn listen_to_peers(&self) -> Receiver<PeerEvent> {
        let (listener, events) = channel();
        if let Some(links) = self.links() {
            links.sender.send(ToLinks::Listen { listener, links: links.sender.clone() });
        }
        events
    }
}
