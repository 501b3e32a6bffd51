//! A client id is unique over all nodes: its home is one of them, and a client that comes to another node is relayed
//! there.

use std::sync::Arc;

use tidegate_engine::{Home, Homes, Millis, PARTITIONS, Reason, TenantId, partition_of};
use tidegate_node::NodeHomes;

use super::world::*;
use crate::wire::{CONNACK, Client, connect_lasting};

/// Relays clients to the node that works their partition.
pub(super) fn relay_clients(world: &World) {
    let names: Vec<String> = world.nodes.keys().cloned().collect();
    let own = world.nodes.iter().map(|(name, node)| (name, node.local_addresses()[1].socket()));
    let relays: Vec<_> = own.map(|(name, own)| world.relays.get(name).copied().or(own)).collect();
    for (node, running) in &world.nodes {
        let mut homes = [Home::Here; PARTITIONS as usize];
        for (partition, home) in (0..PARTITIONS).zip(&mut homes) {
            let at = names.iter().position(|name| name == world.home_of(partition)).unwrap();
            if names[at] != *node {
                *home = Home::At(at as u16);
            }
        }
        let references = vec![String::new(); names.len()];
        let table = Homes { homes, references, redirect: false, lease_until: Millis::NEVER, patience_ms: 0 };
        let homes = NodeHomes { table: Arc::new(table), relays: relays.clone().into() };
        running.handle().set_homes(Some(&Arc::new(homes))).unwrap();
    }
}

/// A client id that is at home on a node.
pub(super) fn id_at(world: &World, node: &str, stem: &str) -> String {
    let here = |id: &String| world.home_of(partition_of(TenantId::DEFAULT, id).0) == node;
    (0..10_000).map(|number| format!("{stem}-{number}")).find(here).unwrap()
}

#[test]
fn the_newer_connection_takes_over_on_any_node() {
    let world = World::of(&[("a", 1), ("b", 2), ("c", 3)]);
    relay_clients(&world);
    let mut ended = 0;
    for home in ["a", "b", "c"] {
        let id = id_at(&world, home, "twice");
        for (first, second) in [("a", "b"), ("b", "c"), ("c", "a"), ("b", "b")] {
            let one = world.connect(first, &id);
            let mut other = world.connect(second, &id);
            assert_eq!(one.rest(), b"");
            expect_nothing(&mut other);
            other.send(&crate::wire::DISCONNECT);
            other.rest();
            ended += 1;
        }
    }
    let taken_over: u64 = world
        .nodes
        .values()
        .map(|node| node.handle().report().unwrap().counters.disconnects[Reason::SessionTakenOver.number()])
        .sum();
    assert_eq!(taken_over, ended);
}

#[test]
fn a_session_resumes_from_every_node_with_all_messages() {
    let world = World::of(&[("a", 1), ("b", 2), ("c", 1)]);
    relay_clients(&world);
    let id = id_at(&world, "b", "wanders");
    let connect = |node: &str| {
        let mut client = Client::dial(&world.nodes[node].local_addresses()[0]);
        client.send(&connect_lasting(&id));
        client
    };
    let mut client = connect("a");
    client.expect(&CONNACK);
    subscribe_at(&mut client, "t/#", 1);
    for (round, (next, publisher)) in [("c", "a"), ("b", "c"), ("a", "b")].into_iter().enumerate() {
        client.send(&crate::wire::DISCONNECT);
        client.rest();
        let mut publisher = world.connect(publisher, &format!("publisher-{round}"));
        publish_and_wait(&mut publisher, "t/1", format!("missed {round}").as_bytes(), 1, false);
        client = connect(next);
        client.expect(&[0x20, 2, 1, 0]);
        assert_eq!(receive_message(&mut client).payload, format!("missed {round}"));
    }
    expect_nothing(&mut client);
}
