//! Two orchestrators in one process: a client that connects to the wrong one is relayed to its home.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tidegate_engine::{Home, Homes, Millis, PARTITIONS, Reason, TenantId, partition_of};
use tidegate_node::{LocalAddress, Node, NodeHomes, NodeSettings};

use crate::pki::COMMON;
use crate::wire::*;

/// A node that may be reached over TCP, WebSocket and TLS, and by relays, in this order.
fn node(shards: u16) -> Node {
    let mut settings = NodeSettings::new("127.0.0.1:0".parse().unwrap());
    settings.shards = shards;
    for address in ["ws://127.0.0.1:0", "mqtts://127.0.0.1:0", "quic://127.0.0.1:0", "127.0.0.1:0"] {
        settings.listeners.push(address.parse().unwrap());
    }
    for position in [2, 3] {
        settings.tls.insert(position, COMMON.settings.clone());
    }
    settings.proxies.insert(4, vec!["127.0.0.0/8".parse().unwrap()]);
    let listener = settings.engine.listeners[0].clone();
    settings.engine.listeners.resize(5, listener);
    settings.engine.listeners[4].relayed = true;
    Node::start(settings).unwrap()
}

fn relay_of(node: &Node) -> SocketAddr {
    node.local_addresses()[4].socket().unwrap()
}

/// The table of the place with this number: the first half of the partitions is at place 0.
fn table(own: u16, relays: [SocketAddr; 2], redirect: bool, lease_until: Millis) -> Arc<NodeHomes> {
    let mut homes = [Home::Nowhere; PARTITIONS as usize];
    for (partition, home) in homes.iter_mut().enumerate() {
        let at = u16::from(partition >= usize::from(PARTITIONS) / 2);
        *home = if at == own { Home::Here } else { Home::At(at) };
    }
    let references = vec!["first:1883".to_owned(), "second:1883".to_owned()];
    let table = Homes { homes, references, redirect, lease_until, patience_ms: 0 };
    Arc::new(NodeHomes { table: Arc::new(table), relays: relays.map(Some).into() })
}

/// Two nodes that know each other.
fn pair(shards: u16, redirect: bool) -> [Node; 2] {
    let nodes = [node(shards), node(shards)];
    let relays = [relay_of(&nodes[0]), relay_of(&nodes[1])];
    for (own, node) in (0..).zip(&nodes) {
        node.handle().set_homes(Some(&table(own, relays, redirect, Millis::NEVER))).unwrap();
    }
    nodes
}

/// A client id with its home at a place.
fn id_at(place: u16, stem: &str) -> String {
    let here = |id: &String| u16::from(partition_of(TenantId::DEFAULT, id).0 >= PARTITIONS / 2) == place;
    (0..10_000).map(|number| format!("{stem}-{number}")).find(here).unwrap()
}

fn tcp_of(node: &Node) -> LocalAddress {
    node.local_addresses()[0].clone()
}

#[test]
fn a_client_reaches_its_home_over_all_transports_and_qos() {
    for shards in [1, 2] {
        let [edge, home] = pair(shards, false);
        let mut subscriber = Client::connect(&tcp_of(&home), &id_at(1, "subscriber"));
        subscriber.send(&subscribe_qos1("t/#"));
        subscriber.receive(SUBACK.len());
        for (address, stem) in edge.local_addresses().iter().take(4).zip(["tcp", "web", "tls", "quic"]) {
            let mut client = Client::connect(address, &id_at(1, stem));
            client.send(&publish_qos1("t/1", b"one"));
            client.expect(&PUBACK);
            let one = subscriber.receive(12);
            assert_eq!((one[0], &one[9..]), (0x32, &b"one"[..]));
            // QoS 2, in its four packets.
            client.send(&[&[0x34, 10][..], b"\0\x03t/2", &[0, 9], b"two"].concat());
            client.expect(&[0x50, 2, 0, 9]);
            subscriber.receive(12);
            client.send(&[0x62, 2, 0, 9]);
            client.expect(&[0x70, 2, 0, 9]);
            client.send(&PINGREQ);
            client.expect(&PINGRESP);
        }
        let (edge, home) = (edge.handle().report().unwrap(), home.handle().report().unwrap());
        assert_eq!((edge.shell.relayed, edge.shell.relays_failed), (4, 0));
        assert_eq!((edge.gauges.sessions_connected, edge.gauges.connections), (0, 0));
        assert_eq!(home.counters.connects_accepted, 5);
    }
}

#[test]
fn two_connections_of_a_client_id_meet_at_its_home() {
    let nodes = pair(1, false);
    for place in [0, 1] {
        let id = id_at(place, "twice");
        for (first, second) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
            let mut one = Client::dial(&tcp_of(&nodes[first]));
            one.send(&connect_v5(&id));
            let length = usize::from(one.receive(2)[1]);
            one.receive(length);
            let mut other = Client::connect(&tcp_of(&nodes[second]), &id);
            let goodbye = one.rest();
            assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x8e), "{goodbye:02x?}");
            other.send(&DISCONNECT);
            other.rest();
        }
    }
}

