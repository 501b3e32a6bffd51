//! The home of clients moves from node to node, and their sockets stay where they are.

use std::io::ErrorKind;
use std::net::TcpStream;

use tidegate_engine::{PartitionId, Partitions, Reason, TenantId, partition_of};
use tidegate_node::LeftOut;

use super::clients::{id_at, relay_clients};
use super::world::*;
use crate::wire::*;

/// Moves the partitions of `from` to another node, as the nodes of a cluster do it.
pub(super) fn move_all(world: &mut World, id: u64, way: (&str, &str)) {
    move_all_while(world, id, way, || {});
}

/// The same with something that happens when the clients have left and have no home.
fn move_all_while(world: &mut World, id: u64, way: (&str, &str), meanwhile: impl FnOnce()) {
    move_all_but(world, id, way, LeftOut::default(), meanwhile);
}

/// The same without some clients.
fn move_all_but(world: &mut World, id: u64, (from, to): (&str, &str), left_out: LeftOut, meanwhile: impl FnOnce()) {
    let moved: Vec<u16> = (0..tidegate_engine::PARTITIONS).filter(|it| world.home_of(*it) == from).collect();
    let partitions: Partitions = moved.iter().map(|it| PartitionId(*it)).collect();
    let old = world.nodes[from].handle();
    old.moves().begin_to_leave(partitions, left_out).unwrap();
    until("the leave of all clients", || old.moves().let_clients_leave().unwrap() == 0);
    meanwhile();
    old.moves().hold_partitions(partitions, None).unwrap();
    let images = old.moves().snapshot_for_node(partitions, u64::MAX, id).unwrap().expect("no queue is in a store");
    let new = world.nodes[to].handle();
    new.moves().arrive_from_node(images, id).unwrap();
    until("the cut", || old.moves().is_cut(id).unwrap());
    let rest = old.moves().take_transfer_rest(id).unwrap();
    new.moves().finish_transfer(id, rest).unwrap();
    world.given.extend(moved.into_iter().map(|it| (it, to.to_owned())));
    world.introduce();
    relay_clients(world);
    for node in world.nodes.values() {
        node.handle().moves().release_partitions(partitions).unwrap();
    }
    old.moves().forget_partitions(partitions).unwrap();
}

/// A client with a subscription and a message that it has not acknowledged.
fn client_at(world: &World, at: &str, home: &str, publisher: &mut Client) -> (Client, String) {
    let id = id_at(world, home, &format!("at-{at}"));
    let mut client = world.connect(at, &id);
    subscribe_at(&mut client, &format!("to/{id}"), 1);
    publisher.send(&publish(&format!("to/{id}"), b"first"));
    assert_eq!(receive_message(&mut client).payload, "first");
    (client, id)
}

#[test]
fn clients_keep_their_sockets_when_their_home_moves() {
    for shards in [1, 2] {
        let mut world = World::of(&[("a", shards), ("b", shards), ("c", 1)]);
        relay_clients(&world);
        let publisher_id = id_at(&world, "c", "publisher");
        let mut publisher = world.connect("c", &publisher_id);
        // At the home itself, at the new home, and at a third node.
        let mut clients: Vec<(Client, String)> =
            ["a", "b", "c"].map(|at| client_at(&world, at, "a", &mut publisher)).into();
        // One of them is in the middle of a packet.
        let whole = publish_at("whole", b"in two parts", 1, 77, false);
        clients[2].0.send(&whole[..7]);
        for (id, way) in [(1, ("a", "b")), (2, ("b", "c")), (3, ("c", "a"))] {
            move_all(&mut world, id, way);
            for (client, name) in &mut clients[..2] {
                let payload = format!("after move {id}");
                publish_and_wait(&mut publisher, &format!("to/{name}"), payload.as_bytes(), 1, false);
                assert_eq!(receive_message(client).payload, payload, "{name}, {way:?}");
                expect_nothing(client);
            }
        }
        let (client, name) = &mut clients[2];
        client.send(&whole[7..]);
        client.expect(&[0x40, 2, 0, 77]);
        publish_and_wait(&mut publisher, &format!("to/{name}"), b"last", 1, false);
        assert_eq!(receive_message(client).payload, "last");
        // No client was disconnected, and a client that ends is ended at its home.
        let disconnects = |world: &World, reason: Reason| -> u64 {
            let reports = world.nodes.values().map(|node| node.handle().report().unwrap());
            reports.map(|report| report.counters.disconnects[reason.number()]).sum()
        };
        assert_eq!(disconnects(&world, Reason::UseAnotherServer), 0);
        for (mut client, _) in clients {
            client.send(&DISCONNECT);
            client.rest();
        }
        assert_eq!(disconnects(&world, Reason::NormalDisconnect), 3);
        world.expect_well();
    }
}

