//! What the control plane asks of the links.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;

use tidegate_engine::ShardId;

use super::work::{LinksSender, ToLinks};
use super::{ClusterStatus, ClusterView};
use crate::handle::{NoAnswer, NodeHandle, wait};

/// The control plane's hold on the links.
#[derive(Debug)]
pub(crate) struct LinksHandle {
    pub(crate) sender: LinksSender,
    pub(crate) address: SocketAddr,
}

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

    /// Where other nodes reach this one, if it is in a cluster.
    pub fn cluster_address(&self) -> Option<SocketAddr> {
        self.links().map(|links| links.address)
    }
}
