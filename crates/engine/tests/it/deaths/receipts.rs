//! Receipts for clients whose node dies, and about nodes that move.

use tidegate_engine::{AddressSettings, TenantId, partition_of};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use super::*;

/// Three nodes of one shard, with addresses.
fn addressed_nodes() -> World {
    World::cluster(3, 1, |settings| {
        settings.durability = Durability::Commit;
        settings.addresses = Some(AddressSettings { guarded: false, ..AddressSettings::default() });
    })
}

/// The receipts that a client has got.
fn receipts_of(client: &Client) -> Vec<String> {
    client.messages_among_others().iter().map(Delivered::text).collect()
}

/// A message to a node whose sender asks how it ended.
fn asking(name: &str) -> Message {
    message(&format!("ctx/to/node/{name}"), "x").qos1().user("receipt", "delivered")
}

#[test]
fn a_receipt_waits_for_the_takeover_of_its_receiver() {
    let world = addressed_nodes();
    let sender = steady(&world, 1, "sender-");
    let asks = world.connect(sender.clone());
    asks.subscribe("replies", AtLeastOnce);
    let truck = world.name_on(0, "truck-");
    let node = world.connect(v5(&truck).accept_on(0).manual());
    let topic = format!("ctx/to/node/{truck}");
    asks.publish(asking(&truck).response("replies", b"1"));
    let got = node.expect_publish(&topic, "x");
    world.fall(1, 0, 0);
    world.run();
    node.puback(got.id.unwrap());
    world.run();
    world.take_over(1);
    let asks = world.connect(sender.accept_on(2));
    assert!(asks.session_present());
    let receipts = receipts_of(&asks);
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    assert!(receipts[0].contains("\"delivered\"") && receipts[0].contains(&truck), "{receipts:?}");
}

#[test]
fn a_message_that_expires_on_its_way_has_a_receipt() {
    for (qos, is_away) in [(AtLeastOnce, false), (AtLeastOnce, true), (ExactlyOnce, false), (ExactlyOnce, true)] {
        let world = addressed_nodes();
        let asks = world.connect(steady(&world, 1, "sender-"));
        let truck = steady(&world, 0, "truck-");
        let node = world.connect(truck.clone());
        if is_away {
            node.disconnect();
        }
        world.hold(1, 0);
        asks.publish_later(asking(&truck.client_id).qos(qos).expiry(1));
        world.advance(2_000);
        world.release(1, 0);
        let receipts = receipts_of(&asks);
        assert_eq!(receipts.len(), 1, "{qos:?} {is_away}: {receipts:?}");
        assert!(receipts[0].contains("\"expired\""), "{qos:?} {is_away}: {receipts:?}");
    }
}

#[test]
fn a_former_home_calls_no_node_unknown() {
    let world = addressed_nodes();
    let asks = world.connect(steady(&world, 2, "sender-"));
    let truck = steady(&world, 0, "truck-");
    world.connect(truck.clone()).disconnect();
    let partition = partition_of(TenantId::DEFAULT, &truck.client_id);
    world.begin_move(0, 1, &truck.client_id);
    for _ in 0..4 {
        world.advance_move();
    }
    // The old home forgets its sessions before its roster names the new home.
    let moved = std::iter::once(partition).collect();
    world.engine(0, |engine, now| engine.moves().forget_partitions(now, moved));
    asks.publish_later(asking(&truck.client_id));
    world.run();
    assert_eq!(receipts_of(&asks), Vec::<String>::new());
    let owed = world.engine(0, |engine, _| engine.questions().owed(partition));
    assert_eq!(owed.wills, 0, "the old home owes a receipt: {owed:?}");
    world.end_move();
    world.run();
    let node = world.connect(truck.accept_on(1));
    assert_eq!(node.messages_among_others().len(), 1);
    let receipts = receipts_of(&asks);
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    assert!(receipts[0].contains("\"delivered\""), "{receipts:?}");
    let names = (0..100_000).map(|number| format!("stranger-{number}"));
    let stranger = names.into_iter().find(|name| partition_of(TenantId::DEFAULT, name) == partition);
    asks.publish_later(asking(&stranger.expect("one of many names")));
    let receipts = receipts_of(&asks);
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    assert!(receipts[0].contains("\"unknown\""), "the new home knows its nodes: {receipts:?}");
}
