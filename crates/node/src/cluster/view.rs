//! The nodes of the cluster, from the control plane.

use std::net::SocketAddr;

use tidegate_engine::{PARTITIONS, Partitions};

use super::NodeName;

/// Another node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNode {
    /// Its name.
    pub name: NodeName,
    /// The life of the node.
    pub incarnation: u64,
    /// The address at which it takes connections of other nodes.
    pub address: SocketAddr,
}

/// The nodes of a cluster and the partitions of each, as one of them sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// All other nodes. Sessions with nodes that are not among them, or in another life, end.
    pub peers: Vec<PeerNode>,
    /// Who works each partition: the retained messages and shared groups in it; `None` for the node itself. As long as
    /// there is no session with the node that does, the node itself takes its place.
    pub homes: [Option<NodeName>; PARTITIONS as usize],
    /// Partitions whose nodes store their messages where a successor finds them: while one of these nodes is away,
    /// messages for it are sent back.
    pub kept: Partitions,
    /// Partitions of a dead node that their new home, maybe this one, is still fetching.
    pub restoring: Partitions,
    /// The greatest id of a move that can have begun by now.
    pub moves_begun: u64,
    /// Moves that have begun and are not decided.
    pub open_moves: Vec<u64>,
    /// The number of the view, shown in [`ClusterStatus`](super::ClusterStatus).
    pub epoch: u64,
}

impl ClusterView {
    /// The view of a node that knows no other.
    pub fn alone() -> Self {
        Self {
            peers: Vec::new(),
            homes: [const { None }; PARTITIONS as usize],
            kept: Partitions::default(),
            restoring: Partitions::default(),
            moves_begun: 0,
            open_moves: Vec::new(),
            epoch: 0,
        }
    }
}
