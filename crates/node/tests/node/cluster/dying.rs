//! Nodes that die, return, stall, or leave.

use std::time::Duration;

use tidegate_engine::Reason;
use tidegate_node::{FlightKind, FlightSubject, LinkLimits, LinkState};

use super::proxy::Proxy;
use super::world::*;
use crate::wire::{Client, connect_v5};

/// A client of MQTT 5, which receives the reason of its DISCONNECT.
fn connect_new(world: &World, node: &str, client_id: &str) -> Client {
    let mut client = Client::dial(&world.nodes[node].local_addresses()[0]);
    client.send(&connect_v5(client_id));
    let (first, _) = receive_packet(&mut client);
    assert_eq!(first, 0x20);
    client
}

/// Why a node lost the first session that it lost, as its flight recorder tells.
fn why_lost(world: &World, node: &str) -> String {
    let story =
        world.nodes[node].handle().clients().why(&FlightSubject::Address("127.0.0.1".parse().unwrap()), None).unwrap();
    assert!(story.events.iter().any(|event| event.kind == FlightKind::NodeLinked));
    let lost = story.events.iter().find(|event| event.kind == FlightKind::NodeLost);
    lost.unwrap_or_else(|| panic!("nothing was lost: {story:?}")).detail.to_string()
}

#[test]
fn a_dropped_node_returns_to_its_place_repeatedly() {
    let mut world = World::of(&[("a", 2), ("b", 2), ("c", 1)]);
    let mut steady = world.connect("a", "steady");
    subscribe_at(&mut steady, "t/#", 1);
    let mut publisher = world.connect("c", "publisher");
    for life in 2..6_u64 {
        drop(world.nodes.remove("b"));
        world.introduce();
        world.settle();
        publish_and_wait(&mut publisher, "t/without", b"x", 1, false);
        assert_eq!(receive_message(&mut steady).topic, "t/without");
        world.start("b", life, 1 + (life % 3) as u16);
        world.introduce();
        world.settle();
        let mut guest = world.connect("b", &format!("guest-{life}"));
        subscribe_at(&mut guest, "t/+", 2);
        let mut sender = world.connect("b", &format!("sender-{life}"));
        publish_and_wait(&mut sender, "t/1", b"hello", 2, false);
        assert_eq!(receive_message(&mut steady).payload, "hello");
        assert_eq!(receive_message(&mut guest).payload, "hello");
        publish_and_wait(&mut publisher, "t/2", b"again", 2, false);
        assert_eq!(receive_message(&mut steady).payload, "again");
        assert_eq!(receive_message(&mut guest).payload, "again");
    }
    expect_nothing(&mut steady);
    world.expect_well();
}

#[test]
fn a_broken_session_is_replaced_and_messages_flow() {
    let mut world = World::apart(&[("a", 2), ("b", 2)], restless());
    let proxy = Proxy::to(world.nodes["b"].handle().cluster_address().unwrap());
    world.detours.insert(("a".into(), "b".into()), proxy.address);
    world.introduce();
    world.settle();
    let mut subscriber = world.connect("b", "subscriber");
    subscribe_at(&mut subscriber, "t", 1);
    let mut publisher = world.connect("a", "publisher");
    for round in 1..10 {
        proxy.cut();
        world.wait("a", |status| status.total.sessions > round);
        world.settle();
        publish_and_wait(&mut publisher, "t", format!("{round}").as_bytes(), 1, false);
        assert_eq!(receive_message(&mut subscriber).payload, format!("{round}"));
    }
    assert_eq!(world.status("a").total.resets, 9);
    world.expect_well();
}

#[test]
fn a_client_waiting_for_a_dead_node_is_redirected() {
    let mut world = World::apart(&[("a", 1), ("b", 1)], hasty());
    let proxy = Proxy::to(world.nodes["b"].handle().cluster_address().unwrap());
    world.detours.insert(("a".into(), "b".into()), proxy.address);
    world.introduce();
    world.settle();
    let mut subscriber = world.connect("b", "subscriber");
    subscribe_at(&mut subscriber, "t", 1);
    let mut waiting = connect_new(&world, "a", "waiting");
    let mut other = world.connect("a", "other");
    proxy.stop(true, true);
    let mut packet = publish_at("t", b"asked", 1, 9, false);
    packet.insert(7, 0);
    packet[1] += 1;
    waiting.send(&packet);
    let goodbye = waiting.rest();
    assert_eq!((goodbye[0], goodbye[2]), (0xe0, 0x89), "{goodbye:02x?}");
    let report = world.nodes["a"].handle().report().unwrap();
    assert_eq!(report.counters.disconnects[Reason::NodeLost.number()], 1);
    // A publisher without a pending request stays, and a message that no client of the dead node can want needs no
    // confirmation.
    publish_and_wait(&mut other, "t", b"alone", 1, false);
    world.wait("a", |status| status.total.resets > 0);
    assert_eq!(why_lost(&world, "a"), "node b: it sent nothing for 2000 ms");
    // The wire is whole again.
    proxy.stop(false, false);
    world.settle();
    let mut again = connect_new(&world, "a", "waiting");
    again.send(&packet);
    let (first, body) = receive_packet(&mut again);
    assert_eq!((first, &body[..2]), (0x40, &[0, 9][..]));
    while receive_message(&mut subscriber).payload != "asked" {}
    world.expect_well();
}

