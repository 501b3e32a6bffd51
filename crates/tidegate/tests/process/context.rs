//! Gateways of mobile nodes and their services: one broker with everything, and several on a real NATS server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Instant;

use crate::broker::{Broker, Folder, PATIENCE, command, run};
use crate::nats::Nats;

pub(crate) const GROUPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/context/groups-city.toml");

/// A gateway's configuration that suits a test.
pub(crate) fn gateway(folder: &Folder, name: &str, rest: &str) -> Broker {
    let text = format!(
        "[addresses]\nenabled = true\nguarded = false\n[context]\nenabled = true\nname = '{name}'\n\
         load_period = '100ms'\nconnection_period = '100ms'\ncycle = '100ms'\n{rest}"
    );
    let config = folder.write(&format!("{name}.toml"), &text);
    Broker::start(&["--config", &config])
}

/// A mobile node of MQTT 5, which subscribes to nothing.
pub(crate) struct Node(BufReader<TcpStream>);

impl Node {
    pub(crate) fn connect(address: &str, client_id: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let id = u8::try_from(client_id.len()).unwrap();
        let head = [0x10, 13 + id, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 0, 0, 0, id];
        stream.write_all(&[&head[..], client_id.as_bytes()].concat()).unwrap();
        let mut node = Self(BufReader::new(stream));
        assert_eq!(node.packet().0, 0x20, "CONNACK");
        node
    }