#[test]
fn a_stopping_node_keeps_clients_until_their_new_home_serves() {
    let mut world = World::of(&[("a", 1), ("b", 1), ("c", 1)]);
    relay_clients(&world);
    let mut publisher = world.connect("c", &id_at(&world, "c", "publisher"));
    let name = id_at(&world, "a", "own");
    let mut own = Client::dial(&world.nodes["a"].local_addresses()[0]);
    own.send(&connect_lasting(&name));
    own.expect(&CONNACK);
    subscribe_at(&mut own, "to/own", 1);
    let (mut relayed, other) = client_at(&world, "c", "a", &mut publisher);
    let stopping = world.nodes["a"].handle();
    let [clients, nodes] = [0, 1].map(|at| world.nodes["a"].local_addresses()[at].to_string());
    let ended = || stopping.report().unwrap().counters.disconnects[Reason::UseAnotherServer.number()];
    move_all_but(&mut world, 1, ("a", "b"), LeftOut { local: true, ..LeftOut::default() }, || {
        // No client returns to it, and other nodes still hand theirs over.
        assert_eq!(TcpStream::connect(&clients).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert!(TcpStream::connect(&nodes).is_ok());
        assert_eq!(ended(), 0, "its client waits for the new home");
    });
    assert!(own.rest().is_empty(), "it is disconnected now");
    let mut again = Client::dial(&world.nodes["b"].local_addresses()[0]);
    again.send(&connect_lasting(&name));
    again.expect(&[0x20, 2, 1, 0]);
    publish_and_wait(&mut publisher, "to/own", b"own", 1, false);
    assert_eq!(receive_message(&mut again).payload, "own");
    publish_and_wait(&mut publisher, &format!("to/{other}"), b"next", 1, false);
    assert_eq!(receive_message(&mut relayed).payload, "next");
    world.expect_well();
}

#[test]
fn a_client_that_ends_while_its_home_moves_is_lost_there() {
    let mut world = World::of(&[("a", 1), ("b", 1), ("c", 1)]);
    relay_clients(&world);
    let watcher_id = id_at(&world, "b", "watcher");
    let mut watcher = world.connect("b", &watcher_id);
    subscribe_at(&mut watcher, "gone", 1);
    let id = id_at(&world, "a", "broken");
    let mut client = Client::dial(&world.nodes["c"].local_addresses()[0]);
    client.send(&connect_with_will(&id, "gone", "will"));
    client.expect(&CONNACK);
    assert_eq!(partition_of(TenantId::DEFAULT, &id).0 % 3, 0);
    move_all_while(&mut world, 1, ("a", "b"), || client.socket().finish());
    assert_eq!(receive_message(&mut watcher).payload, "will");
    let lost = |node: &str| {
        let report = world.nodes[node].handle().report().unwrap();
        report.counters.disconnects[Reason::ConnectionLost.number()]
    };
    assert_eq!((lost("a"), lost("b")), (0, 1));
}

#[test]
fn no_connection_continues_without_the_secret() {
    let world = World::of(&[("a", 1)]);
    relay_clients(&world);
    let relay = world.nodes["a"].local_addresses()[1].clone();
    let mut stranger = Client::dial(&relay);
    let header = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let partition = partition_of(TenantId::DEFAULT, "victim").0.to_le_bytes();
    let mut frame = vec![0, 103, 1, partition[0], partition[1]];
    frame.extend([7; 100]);
    stranger.send(&[&header[..], &frame].concat());
    assert_eq!(stranger.rest(), [0, 2, 5, 0], "the frame of a refusal");
    // The same at the listener of clients is no CONNECT.
    let mut client = Client::dial(&world.nodes["a"].local_addresses()[0]);
    client.send(&frame);
    assert_eq!(client.rest(), b"");
    world.expect_well();
}
