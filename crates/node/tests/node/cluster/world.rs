//! Nodes of a cluster, who introduces them, and clients that speak of messages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_engine::{ListenerSettings, PARTITIONS, ShardId};
use tidegate_node::{
    ClusterSettings, ClusterStatus, ClusterView, LinkLimits, LinkState, Node, NodeName, NodeSettings, PeerNode,
    PeerStatus, Secret,
};

use crate::wire::*;

pub(super) fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// The settings of a node: a listener for clients, and one for clients that other nodes relay.
pub(super) fn settings_of(node: &str, incarnation: u64, shards: u16) -> NodeSettings {
    let mut settings = NodeSettings::new("127.0.0.1:0".parse().unwrap());
    settings.shards = shards;
    settings.listeners.push("127.0.0.1:0".parse().unwrap());
    settings.proxies.insert(1, vec!["127.0.0.0/8".parse().unwrap()]);
    let listener = settings.engine.listeners[0].clone();
    settings.engine.listeners.push(ListenerSettings { relayed: true, ..listener });
    let secret = Secret::new(b"a secret of the tests").unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    settings.cluster = Some(ClusterSettings::new(name(node), incarnation, listen, secret));
    settings
}

/// The nodes of a cluster.
pub(super) struct World {
    pub(super) nodes: BTreeMap<String, Node>,
    incarnations: BTreeMap<String, u64>,
    /// Other addresses than their own under which nodes are introduced to others: `(to, of)`.
    pub(super) detours: BTreeMap<(String, String), SocketAddr>,
    pub(super) limits: LinkLimits,
    /// Other addresses than their own under which nodes take relayed clients.
    pub(super) relays: BTreeMap<String, SocketAddr>,
    /// Credit of each link between two shards, bytes.
    link_bytes: u64,
    epoch: u64,
    /// Partitions that have moved, and to which nodes.
    pub(super) given: BTreeMap<u16, String>,
}

impl World {
    /// Nodes with these numbers of shards that know each other and each other's subscriptions.
    pub(super) fn of(nodes: &[(&str, u16)]) -> Self {
        let mut world = Self::apart(nodes, LinkLimits::default());
        world.introduce();
        world.settle();
        world
    }

    /// Nodes that do not know each other yet.
    pub(super) fn apart(nodes: &[(&str, u16)], limits: LinkLimits) -> Self {
        Self::with_credit(nodes, limits, 8 * 1024 * 1024)
    }

    /// The same with links of so much credit, bytes.
    pub(super) fn with_credit(nodes: &[(&str, u16)], limits: LinkLimits, link_bytes: u64) -> Self {
        let mut world = Self {
            nodes: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            detours: BTreeMap::new(),
            relays: BTreeMap::new(),
            limits,
            link_bytes,
            epoch: 0,
            given: BTreeMap::new(),
        };
        for (node, shards) in nodes {
            world.start(node, 1, *shards);
        }
        world
    }

    /// Starts a node in its own life.
    pub(super) fn start(&mut self, node: &str, incarnation: u64, shards: u16) {
        let mut settings = settings_of(node, incarnation, shards);
        settings.cluster.as_mut().unwrap().limits = self.limits;
        settings.engine.limits.shard_link_bytes = self.link_bytes;
        self.add(node, incarnation, Node::start(settings).unwrap());
    }

    /// Takes in a node that runs.
    pub(super) fn add(&mut self, node: &str, incarnation: u64, running: Node) {
        self.nodes.insert(node.to_owned(), running);
        self.incarnations.insert(node.to_owned(), incarnation);
    }

    /// Tells all nodes of each other, and deals the partitions out.
    pub(super) fn introduce(&mut self) {
        self.epoch += 1;
        for node in self.nodes.keys() {
            let view = self.view_of(node);
            self.nodes[node].handle().set_cluster(view).unwrap();
        }
    }

    /// The view of the cluster for a node.
    pub(super) fn view_of(&self, node: &str) -> Arc<ClusterView> {
        let mut view = ClusterView { epoch: self.epoch, ..ClusterView::alone() };
        for (other, running) in self.nodes.iter().filter(|(other, _)| *other != node) {
            let detour = self.detours.get(&(node.to_owned(), other.clone())).copied();
            let address = detour.unwrap_or_else(|| running.handle().cluster_address().unwrap());
            view.peers.push(PeerNode { name: name(other), incarnation: self.incarnations[other], address });
        }
        for partition in 0..PARTITIONS {
            let home = self.home_of(partition);
            view.homes[usize::from(partition)] = (home != node).then(|| name(home));
        }
        Arc::new(view)
    }

    /// The node that works a partition.
    pub(super) fn home_of(&self, partition: u16) -> &str {
        if let Some(node) = self.given.get(&partition) {
            return node;
        }
        self.nodes.keys().nth(usize::from(partition) % self.nodes.len()).unwrap()
    }

    pub(super) fn status(&self, of: &str) -> ClusterStatus {
        self.nodes[of].handle().cluster()
    }

    /// How the link of one node to another is.
    pub(super) fn link(&self, of: &str, to: &str) -> PeerStatus {
        let status = self.status(of);
        status.peers.into_iter().find(|peer| peer.name.as_str() == to).unwrap()
    }