#[test]
fn an_end_of_either_side_is_the_end_of_the_other() {
    let [edge, home] = pair(1, false);
    let mut watcher = Client::connect(&tcp_of(&home), &id_at(1, "watcher"));
    watcher.send(&subscribe("gone"));
    watcher.expect(&SUBACK);
    // A client that breaks off: its will is published.
    let mut client = Client::dial(&tcp_of(&edge));
    client.send(&connect_with_will(&id_at(1, "broken"), "gone", "will"));
    client.expect(&CONNACK);
    client.socket().finish();
    client.rest();
    watcher.expect(&publish("gone", b"will"));
    // A DISCONNECT with "use another server", without a server to use.
    let mut client = Client::dial(&tcp_of(&edge));
    client.send(&connect_with_will(&id_at(1, "polite"), "gone", "never"));
    client.expect(&CONNACK);
    client.send(&DISCONNECT);
    client.rest();
    // The answer of the home reaches the client.
    let id = id_at(1, "unwanted");
    let client = Client::connect(&tcp_of(&edge), &id);
    let ended = home.handle().clients().disconnect_client(TenantId::DEFAULT, &id, Reason::AdministrativeAction);
    assert_eq!(ended, Ok(true));
    assert_eq!(client.rest(), b"");
    watcher.send(&PINGREQ);
    watcher.expect(&PINGRESP);
}

#[test]
fn a_slow_reader_holds_its_home_back_and_loses_nothing() {
    const MESSAGES: usize = 300;
    let payload = vec![7; 60_000];
    let [edge, home] = pair(1, false);
    let mut slow = Client::connect(&tcp_of(&edge), &id_at(1, "slow"));
    slow.send(&subscribe("big"));
    slow.expect(&SUBACK);
    let mut publisher = Client::connect(&tcp_of(&home), &id_at(1, "fast"));
    for _ in 0..MESSAGES {
        publisher.send(&publish_qos1("big", &payload));
        publisher.expect(&PUBACK);
    }
    let report = home.handle().report().unwrap();
    assert!(report.gauges.queued_messages > 0, "what the reader does not take waits at its home");
    let one = publish("big", &payload).len();
    for _ in 0..MESSAGES {
        assert_eq!(slow.receive(one)[0], 0x30);
    }
    assert_eq!(home.handle().report().unwrap().counters.dropped_total(), 0);
}

#[test]
fn a_home_that_cannot_be_reached_is_said_and_counted() {
    let node = node(1);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    node.handle().set_homes(Some(&table(0, [relay_of(&node), closed], false, Millis::NEVER))).unwrap();
    let mut old = Client::dial(&tcp_of(&node));
    old.send(&connect(&id_at(1, "old")));
    assert_eq!(old.rest(), [0x20, 2, 0, 3], "the server is not available");
    let mut new = Client::dial(&tcp_of(&node));
    new.send(&connect_v5(&id_at(1, "new")));
    assert_eq!(new.rest()[3], 0x88);
    let report = node.handle().report().unwrap();
    assert_eq!((report.shell.relays_failed, report.shell.relayed), (2, 0));
    assert_eq!(report.counters.connects_refused[Reason::HomeUnreachable.number()], 2);
}

#[test]
fn mqtt_5_clients_can_be_redirected_to_their_home() {
    let [edge, _home] = pair(1, true);
    let mut new = Client::dial(&tcp_of(&edge));
    new.send(&connect_v5(&id_at(1, "new")));
    let answer = new.rest();
    assert_eq!(answer[3], 0x9c);
    let reference = b"\x1c\0\x0bsecond:1883";
    assert!(answer.windows(reference.len()).any(|part| part == reference), "{answer:02x?}");
    // Earlier versions cannot be redirected, and are relayed.
    let mut old = Client::connect(&tcp_of(&edge), &id_at(1, "old"));
    old.send(&PINGREQ);
    old.expect(&PINGRESP);
}

#[test]
fn a_relayed_client_is_not_sent_on() {
    let [edge, home] = pair(1, false);
    // The home has another table: there, everything is at home at the edge.
    let mut other = NodeHomes::clone(&table(1, [relay_of(&edge), relay_of(&home)], false, Millis::NEVER));
    other.table = Arc::new(Homes { homes: [Home::At(0); PARTITIONS as usize], ..Homes::clone(&other.table) });
    home.handle().set_homes(Some(&Arc::new(other))).unwrap();
    let mut client = Client::dial(&tcp_of(&edge));
    client.send(&connect(&id_at(1, "lost")));
    assert_eq!(client.rest(), [0x20, 2, 0, 3]);
    let report = home.handle().report().unwrap();
    assert_eq!(report.counters.connects_refused[Reason::NotServedHere.number()], 1);
}

#[test]
fn a_node_without_a_lease_serves_and_acknowledges_nothing() {
    let node = node(1);
    let relays = [relay_of(&node); 2];
    let handle = node.handle();
    let lease_until = handle.now().monotonic.plus(300);
    handle.set_homes(Some(&table(0, relays, false, lease_until))).unwrap();
    let mut client = Client::dial(&tcp_of(&node));
    client.send(&connect_v5(&id_at(0, "client")));
    let length = usize::from(client.receive(2)[1]);
    client.receive(length);
    // Not even a goodbye is sent: it would follow an acknowledgement.
    assert_eq!(client.rest(), b"");
    let mut late = Client::dial(&tcp_of(&node));
    late.send(&connect(&id_at(0, "late")));
    assert_eq!(late.rest(), [0x20, 2, 0, 3]);
    let report = handle.report().unwrap();
    assert_eq!(report.counters.disconnects[Reason::LeaseEnded.number()], 1);
    // The lease is renewed.
    handle.set_homes(Some(&table(0, relays, false, Millis::NEVER))).unwrap();
    let mut client = Client::connect(&tcp_of(&node), &id_at(0, "client"));
    client.send(&PINGREQ);
    client.expect(&PINGRESP);
}
