//! Nodes of a cluster as processes of their own, on a real NATS server, or on a bus that one of them serves.

mod administration;
mod applications;
mod beside;
mod core;
mod credentials;
mod directory;
mod events;
mod failover;
mod failures;
mod history;
#[cfg(feature = "kafka")]
pub(crate) mod kafka;
mod members;
mod messages;
mod moves;
mod orchestrators;
mod outage;
mod placed;
mod rolling;
mod tenants;
mod user_limits;
mod watched;
mod weights;
mod wiped;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;
use tidegate_engine::{TenantId, partition_of};

use crate::broker::{Broker, Folder, PATIENCE, pause, run, until};
use crate::nats::Nats;

/// The servers of a bus, at an address that they keep.
pub(crate) trait Bus {
    fn address(&self) -> String;

    /// As by power loss.
    fn kill(&mut self);

    fn resume(&mut self);

    /// It loses its disk while it is not running.
    fn wipe(&mut self) {
        panic!("only a bus of one server is wiped")
    }
}

impl Bus for Nats {
    fn address(&self) -> String {
        Self::address(self)
    }

    fn kill(&mut self) {
        Self::kill(self);
    }

    fn resume(&mut self) {
        Self::resume(self);
    }

    fn wipe(&mut self) {
        Self::wipe(self);
    }
}

/// Nodes `a`, `b` and so on, and their bus.
struct Cluster {
    bus: Box<dyn Bus>,
    nodes: Vec<Option<Broker>>,
    lease: &'static str,
    /// The data directory of the nodes, if they have stores.
    data: Option<Folder>,
    /// Other settings of each of them, and flags that begin with `--`; `{name}` is the name of the node.
    settings: Vec<String>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

impl Cluster {
    /// This number of nodes, when they have even shares.
    fn start(nodes: usize) -> Self {
        Self::with_lease(nodes, "10s")
    }

    fn with_lease(nodes: usize, lease: &'static str) -> Self {
        Self::of(nodes, lease, None, Box::new(Nats::start()), &[])
    }

    /// Nodes with stores in directories, and on the bus.
    fn durable(nodes: usize, lease: &'static str) -> Self {
        Self::durable_with(nodes, lease, &[])
    }

    fn durable_with(nodes: usize, lease: &'static str, settings: &[&str]) -> Self {
        Self::of(nodes, lease, Some(Folder::new()), Box::new(Nats::start()), settings)
    }

    fn of(nodes: usize, lease: &'static str, data: Option<Folder>, bus: Box<dyn Bus>, settings: &[&str]) -> Self {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut cluster = Self { bus, nodes: Vec::new(), lease, data, settings };
        for _ in 0..nodes {
            cluster.add();
        }
        cluster.wait_even();
        cluster
    }

    /// One node more.
    fn add(&mut self) -> usize {
        let which = self.nodes.len();
        self.nodes.push(None);
        self.run(which);
        which
    }

    fn run(&mut self, which: usize) {
        let lease = format!("cluster.lease={}", self.lease);
        let bus = self.bus.address();
        let mut arguments = vec!["--node", NAMES[which], "--bus", &bus, "--shards", "1", "--set", &lease];
        if !self.settings.iter().any(|setting| setting.starts_with("cluster.settle=")) {
            arguments.extend(["--set", "cluster.settle=0"]);
        }
        let directory = self.data.as_ref().map(|data| data.file(NAMES[which]));
        if let Some(directory) = &directory {
            arguments.extend(["--data", directory, "--set", "mirror.max_bytes=256MiB"]);
        }
        let settings: Vec<String> =
            self.settings.iter().map(|setting| setting.replace("{name}", NAMES[which])).collect();
        for setting in &settings {
            arguments.extend((!setting.starts_with("--")).then_some("--set"));
            arguments.push(setting);
        }
        self.nodes[which] = Some(Broker::start(&arguments));
    }

    fn node(&self, which: usize) -> &Broker {
        self.nodes[which].as_ref().unwrap()
    }

    fn port(&self, which: usize) -> u16 {
        self.node(which).address("mqtt://").rsplit_once(':').unwrap().1.parse().unwrap()
    }

