//! What the control plane asks of the links.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_engine::ShardId;

use super::{ClusterSettings, ClusterStatus, ClusterView, LinkState, PeerStatus};
use crate::handle::{NoAnswer, NodeHandle};

/// The control plane's hold on the links.
#[derive(Debug)]
pub(crate) struct LinksHandle {
    settings: ClusterSettings,
    address: SocketAddr,
    view: Mutex<Arc<ClusterView>>,
}

impl LinksHandle {
    pub(crate) fn new(settings: ClusterSettings, address: SocketAddr) -> Self {
        Self { settings, address, view: Mutex::new(Arc::new(ClusterView::alone())) }
    }
}

impl NodeHandle {
    /// Puts another view of the cluster in force: sessions with nodes that are in it no longer end, others are begun. Returns when
    /// all shards follow the new homes; sessions begin later, and [`NodeHandle::cluster`] tells.
    ///
    /// # Errors
    /// When a shard does not answer, or the node was started without [`ClusterSettings`].
    pub fn set_cluster(&self, view: Arc<ClusterView>) -> Result<(), NoAnswer> {
        let links = self.links().ok_or(NoAnswer { shard: ShardId(0) })?;
        *links.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        Ok(())
    }

    /// How the links to all other nodes are; of a node in no cluster, nothing.
    pub fn cluster(&self) -> ClusterStatus {
        let Some(links) = self.links() else { return ClusterStatus::default() };
        let view = Arc::clone(&links.view.lock().unwrap_or_else(PoisonError::into_inner));
        let peers = view.peers.iter().map(|peer| PeerStatus {
            name: peer.name.clone(),
            incarnation: peer.incarnation,
            address: peer.address,
            state: LinkState::Dialing,
            since: self.now().unix,
            rtt_us: None,
            shards: None,
            waiting_bytes: 0,
            counters: super::LinkCounters::default(),
            last_failure: None,
        });
        ClusterStatus {
            name: Some(links.settings.name.clone()),
            incarnation: links.settings.incarnation,
            epoch: view.epoch,
            peers: peers.collect(),
            ..ClusterStatus::default()
        }
    }

    /// Where other nodes reach this one, if it is in a cluster.
    pub fn cluster_address(&self) -> Option<SocketAddr> {
        self.links().map(|links| links.address)
    }
}