/// Two nodes: `b` has read nothing while `a` published more than the link carries, until `a` ended the session.
struct Flooded {
    world: World,
    publisher: Client,
    /// Why the session was ended.
    why: String,
    _subscriber: Client,
    _proxy: Proxy,
}

fn flooded(limits: LinkLimits) -> Flooded {
    let limits = LinkLimits { peer_timeout: Duration::from_secs(3_600), ..limits };
    let mut world = World::with_credit(&[("a", 1), ("b", 1)], limits, 256 * 1024 * 1024);
    let proxy = Proxy::to(world.nodes["b"].handle().cluster_address().unwrap());
    world.detours.insert(("a".into(), "b".into()), proxy.address);
    world.introduce();
    world.settle();
    let mut subscriber = world.connect("b", "subscriber");
    subscribe_at(&mut subscriber, "t", 0);
    proxy.stop(true, false);
    let mut publisher = world.connect("a", "publisher");
    publish_much(&mut publisher);
    world.wait("a", |status| status.total.resets > 0);
    let why = why_lost(&world, "a");
    Flooded { world, publisher, why, _subscriber: subscriber, _proxy: proxy }
}

#[test]
fn a_node_that_reads_nothing_loses_its_session() {
    let Flooded { world, publisher, why, .. } = &mut flooded(hasty());
    assert!(why.contains("read none of its waiting data"), "{why}");
    // Its publishers go on.
    expect_nothing(publisher);
    world.expect_well();
}

#[test]
fn more_than_may_wait_for_a_node_ends_its_session() {
    let limits = LinkLimits { stall_timeout: Duration::from_secs(3_600), outbox_bytes: 1_000_000, ..hasty() };
    let Flooded { publisher, why, .. } = &mut flooded(limits);
    assert!(why.contains("1000000 bytes"), "{why}");
    expect_nothing(publisher);
}

/// More than all sockets between two nodes hold.
fn publish_much(publisher: &mut Client) {
    let message = crate::wire::publish("t", &vec![7; 1_000_000]);
    (0..40).for_each(|_| publisher.send(&message));
}

#[test]
fn a_node_that_stops_says_goodbye_behind_its_last_message() {
    let mut world = World::of(&[("a", 2), ("b", 2)]);
    let mut watcher = world.connect("a", "watcher");
    subscribe_at(&mut watcher, "gone", 0);
    let mut leaving = Client::dial(&world.nodes["b"].local_addresses()[0]);
    leaving.send(&crate::wire::connect_with_will("leaving", "gone", "will"));
    leaving.expect(&crate::wire::CONNACK);
    let stopped = world.nodes.remove("b").unwrap().stop(Duration::from_secs(120));
    assert!(stopped.drained);
    let link = world.link("a", "b");
    assert_eq!((link.state, link.counters.resets), (LinkState::Dialing, 0));
    assert_eq!(why_lost(&world, "a"), "node b: it said goodbye");
    world.expect_well();
}

#[test]
fn a_node_that_leaves_the_view_leaves_the_roster() {
    let mut world = World::of(&[("a", 1), ("b", 1)]);
    let mut subscriber = world.connect("b", "subscriber");
    subscribe_at(&mut subscriber, "t", 1);
    let mut publisher = world.connect("a", "publisher");
    let mut view = (*world.view_of("a")).clone();
    view.peers.clear();
    view.epoch = 77;
    world.nodes["a"].handle().set_cluster(std::sync::Arc::new(view)).unwrap();
    publish_and_wait(&mut publisher, "t", b"alone", 1, false);
    let status = world.status("a");
    assert_eq!((status.peers.len(), status.epoch, status.total.sessions), (0, 77, 1));
    // Until both views have it again.
    world.introduce();
    world.settle();
    publish_and_wait(&mut publisher, "t", b"together", 1, false);
    assert_eq!(receive_message(&mut subscriber).payload, "together");
}
