//! The waits of a client's request and its answer when group, member and client have their homes on three nodes with
//! stores.

use tidegate_engine::Durability;
use tidegate_mqtt::PacketType;
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::*;

/// An application that is a member of a group at node 1, and a client at node 2; the group is dealt at node 0. Nothing
/// is committed.
fn apart() -> (World, Client, Client, String) {
    let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
    let names = (0..1000).map(|number| format!("t{number}"));
    let topic = names.into_iter().find(|it| world.home_of(&format!("g/{it}")) == 0).expect("one of many names");
    let application = world.connect(v5(&world.name_on(1, "application ")).manual());
    application.subscribe(&format!("$share/g/{topic}"), ExactlyOnce);
    let client = world.connect(v5(&world.name_on(2, "client ")).manual());
    client.subscribe("answer", AtLeastOnce);
    world.hold_commits();
    (world, application, client, topic)
}

#[test]
fn only_the_acknowledgement_waits_for_a_commit() {
    let (world, application, client, topic) = apart();
    let before = world.written();
    client.publish_later(message(&topic, "asked").qos1().id(7));
    world.run();
    let asked = application.expect_publish(&topic, "asked");
    application.publish_later(message("answer", "told").qos1().id(9));
    world.run();
    application.expect(PacketType::PubAck);
    client.expect_publish("answer", "told");
    client.expect_nothing();
    // The group has noted its deal: the acknowledgement promises nothing more.
    world.commit(1);
    client.expect(PacketType::PubAck);
    world.release_commits();
    assert_eq!(world.written() - before, 1);
    application.puback(asked.id.expect("a packet id at QoS 1"));
    world.run();
    assert_eq!((world.written() - before, world.gauges().kept_deals), (2, 0));
}

#[test]
fn a_qos_2_deal_leaves_once_its_receiver_is_stored() {
    let (world, application, client, topic) = apart();
    client.publish_later(message(&topic, "once").qos2().id(7));
    world.run();
    application.expect_nothing();
    client.expect_nothing();
    world.release_commits();
    application.expect_publish(&topic, "once");
    client.expect(PacketType::PubRec);
}

#[test]
fn a_stored_member_confirms_a_deal_once_it_is_kept() {
    let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
    let names = (0..1000).map(|number| format!("t{number}"));
    let topic = names.into_iter().find(|it| world.home_of(&format!("g/{it}")) == 0).expect("one of many names");
    let member = world.connect(v5(&world.name_on(1, "member ")).lasting().manual());
    member.subscribe(&format!("$share/g/{topic}"), AtLeastOnce);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
    world.hold_commits();
    publisher.publish_later(message(&topic, "x").qos1().id(7));
    world.run();
    member.expect_publish(&topic, "x");
    assert_eq!(world.gauges().kept_deals, 1, "its node may forget it");
    world.release_commits();
    assert_eq!(world.gauges().kept_deals, 0);
}