    /// Waits until something is so on a node.
    pub(super) fn wait(&self, of: &str, so: impl Fn(&ClusterStatus) -> bool) {
        until(&format!("a state of node {of}"), || so(&self.status(of)));
    }

    /// Waits until all nodes know the interest of all others.
    pub(super) fn settle(&self) {
        for node in self.nodes.keys() {
            let others = self.nodes.len() - 1;
            let settled = |status: &ClusterStatus| {
                status.peers.iter().filter(|peer| peer.state == LinkState::Settled).count() == others
            };
            self.wait(node, settled);
        }
    }

    /// A client of a node.
    pub(super) fn connect(&self, node: &str, client_id: &str) -> Client {
        Client::connect(&self.nodes[node].local_addresses()[0], client_id)
    }

    /// No shard has ended, and all of them answer.
    pub(super) fn expect_well(&self) {
        for (name, node) in &self.nodes {
            let report = node.handle().report().unwrap_or_else(|error| panic!("{name}: {error}"));
            let shards: Vec<ShardId> = report.shards.iter().map(|shard| shard.shard).collect();
            assert_eq!(shards.len(), usize::from(node.handle().shards()));
        }
    }
}

/// The longest wait of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so.
pub(super) fn until(event: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "no {event} within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Limits with which it is noticed soon that something has gone, and not on a busy machine that something is late.
pub(super) fn hasty() -> LinkLimits {
    let soon = Duration::from_secs(2);
    LinkLimits { peer_timeout: soon, stall_timeout: soon, handshake_timeout: soon, ..restless() }
}

/// Limits with which it is soon tried again.
pub(super) fn restless() -> LinkLimits {
    let (retry_first, retry_longest) = (Duration::from_millis(10), Duration::from_millis(50));
    LinkLimits { retry_first, retry_longest, ..LinkLimits::default() }
}

/// A packet as it comes: its first byte and all behind its length.
pub(super) fn receive_packet(client: &mut Client) -> (u8, Vec<u8>) {
    let first = client.receive(1)[0];
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = client.receive(1)[0];
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return (first, client.receive(length));
        }
    }
}

/// Subscribes at a QoS and waits for the SUBACK.
pub(super) fn subscribe_at(client: &mut Client, filter: &str, qos: u8) {
    let mut packet = subscribe(filter);
    *packet.last_mut().unwrap() = qos;
    client.send(&packet);
    client.expect(&[0x90, 3, 0, 1, qos]);
}

/// A PUBLISH at a QoS; the packet id is in it from QoS 1 on.
pub(super) fn publish_at(topic: &str, payload: &[u8], qos: u8, id: u16, retain: bool) -> Vec<u8> {
    let mut packet = publish(topic, payload);
    packet[0] |= qos << 1 | u8::from(retain);
    if qos > 0 {
        let at = 2 + 2 + topic.len();
        packet.splice(at..at, id.to_be_bytes());
        packet[1] += 2;
        assert!(packet[1] < 0x80, "a short packet");
    }
    packet
}

/// Publishes and waits for all acknowledgements that the QoS has.
pub(super) fn publish_and_wait(client: &mut Client, topic: &str, payload: &[u8], qos: u8, retain: bool) {
    client.send(&publish_at(topic, payload, qos, 9, retain));
    match qos {
        0 => {}
        1 => client.expect(&[0x40, 2, 0, 9]),
        _ => {
            client.expect(&[0x50, 2, 0, 9]);
            client.send(&[0x62, 2, 0, 9]);
            client.expect(&[0x70, 2, 0, 9]);
        }
    }
}

/// A message that a client has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Got {
    pub(super) topic: String,
    pub(super) payload: String,
    pub(super) qos: u8,
    pub(super) retain: bool,
}

/// Waits for a message and acknowledges it, and all that is released meanwhile.
pub(super) fn receive_message(client: &mut Client) -> Got {
    let (first, body) = receive_unreleased(client);
    assert_eq!(first >> 4, 3, "a PUBLISH, and not {first:02x}");
    let qos = first >> 1 & 3;
    let topic_end = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
    let topic = String::from_utf8(body[2..topic_end].to_vec()).unwrap();
    let payload_at = topic_end + if qos > 0 { 2 } else { 0 };
    let id = &body[topic_end..payload_at];
    match qos {
        0 => {}
        1 => client.send(&[&[0x40, 2][..], id].concat()),
        _ => client.send(&[&[0x50, 2][..], id].concat()),
    }
    let payload = String::from_utf8(body[payload_at..].to_vec()).unwrap();
    Got { topic, payload, qos, retain: first & 1 != 0 }
}

/// The next packet that is no PUBREL; those are answered.
fn receive_unreleased(client: &mut Client) -> (u8, Vec<u8>) {
    loop {
        let (first, body) = receive_packet(client);
        if first != 0x62 {
            return (first, body);
        }
        client.send(&[&[0x70, 2][..], &body].concat());
    }
}

/// Nothing more has come: the answer to a ping is the next.
pub(super) fn expect_nothing(client: &mut Client) {
    client.send(&PINGREQ);
    let (first, body) = receive_unreleased(client);
    assert_eq!((first, body.len()), (PINGRESP[0], 0));
}