    fn view(&self, which: usize) -> Value {
        let (_, body) = self.node(which).get("/api/v1/cluster");
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// How often a node was silent on the bus for longer than its lease.
    fn lost_memberships(&self, which: usize) -> u64 {
        self.view(which)["memberships_lost"].as_u64().unwrap_or_default()
    }

    /// Waits until all that run serve even shares, and know it of each other.
    fn wait_even(&self) {
        let running: Vec<usize> = (0..self.nodes.len()).filter(|which| self.nodes[*which].is_some()).collect();
        until("even shares", || {
            let views: Vec<Value> = running.iter().map(|which| self.view(*which)).collect();
            let served = |view: &Value| view["served"].as_u64().unwrap_or(0) as usize;
            let even = views.iter().all(|view| served(view) >= 1_024 / running.len());
            let all: usize = views.iter().map(served).sum();
            let same = views
                .iter()
                .all(|view| view["epoch_in_force"] == views[0]["epoch"] && view["moves"] == serde_json::json!([]));
            let ready = running.iter().all(|which| self.node(*which).get("/readyz").1 == "ready\n");
            (even && all == 1_024 && same && ready).then_some(())
        });
    }

    /// Waits until all partitions are served, however they are shared out, and all nodes know it.
    fn wait_served(&self) {
        until("full service", || {
            let views: Vec<Value> = (0..self.nodes.len()).map(|which| self.view(which)).collect();
            let all: u64 = views.iter().filter_map(|view| view["served"].as_u64()).sum();
            let same =
                |view: &Value| view["epoch_in_force"] == views[0]["epoch"] && view["moves"] == serde_json::json!([]);
            let ready = || (0..self.nodes.len()).all(|which| self.node(which).get("/readyz").1 == "ready\n");
            (all == 1_024 && views.iter().all(same) && ready()).then_some(())
        });
    }

    /// A client id that is at home at a node now.
    fn id_at(&self, which: usize, stem: &str) -> String {
        let view = self.view(which);
        let ids = (0..10_000).map(|number| format!("{stem}-{number}"));
        let is_there = |id: &String| view["homes"][usize::from(partition_of(TenantId::DEFAULT, id).0)] == NAMES[which];
        let mut there = ids.filter(is_there);
        there.next().unwrap()
    }

    fn client(&self, which: usize, arguments: &[&str]) -> String {
        let port = self.port(which).to_string();
        let ended = run(&[&arguments[..1], &["-h", "127.0.0.1", "-p", &port], &arguments[1..]].concat());
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        ended.out
    }

    fn publish(&self, which: usize, topic: &str, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let qos = if number % 2 == 0 { "1" } else { "2" };
            self.client(which, &["pub", "-q", qos, "-t", topic, "-m", &number.to_string()]);
        }
    }

    fn subscribe(&self, which: usize, id: &str) {
        self.client(which, &["sub", "-i", id, "-c", "-q", "2", "-t", "in/#", "-E"]);
    }

    /// Takes the queued messages of a session by way of a node: each message once, in their order.
    fn expect_owed(&self, by: usize, id: &str, number: u32) {
        let count = number.to_string();
        let out = self.client(by, &["sub", "-i", id, "-c", "-q", "2", "-t", "in/#", "-C", &count, "-W", "120"]);
        let expected: Vec<String> = (0..number).map(|number| number.to_string()).collect();
        assert_eq!(out.lines().collect::<Vec<_>>(), expected, "{id}");
    }
}

/// CONNECT of MQTT 5 with a clean start, and whether it was accepted.
fn connect(port: u16, id: &str) -> Option<TcpStream> {
    connect_by(port, 0x02, &[&[id.len() as u8], id.as_bytes()].concat())
}

/// The same with a will of QoS 1 that says "gone".
fn connect_with_will(port: u16, id: &str, topic: &str) -> TcpStream {
    let text = |text: &str| [&[0, text.len() as u8][..], text.as_bytes()].concat();
    let payload = [&text(id)[1..], &[0], &text(topic), &text("gone")].concat();
    connect_by(port, 0x0e, &payload).unwrap()
}

/// A client that its server cannot serve at the moment, since its partition moves or has no home, connects again.
fn connect_by(port: u16, flags: u8, payload: &[u8]) -> Option<TcpStream> {
    let begun = Instant::now();
    loop {
        match ask_to_connect(port, flags, payload)? {
            (stream, ACCEPTED) => return Some(stream),
            (_, SERVER_UNAVAILABLE) if begun.elapsed() < PATIENCE => pause(20),
            _ => return None,
        }
    }
}

const ACCEPTED: u8 = 0;
const SERVER_UNAVAILABLE: u8 = 0x88;

/// Sends a CONNECT; returns the reason code of the CONNACK.
fn ask_to_connect(port: u16, flags: u8, payload: &[u8]) -> Option<(TcpStream, u8)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = [&[0x10, 12 + payload.len() as u8][..], b"\0\x04MQTT\x05", &[flags], b"\0\0\0\0", payload];
    stream.write_all(&head.concat()).ok()?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).ok()?;
    let mut rest = vec![0; answer[1].into()];
    stream.read_exact(&mut rest).ok()?;
    (answer[0] == 0x20).then(|| (stream, rest[1]))
}

/// A PUBLISH of QoS 1.
fn publish_packet(topic: &str, id: u8) -> Vec<u8> {
    let length = 2 + topic.len() + 2 + 1;
    [&[0x32, length as u8, 0, topic.len() as u8][..], topic.as_bytes(), &[0, id, 0]].concat()
}
