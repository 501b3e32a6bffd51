//! Links that go by way of a third node, since the direct connection is cut.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::Reason;
use tidegate_node::LinkState::Dialing;
use tidegate_node::{ClusterView, FlightKind, FlightSubject, LinkTls, Node, NodeName, PeerStatus};

use super::clients::{id_at, relay_clients};
use super::leaving::move_all;
use super::proxy::Proxy;
use super::secured::self_signed;
use super::world::*;
use crate::wire::{Client, connect};

/// Nodes with a wire between each pair of them in `wired`, the one with the smaller name first.
fn wired(nodes: &[&str], wired: &[(&str, &str)], tls: fn() -> Option<LinkTls>) -> (World, Vec<Proxy>) {
    let mut world = World::apart(&[], restless());
    for node in nodes {
        let mut settings = settings_of(node, 1, 2);
        let cluster = settings.cluster.as_mut().unwrap();
        (cluster.limits, cluster.tls) = (restless(), tls());
        world.add(node, 1, Node::start(settings).unwrap());
    }
    let mut proxies = Vec::new();
    for (from, to) in wired {
        let proxy = Proxy::to(world.nodes[*to].handle().cluster_address().unwrap());
        world.detours.insert(((*from).to_owned(), (*to).to_owned()), proxy.address);
        proxies.push(proxy);
    }
    world.introduce();
    world.settle();
    (world, proxies)
}

/// Waits until the link of one node to another is settled, and goes as it should.
fn wait_through(world: &World, of: &str, to: &str, through: Option<&str>) {
    let is = |peer: &PeerStatus| peer.name.as_str() == to && peer.through.as_ref().map(NodeName::as_str) == through;
    world.wait(of, |status| status.peers.iter().any(is));
    world.settle();
}

fn no_tls() -> Option<LinkTls> {
    None
}

#[allow(clippy::unnecessary_wraps, reason = "in the place of `no_tls`")]
fn with_tls() -> Option<LinkTls> {
    Some(self_signed())
}

/// Messages cross a cut, and go on crossing while the wire becomes whole; nothing is lost or comes twice.
fn expect_flow_around_a_cut(tls: fn() -> Option<LinkTls>) {
    let (world, proxies) = wired(&["a", "b", "c"], &[("a", "b")], tls);
    let (mut at_a, mut at_b) = (world.connect("a", "at-a"), world.connect("b", "at-b"));
    let (mut from_a, mut from_b) = (world.connect("a", "from-a"), world.connect("b", "from-b"));
    subscribe_at(&mut at_a, "from-b", 2);
    subscribe_at(&mut at_b, "from-a", 2);
    proxies[0].close();
    wait_through(&world, "a", "b", Some("c"));
    wait_through(&world, "b", "a", Some("c"));
    let mut exchange = |number: u32, qos: u8| {
        let payload = number.to_string();
        publish_and_wait(&mut from_a, "from-a", payload.as_bytes(), qos, false);
        assert_eq!(receive_message(&mut at_b).payload, payload);
        publish_and_wait(&mut from_b, "from-b", payload.as_bytes(), qos, false);
        assert_eq!(receive_message(&mut at_a).payload, payload);
    };
    (1..=2).for_each(|qos| exchange(u32::from(qos), qos));
    let carried = world.status("c").total.carried_bytes;
    assert!(carried > 0);
    let before = world.status("a").total;
    assert_eq!(before.indirect, 1);
    proxies[0].open();
    let mut number = 10;
    while world.link("a", "b").through.is_some() || world.link("b", "a").through.is_some() {
        exchange(number, 1);
        number += 1;
    }
    (1..=2).for_each(|qos| exchange(number + u32::from(qos), qos));
    let after = world.status("a").total;
    assert_eq!((after.sessions, after.resets), (before.sessions, before.resets), "the session has gone on");
    world.expect_well();
}

#[test]
fn messages_go_around_a_cut_link_and_back_to_the_direct_one() {
    expect_flow_around_a_cut(no_tls);
}

#[test]
fn messages_go_around_a_cut_link_that_is_encrypted() {
    expect_flow_around_a_cut(with_tls);
}

