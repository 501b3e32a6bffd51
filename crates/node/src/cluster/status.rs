//! How the links to other nodes are.

use std::net::SocketAddr;

use super::NodeName;

/// How far things are with another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Without a session: this node tries one from time to time, or waits for the other.
    Dialing,
    /// With a session: both sides announce the interest of their clients.
    Linked,
    /// Each side has confirmed that the other knows the interest of its clients: no message misses a receiver.
    Settled,
}

impl LinkState {
    /// The name for machines.
    pub fn label(self) -> &'static str {
        match self {
            Self::Dialing => "dialing",
            Self::Linked => "linked",
            Self::Settled => "settled",
        }
    }
}

/// Traffic over the links to one node, or to all, in all sessions; numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Bytes written to the sessions, handshakes and heartbeats included.
    pub bytes_out: u64,
    /// Bytes read from the sessions.
    pub bytes_in: u64,
    /// Messages sent, each once for each shard of the other node that gets it.
    pub messages_out: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Batches sent.
    pub batches_out: u64,
    /// Batches received.
    pub batches_in: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Sessions that ended otherwise than by a goodbye.
    pub resets: u64,
    /// Failed attempts at a session: no node answered, a wrong secret, another version.
    pub failures: u64,
    /// Sessions begun whose bytes a third node carries.
    pub indirect: u64,
    /// Bytes that this node has carried from it to third nodes.
    pub carried_bytes: u64,
}

impl LinkCounters {
    /// Adds the counters of another.
    pub fn add(&mut self, other: &Self) {
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.messages_out += other.messages_out;
        self.messages_in += other.messages_in;
        self.batches_out += other.batches_out;
        self.batches_in += other.batches_in;
        self.sessions += other.sessions;
        self.resets += other.resets;
        self.failures += other.failures;
        self.indirect += other.indirect;
        self.carried_bytes += other.carried_bytes;
    }
}

/// How the link to one node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its name.
    pub name: NodeName,
    /// The meant life of the node.
    pub incarnation: u64,
    /// The address at which it takes connections of other nodes.
    pub address: SocketAddr,
    /// The state of the session with it.
    pub state: LinkState,
    /// The node that carries the link, where there is no direct connection.
    pub through: Option<NodeName>,
    /// Since when they are so, milliseconds since 1970.
    pub since: u64,
    /// How long the last heartbeat took to the node and back, microseconds; `None` before the first.
    pub rtt_us: Option<u64>,
    /// Shards that it has, while there is a session.
    pub shards: Option<u16>,
    /// Bytes that wait for it.
    pub waiting_bytes: u64,
    /// Traffic with this name since it came into the view.
    pub counters: LinkCounters,
    /// Why the last session or the last attempt at one failed, if one has since it came into the view.
    pub last_failure: Option<String>,
}

/// The state of a node in its cluster; empty for a node outside any cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Its own name.
    pub name: Option<NodeName>,
    /// Its own life.
    pub incarnation: u64,
    /// The number of the view in force.
    pub epoch: u64,
    /// All other nodes of the view, by name.
    pub peers: Vec<PeerStatus>,
    /// Traffic over all links, with the nodes that have left the view.
    pub total: LinkCounters,
    /// Connections of others that did not become a session: without the secret, of unknown nodes, or that took too
    /// long.
    pub refused: u64,
}
