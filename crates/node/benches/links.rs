//! The cost of a message that crosses to another node: `cargo bench -p tidegate-node --bench links`.
//!
//! One publisher, one subscriber, 64 bytes; both on one node, both on one node of two, or each on its own. The time is
//! that of the threads of the nodes alone, as the system counts it, so that the clients in the same process do not
//! count.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results and stops at the first surprise"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_engine::PARTITIONS;
use tidegate_node::{ClusterSettings, ClusterView, LinkState, Node, NodeName, NodeSettings, PeerNode, Secret};

const MESSAGES: u32 = 300_000;
/// Messages that are sent at once; at QoS 1 all are acknowledged before the next ones.
const BURST: u32 = 100;
const PAYLOAD: [u8; 64] = [b'x'; 64];

fn main() {
    for qos in [0, 1] {
        measure("one node", qos, 1, 0);
        measure("two nodes, both clients on the first", qos, 2, 0);
        measure("two nodes, a client on each", qos, 2, 1);
    }
}

fn measure(title: &str, qos: u8, count: usize, subscriber_at: usize) {
    let nodes = start(count);
    let at = |node: usize| nodes[node].local_addresses()[0].socket().unwrap();
    let mut subscriber = connect(at(subscriber_at), "subscriber");
    subscriber.write_all(&[0x82, 6, 0, 1, 0, 1, b't', 0]).unwrap();
    subscriber.read_exact(&mut [0; 5]).unwrap();
    let mut publisher = connect(at(0), "publisher");
    let before = cpu_seconds();
    let began = Instant::now();
    let reader = std::thread::spawn(move || {
        let mut left = MESSAGES as usize * (2 + 3 + PAYLOAD.len());
        let mut buffer = vec![0; 256 * 1024];
        while left > 0 {
            left -= subscriber.read(&mut buffer).unwrap();
        }
    });
    let message = if qos == 0 { vec![0x30, 67, 0, 1, b't'] } else { vec![0x32, 69, 0, 1, b't', 0, 1] };
    let burst = [&message[..], &PAYLOAD].concat().repeat(BURST as usize);
    for _ in 0..MESSAGES / BURST {
        publisher.write_all(&burst).unwrap();
        if qos > 0 {
            publisher.read_exact(&mut [0; 4 * BURST as usize]).unwrap();
        }
    }
    reader.join().unwrap();
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - before);
    let per_message = cpu * 1e6 / f64::from(MESSAGES);
    let rate = f64::from(MESSAGES) / took;
    println!("QoS {qos}, {title}: {per_message:.2} µs of the nodes' threads for a message, {rate:.0} messages/s");
}

/// Nodes of one shard that know the filters of each other's clients.
fn start(count: usize) -> Vec<Node> {
    let name = |node: usize| NodeName::new(&format!("n{node}")).unwrap();
    let nodes: Vec<Node> = (0..count)
        .map(|node| {
            let mut settings = NodeSettings::new("127.0.0.1:0".parse().unwrap());
            let secret = Secret::new(b"a secret of the benchmark").unwrap();
            let listen = "127.0.0.1:0".parse().unwrap();
            settings.cluster = Some(ClusterSettings::new(name(node), 1, listen, secret));
            Node::start(settings).unwrap()
        })
        .collect();
    for (at, node) in nodes.iter().enumerate() {
        let others = nodes.iter().enumerate().filter(|(other, _)| *other != at);
        let peers = others.map(|(other, node)| PeerNode {
            name: name(other),
            incarnation: 1,
            address: node.handle().cluster_address().unwrap(),
        });
        let mut view = ClusterView { peers: peers.collect(), ..ClusterView::alone() };
        for partition in 0..usize::from(PARTITIONS) {
            let home = partition % count;
            view.homes[partition] = (home != at).then(|| name(home));
        }
        node.handle().set_cluster(Arc::new(view)).unwrap();
    }
    for node in &nodes {
        while !node.handle().cluster().peers.iter().all(|peer| peer.state == LinkState::Settled) {
            std::thread::yield_now();
        }
    }
    nodes
}

fn connect(at: SocketAddr, client_id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    let head = [0x10, 12 + client_id.len() as u8];
    let id = [&(client_id.len() as u16).to_be_bytes()[..], client_id.as_bytes()].concat();
    stream.write_all(&[&head[..], b"\0\x04MQTT\x04\x02\0\0", &id].concat()).unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    stream
}

/// The CPU time of all threads of all nodes so far, user and system.
fn cpu_seconds() -> f64 {
    let mut nanoseconds = 0_u64;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).unwrap();
        if name.starts_with("shard-") || name.starts_with("links") {
            let used = fs::read_to_string(task.join("schedstat")).unwrap();
            nanoseconds += used.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        }
    }
    Duration::from_nanos(nanoseconds).as_secs_f64()
}