#[test]
fn large_batches_go_around_a_cut_link_whole() {
    let (world, proxies) = wired(&["a", "b", "c"], &[("a", "b")], no_tls);
    proxies[0].close();
    wait_through(&world, "a", "b", Some("c"));
    let (mut from, mut to) = (world.connect("a", "from"), world.connect("b", "to"));
    subscribe_at(&mut to, "t", 0);
    let message = crate::wire::publish("t", &vec![b'x'; 1_000_000]);
    for _ in 0..20 {
        from.send(&message);
        assert_eq!(receive_message(&mut to).payload.len(), 1_000_000);
    }
    let told = told(&world, "a");
    assert!(told.contains(&"node b, incarnation 1, through node c".to_owned()), "{told:?}");
    world.expect_well();
}

#[test]
fn a_way_has_one_node_in_between_and_no_more() {
    // Neither `a` nor `c` has a direct connection with `b`, and `c` does not carry for `a` by way of `d`.
    let (world, proxies) = wired(&["a", "b", "c", "d"], &[("a", "b"), ("b", "c")], no_tls);
    proxies.iter().for_each(Proxy::close);
    wait_through(&world, "a", "b", Some("d"));
    wait_through(&world, "b", "c", Some("d"));
    assert_eq!(world.status("c").total.carried_bytes, 0);
    world.expect_well();
}

#[test]
fn another_node_carries_when_the_carrying_node_has_gone() {
    let (mut world, proxies) = wired(&["a", "b", "c", "d"], &[("a", "b")], no_tls);
    proxies[0].close();
    // An attempt is shown with the node in between, too: it counts as a session when it is open.
    world.wait("a", |status| status.peers.iter().any(|peer| peer.through.is_some() && peer.state != Dialing));
    let through = world.link("a", "b").through.unwrap();
    drop(world.nodes.remove(through.as_str()));
    let other = if through.as_str() == "c" { "d" } else { "c" };
    wait_through_without(&world, &through.to_string(), other);
    let (mut from, mut to) = (world.connect("a", "from"), world.connect("b", "to"));
    subscribe_at(&mut to, "t", 1);
    publish_and_wait(&mut from, "t", b"x", 1, false);
    assert_eq!(receive_message(&mut to).payload, "x");
    world.wait("a", |status| status.total.indirect >= 2);
}

/// Entries of a node's flight recorder about its links.
fn told(world: &World, of: &str) -> Vec<String> {
    let story =
        world.nodes[of].handle().clients().why(&FlightSubject::Address("127.0.0.1".parse().unwrap()), None).unwrap();
    let told = story.events.iter().filter(|event| matches!(event.kind, FlightKind::NodeLinked | FlightKind::NodeLost));
    told.map(|event| event.detail.to_string()).collect()
}

/// Waits until `a` reaches `b` through `other`, while `gone` is away.
fn wait_through_without(world: &World, gone: &str, other: &str) {
    use tidegate_node::LinkState::Settled;
    for (of, to) in [("a", "b"), ("b", "a")] {
        let is = |peer: &PeerStatus| {
            let through = peer.through.as_ref().map(NodeName::as_str);
            peer.name.as_str() == gone || peer.state == Settled && (peer.name.as_str() != to || through == Some(other))
        };
        world.wait(of, |status| status.peers.iter().all(is));
    }
}

#[test]
fn a_node_that_leaves_says_goodbye_around_a_cut_link() {
    for leaving in ["a", "b"] {
        let (mut world, proxies) = wired(&["a", "b", "c"], &[("a", "b")], no_tls);
        proxies[0].close();
        wait_through(&world, "a", "b", Some("c"));
        let staying = if leaving == "a" { "b" } else { "a" };
        let resets = world.status(staying).total.resets;
        let stopped = world.nodes.remove(leaving).unwrap().stop(Duration::from_secs(60));
        assert!(stopped.drained);
        let told = told(&world, staying);
        assert!(told.contains(&format!("node {leaving}: it said goodbye")), "{told:?}");
        assert_eq!(world.status(staying).total.resets, resets);
    }
}

