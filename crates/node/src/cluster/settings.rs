//! The settings of a node for its cluster.

use std::net::SocketAddr;
use std::time::Duration;

use super::NodeName;
use crate::secret::Secret;
use crate::tls::LinkTls;

/// The settings of a node for its cluster, fixed at start.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Its own name; no other node has it at the same time.
    pub name: NodeName,
    /// The life of the node: greater with each start. Others take a node with another incarnation for another
    /// node.
    pub incarnation: u64,
    /// The address for connections of other nodes. Port 0 lets the system choose one.
    pub listen: SocketAddr,
    /// The common secret of all nodes of the cluster.
    pub secret: Secret,
    /// The messages that the nodes exchange over their links.
    pub carried: Carried,
    /// How links are encrypted; without it they are not. All nodes need the same.
    pub tls: Option<LinkTls>,
    /// How much others may keep it waiting.
    pub limits: LinkLimits,
}

impl ClusterSettings {
    /// Settings with defaults for the limits.
    pub fn new(name: NodeName, incarnation: u64, listen: SocketAddr, secret: Secret) -> Self {
        Self { name, incarnation, listen, secret, carried: Carried::All, tls: None, limits: LinkLimits::default() }
    }
}

/// The messages that nodes of a cluster exchange over their links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// All: between nodes.
    All,
    /// Those on topics at or below this prefix, which no broker gets, and retained values: between orchestrators with
    /// addresses. All other messages cross by brokers.
    Below(String),
    /// Retained values: between orchestrators without addresses.
    Values,
}

/// Bounds of the links to other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// A peer that is silent for this time loses its session; each sends a sign of life four times as often.
    pub peer_timeout: Duration,
    /// A peer that reads none of its pending frames for this time loses its session.
    pub stall_timeout: Duration,
    /// How long connecting may take, and again the handshake.
    pub handshake_timeout: Duration,
    /// Bytes that may wait for a peer beside what the system keeps for its socket; a peer for which more would have to
    /// wait loses its session. A single batch may be larger. Publishers wait for the credit of a link long before that.
    pub outbox_bytes: u64,
    /// How long a direct connection may take before another node is asked to carry the session, where one could.
    pub indirect_after: Duration,
    /// The first wait before a connection is tried again; it doubles with each failure.
    pub retry_first: Duration,
    /// The longest wait before a connection is tried again.
    pub retry_longest: Duration,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            peer_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            outbox_bytes: 256 * 1024 * 1024,
            indirect_after: Duration::from_secs(1),
            retry_first: Duration::from_millis(100),
            retry_longest: Duration::from_secs(5),
        }
    }
}