    /// The next packet: its first byte and its rest; all of them are shorter than 16 KiB.
    pub(crate) fn packet(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        let mut len = usize::from(head[1]);
        if len >= 128 {
            let mut more = [0];
            self.0.read_exact(&mut more).unwrap();
            assert!(more[0] < 128, "a short packet");
            len = len - 128 + (usize::from(more[0]) << 7);
        }
        let mut rest = vec![0; len];
        self.0.read_exact(&mut rest).unwrap();
        (head[0], rest)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn publish(&mut self, topic: &str, payload: &str) {
        let (topic_len, payload_len) = (u8::try_from(topic.len()).unwrap(), u8::try_from(payload.len()).unwrap());
        let head = [0x30, 3 + topic_len + payload_len, 0, topic_len];
        self.0.get_mut().write_all(&[&head[..], topic.as_bytes(), &[0], payload.as_bytes()].concat()).unwrap();
    }
}

fn port_of(broker: &Broker) -> &str {
    broker.address("mqtt://").rsplit_once(':').unwrap().1
}

/// Waits for the retained message of a topic.
pub(crate) fn retained(broker: &Broker, topic: &str) -> String {
    let ended = run(&["sub", "-p", port_of(broker), "-t", topic, "-C", "1", "-W", "120"]);
    assert_eq!(ended.code, Some(0), "{topic}: {}", ended.err);
    ended.out
}

#[test]
fn one_broker_is_a_gateway_with_all_services() {
    let folder = Folder::new();
    let broker = gateway(&folder, "gw", &format!("groups = '{GROUPS}'\n"));
    let list: serde_json::Value = serde_json::from_str(&retained(&broker, "ctx/gateways")).unwrap();
    assert_eq!(list["gateways"][0]["name"], "gw");
    assert_eq!(list["gateways"][0]["address"], broker.address("mqtt://"));
    let mut node = Node::connect(broker.address("mqtt://"), "truck-7");
    node.publish("ctx/context/truck-7", r#"{"speed": 90, "kind": "ambulance"}"#);
    // Members of the group get it; until then it has no receiver.
    let address = broker.address("mqtt://").to_owned();
    let operator = std::thread::spawn(move || {
        let mut operator = Node::connect(&address, "operator");
        for number in 0..2_000 {
            operator.publish("ctx/to/group/ambulances/news", &number.to_string());
            crate::broker::pause(10);
        }
    });
    let (first, rest) = node.packet();
    assert_eq!(first >> 4, 3, "PUBLISH");
    assert!(rest[2..].starts_with(b"ctx/to/group/ambulances/news"));
    drop((node, broker));
    let _ = operator.join();
}

/// Nodes are redirected to a listener for nodes, of any protocol; if its address is unknown, the operator is notified.
#[test]
fn nodes_get_the_address_of_a_listener_for_nodes() {
    let folder = Folder::new();
    let of_applications = "[[listener]]\naddress = '127.0.0.1:0'\nmobile_nodes = false\n";
    let of_nodes = "[[listener]]\naddress = 'ws://127.0.0.1:0/mqtt'\n";
    let core = "[addresses]\nenabled = true\n[context]\nenabled = true\nload_period = '100ms'\ncycle = '100ms'\n";
    let config = folder.write("two.toml", &[of_applications, of_nodes, core].concat());
    let broker = Broker::start_with(&["--config", &config, "--admin", "off"]);
    let list: serde_json::Value = serde_json::from_str(&retained(&broker, "ctx/gateways")).unwrap();
    let wanted = broker.address("ws://").trim_end_matches("/mqtt");
    assert_eq!(list["gateways"][0]["address"], wanted);
    let everywhere = folder.write("everywhere.toml", core);
    let start = |more: &[&str]| {
        let arguments = ["--config", &everywhere, "--admin", "off", "--listen", "0.0.0.0:0", "--allow-anonymous"];
        let broker = Broker::start_with(&[&arguments, more].concat());
        broker.signal("TERM");
        broker.wait().err
    };
    let said = start(&[]);
    assert!(said.contains("is not reachable") && said.contains("context.address"), "{said}");
    let said = start(&["--set", "context.address=gw.example:1883"]);
    assert!(!said.contains("is not reachable"), "{said}");
}

/// Of two gateways with one name the manager knows only the newer, and nodes are redirected to one: this has to be
/// reported. One of them, by the order of their starts, learns of the other.
#[test]
fn of_two_gateways_with_one_name_one_says_so() {
    let nats = Nats::start();
    let set = ["addresses.enabled=true", "context.enabled=true", "context.name=same", "context.partitions=4"];
    let bus = format!("context.bus={}", nats.address());
    let mut arguments = vec!["--listen", "127.0.0.1:0", "--admin", "off"];
    arguments.extend(set.iter().chain([&bus.as_str()]).flat_map(|key| ["--set", key]));
    let (tell, said) = std::sync::mpsc::channel();
    let start = || {
        let mut gateway = command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, tell) = (BufReader::new(gateway.stderr.take().unwrap()).lines(), tell.clone());
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        gateway
    };
    let gateways = [start(), start()];
    loop {
        let line = said.recv_timeout(PATIENCE).unwrap();
        if line.contains("another gateway on the bus uses the name of this gateway") {
            assert!(line.contains("name=same") && line.contains("context.name"), "{line}");
            break;
        }
    }
    for mut gateway in gateways {
        let _ = (gateway.kill(), gateway.wait());
    }
}

#[test]
fn gateways_on_nats_are_balanced_by_a_core_of_its_own() {
    let (nats, folder) = (Nats::start(), Folder::new());
    let bus = nats.address();
    let rest = format!("bus = '{bus}'\npartitions = 4\n");
    let (a, b) = (gateway(&folder, "a", &rest), gateway(&folder, "b", &rest));
    let set = ["--set", "context.partitions=4", "--set", "context.cycle=100ms"];
    let arguments = [&["core", "--bus", &bus, "--groups", GROUPS, "--member", "c1"][..], &set].concat();
    let core = Broker::start_with(&arguments);
    assert!(core.ready.contains("core=c1"), "{}", core.ready);
    let mut nodes: Vec<Node> = (0..20).map(|node| Node::connect(a.address("mqtt://"), &format!("n{node}"))).collect();
    // Half of them get the address of the other gateway.
    let mut told = 0;
    let began = Instant::now();
    for node in &mut nodes {
        node.0.get_ref().set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    }
    while told < 10 && began.elapsed() < PATIENCE {
        nodes.retain_mut(|node| {
            let mut head = [0; 2];
            if node.0.read_exact(&mut head).is_err() || head[0] != 0xe0 {
                return true;
            }
            let mut rest = vec![0; usize::from(head[1])];
            node.0.read_exact(&mut rest).unwrap();
            assert_eq!(rest[0], 0x9c, "use another server");
            let reference = b.address("mqtt://").as_bytes();
            assert!(rest.windows(reference.len()).any(|window| window == reference), "{rest:?}");
            told += 1;
            false
        });
    }
    assert!(told >= 9, "{told} nodes were told to go on at the other gateway");
    // A context that comes in at one gateway puts a node of the other one into its group.
    let mut truck = Node::connect(b.address("mqtt://"), "truck-7");
    Node::connect(a.address("mqtt://"), "relay").publish("ctx/context/truck-7", r#"{"kind": "ambulance"}"#);
    let address = b.address("mqtt://").to_owned();
    let operator = std::thread::spawn(move || {
        let mut operator = Node::connect(&address, "operator");
        for number in 0..2_000 {
            operator.publish("ctx/to/group/ambulances/news", &number.to_string());
            crate::broker::pause(10);
        }
    });
    let (first, rest) = truck.packet();
    assert_eq!(first >> 4, 3, "PUBLISH: {rest:?}");
    core.signal("TERM");
    assert_eq!(core.wait().code, Some(0));
    drop((truck, a, b));
    let _ = operator.join();
}