/// The indirect session of `a` with `b` ends by `end`: the link of `a` to `c`, which carried it, is as before.
fn expect_carrier_kept(end: impl FnOnce(&mut World), why: &str) {
    let (mut world, proxies) = wired(&["a", "b", "c"], &[("a", "b")], no_tls);
    let (mut at_a, mut at_c) = (world.connect("a", "at-a"), world.connect("c", "at-c"));
    let (mut from_a, mut from_c) = (world.connect("a", "from-a"), world.connect("c", "from-c"));
    proxies[0].close();
    wait_through(&world, "a", "b", Some("c"));
    subscribe_at(&mut at_a, "from-c", 1);
    subscribe_at(&mut at_c, "from-a", 1);
    let before = world.link("a", "c").counters;
    end(&mut world);
    world.wait("a", |status| status.peers.iter().any(|peer| peer.name.as_str() == "b" && peer.state == Dialing));
    publish_and_wait(&mut from_a, "from-a", b"x", 1, false);
    assert_eq!(receive_message(&mut at_c).payload, "x");
    publish_and_wait(&mut from_c, "from-c", b"y", 1, false);
    assert_eq!(receive_message(&mut at_a).payload, "y");
    let after = world.link("a", "c").counters;
    assert_eq!((after.sessions, after.resets), (before.sessions, before.resets));
    let told = told(&world, "a");
    assert!(told.contains(&format!("node b: {why}")), "{told:?}");
}

#[test]
fn the_link_to_the_carrier_outlives_the_node_at_the_far_end() {
    expect_carrier_kept(|world| drop(world.nodes.remove("b")), "node c has no link to it either");
}

#[test]
fn the_link_to_the_carrier_outlives_a_session_ended_far_away() {
    let forget = |world: &mut World| {
        let mut view = ClusterView::clone(&world.view_of("b"));
        view.peers.retain(|peer| peer.name.as_str() != "a");
        world.nodes["b"].handle().set_cluster(view.into()).unwrap();
    };
    expect_carrier_kept(forget, "it has closed the connection");
}

/// The address of a node for relayed clients.
fn relay_of(world: &World, node: &str) -> SocketAddr {
    world.nodes[node].local_addresses()[1].socket().unwrap()
}

/// Node a reaches this home through the node with this address.
fn go_through(world: &World, home: SocketAddr, carrier: SocketAddr) {
    let a = world.nodes["a"].handle();
    a.set_detours(&Arc::new([(home, carrier)].into()));
    // Shards take orders in turn: with their reports the ways are in force.
    a.report().unwrap();
}

fn go_through_c(world: &World, home: SocketAddr) {
    go_through(world, home, relay_of(world, "c"));
}

#[test]
fn a_client_is_carried_around_a_cut_connection() {
    let world = World::of(&[("a", 2), ("b", 1), ("c", 2)]);
    relay_clients(&world);
    go_through_c(&world, relay_of(&world, "b"));
    let mut at_b = world.connect("b", &id_at(&world, "b", "subscriber"));
    subscribe_at(&mut at_b, "t", 2);
    let mut at_a = world.connect("a", &id_at(&world, "b", "carried"));
    for qos in 0..=2 {
        publish_and_wait(&mut at_a, "t", &[b'0' + qos], qos, false);
        assert_eq!(receive_message(&mut at_b).payload, qos.to_string());
    }
    let [a, b, c] = ["a", "b", "c"].map(|node| world.nodes[node].handle().report().unwrap());
    assert_eq!((a.shell.relayed, b.shell.relayed, c.shell.relayed), (1, 0, 1));
    assert_eq!((c.counters.connects_accepted, c.gauges.sessions_connected), (0, 0), "node c sees no client");
    // Its end crosses, too.
    assert_eq!(b.gauges.sessions_connected, 2);
    drop(at_a);
    until("an end", || world.nodes["b"].handle().report().unwrap().gauges.sessions_connected == 1);
    world.expect_well();
}

#[test]
fn a_node_carries_to_homes_of_its_table_only() {
    let world = World::of(&[("a", 1), ("b", 1), ("c", 1)]);
    relay_clients(&world);
    go_through_c(&world, relay_of(&world, "b"));
    world.nodes["c"].handle().set_homes(None).unwrap();
    let mut client = Client::dial(&world.nodes["a"].local_addresses()[0]);
    client.send(&connect(&id_at(&world, "b", "carried")));
    assert_eq!(client.rest(), b"");
    let c = world.nodes["c"].handle().report().unwrap();
    assert_eq!((c.shell.relayed, c.shell.relays_failed), (0, 1));
    assert_eq!(c.counters.connects_refused[Reason::HomeUnreachable.number()], 1);
    assert_eq!(world.nodes["b"].handle().report().unwrap().counters.connects_accepted, 0);
}

#[test]
fn a_client_whose_home_refuses_the_carrier_is_closed() {
    let mut world = World::of(&[("a", 1), ("b", 1), ("c", 1)]);
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.relays.insert("b".to_owned(), gone);
    relay_clients(&world);
    go_through_c(&world, gone);
    let mut client = Client::dial(&world.nodes["a"].local_addresses()[0]);
    client.send(&connect(&id_at(&world, "b", "carried")));
    assert_eq!(client.rest(), b"");
    let c = world.nodes["c"].handle().report().unwrap();
    assert_eq!((c.shell.relayed, c.shell.relays_failed), (1, 1));
}

#[test]
fn a_carrying_node_that_stops_loses_no_client() {
    let mut world = World::of(&[("a", 1), ("b", 1), ("c", 1)]);
    relay_clients(&world);
    go_through_c(&world, relay_of(&world, "b"));
    let client = world.connect("a", &id_at(&world, "b", "carried"));
    let rest = std::thread::spawn(move || client.rest());
    let stopped = world.nodes.remove("c").unwrap().stop(Duration::from_secs(60));
    assert!(stopped.drained);
    assert_eq!(rest.join().unwrap(), b"");
    let ends = || {
        let ends = world.nodes["b"].handle().report().unwrap().counters.disconnects;
        [Reason::UseAnotherServer, Reason::ConnectionLost].map(|reason| ends[reason.number()])
    };
    until("an end", || ends() != [0, 0]);
    assert_eq!(ends(), [1, 0], "its will waits until it has connected elsewhere");
}

#[test]
fn a_node_that_stops_begins_to_carry_no_client() {
    let mut world = World::of(&[("a", 1), ("b", 1), ("c", 1)]);
    relay_clients(&world);
    // A request to carry, as node a sends it.
    let between = TcpListener::bind("127.0.0.1:0").unwrap();
    go_through(&world, relay_of(&world, "b"), between.local_addr().unwrap());
    let id = id_at(&world, "b", "carried");
    let mut client = Client::dial(&world.nodes["a"].local_addresses()[0]);
    client.send(&connect(&id));
    let (mut asking, _) = between.accept().unwrap();
    let mut request = Vec::new();
    while !request.ends_with(&connect(&id)) {
        let mut some = [0; 1024];
        let length = asking.read(&mut some).unwrap();
        request.extend_from_slice(&some[..length]);
    }
    let mut late = TcpStream::connect(relay_of(&world, "c")).unwrap();
    let connections = || world.nodes["c"].handle().report().unwrap().gauges.connections;
    until("a connection", || connections() == 1);
    let stopping = world.nodes.remove("c").unwrap();
    let stopping = std::thread::spawn(move || stopping.stop(Duration::from_secs(20)));
    // Node c has closed its side, and waits for the end of the other.
    assert_eq!(late.read(&mut [0]).unwrap(), 0);
    late.write_all(&request).unwrap();
    assert!(stopping.join().unwrap().drained);
    assert_eq!(world.nodes["b"].handle().report().unwrap().counters.connects_accepted, 0);
}

#[test]
fn a_carried_client_keeps_its_socket_when_its_home_moves() {
    let mut world = World::of(&[("a", 1), ("b", 1), ("c", 1)]);
    relay_clients(&world);
    go_through_c(&world, relay_of(&world, "b"));
    let mut clients = ["c", "b"].map(|home| {
        let id = id_at(&world, home, "moves");
        let mut client = world.connect("a", &id);
        subscribe_at(&mut client, &id, 1);
        (client, id)
    });
    // One client comes to be carried, the other was.
    move_all(&mut world, 1, ("c", "b"));
    for (client, id) in &mut clients {
        let mut publisher = world.connect("a", &format!("publisher-{id}"));
        publish_and_wait(&mut publisher, id, b"after", 1, false);
        assert_eq!(receive_message(client).payload, "after");
    }
    let c = world.nodes["c"].handle().report().unwrap();
    assert!(c.shell.relayed >= 2, "{}", c.shell.relayed);
}
