//! Partitions that move between the nodes of a cluster, step by step.

mod ahead;
mod groups;
mod retained;

use tidegate_engine::{Durability, Reason, TenantId, partition_of};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode};

use crate::harness::*;

const T: TenantId = TenantId::DEFAULT;

/// A topic whose group `group` is dealt at a node.
fn group_at(world: &World, home: u16) -> String {
    let names = (0..1000).map(|number| format!("t{number}"));
    names.into_iter().find(|name| world.home_of(&format!("group/{name}")) == home).expect("one of many names")
}

/// A member of the group of a topic that is away, with its session at node 0.
fn member(world: &World, topic: &str) -> Connecting {
    let member = v5(&world.name_on(0, "member ")).clean(false).expiry(u32::MAX);
    world.absent_subscriber(member.clone(), &format!("$share/group/{topic}"), ExactlyOnce);
    member
}

/// A move of a client from node 0 to node 1 has come so far that all shards send to its new home.
fn move_until_cut(world: &World, client: &Connecting) {
    world.begin_move(0, 1, &client.client_id);
    world.advance_move();
    world.advance_move();
}

#[test]
fn a_deal_waits_while_nodes_disagree_on_the_members_home() {
    for (qos, dealer) in [(AtLeastOnce, 1), (ExactlyOnce, 1), (AtLeastOnce, 2), (ExactlyOnce, 2)] {
        let world = World::cluster(3, 1, |_| {});
        let topic = group_at(&world, dealer);
        let member = member(&world, &topic);
        let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
        move_until_cut(&world, &member);
        world.call_off_move();
        // The new home knows that it is not the home; the old one does not know that it is the home still.
        world.read_table(1);
        publisher.publish(message(&topic, "x").qos(qos));
        assert_eq!(world.dropped(Reason::NoGroupMember), 0, "{qos:?}, dealt at node {dealer}");
        world.read_table(0);
        world.read_all_tables();
        world.run();
        let client = world.connect(member);
        assert_eq!(client.payloads(), ["x"], "{qos:?}, dealt at node {dealer}");
        assert_eq!(world.gauges().kept_deals, 0);
        world.advance(minutes(5));
        client.expect_nothing();
    }
}

/// A subscriber at node 0 that moves to node 1, and a publisher that stays at node 0; both are away.
fn subscriber_and_publisher(world: &World) -> [Connecting; 2] {
    let subscriber = v5(&world.name_on(0, "subscriber ")).clean(false).expiry(u32::MAX);
    world.absent_subscriber(subscriber.clone(), "t", ExactlyOnce);
    let is_other = |name: &String| partition_of(T, name) != partition_of(T, &subscriber.client_id);
    let names = (0..100).map(|number| world.name_on(0, &format!("publisher {number} ")));
    let publisher = v5(&names.into_iter().find(is_other).expect("one of many names"));
    [subscriber, publisher.clean(false).expiry(u32::MAX)]
}

/// The publisher returns to a node and sends its message again; the subscriber comes there, too, and has got it once.
fn comes_once(world: &World, node: u16, [subscriber, publisher]: [Connecting; 2]) {
    let client = world.connect(publisher.accept_on(node));
    let id = client.next_id();
    let mut again = message("t", "x").qos2();
    (again.dup, again.id) = (true, Some(id));
    client.send_publish(again);
    assert!(!client.expect_answer(PacketType::PubRec, id).is_error());
    assert_eq!(client.expect_answer(PacketType::PubComp, id), ReasonCode::Success);
    assert_eq!(world.connect(subscriber.accept_on(node)).payloads(), ["x"]);
}

#[test]
fn a_message_to_a_moving_client_comes_once_if_its_source_dies() {
    // Messages sent to the new home have arrived there, or are lost with the node.
    for arrives in [true, false] {
        let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
        let [subscriber, publisher] = subscriber_and_publisher(&world);
        let client = world.connect(publisher.clone());
        move_until_cut(&world, &subscriber);
        world.advance_move();
        world.advance_move();
        world.hold(1, 0);
        if !arrives {
            world.hold(0, 1);
        }
        client.send_publish(message("t", "x").qos2());
        world.run();
        assert!(client.answers().is_empty());
        world.fall_unnoticed(0, usize::MAX, 0);
        world.run();
        // The new home has reported that all has arrived.
        world.end_move();
        world.take_place_of(0);
        comes_once(&world, 1, [subscriber, publisher]);
    }
}

#[test]
fn a_message_to_a_mover_comes_once_if_its_new_home_dies() {
    for arrives in [true, false] {
        let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
        let [subscriber, _] = subscriber_and_publisher(&world);
        let publisher = v5(&world.name_on(1, "publisher ")).clean(false).expiry(u32::MAX);
        let client = world.connect(publisher.clone());
        move_until_cut(&world, &subscriber);
        world.advance_move();
        world.advance_move();
        world.hold(0, 1);
        if !arrives {
            world.hold(1, 0);
        }
        client.send_publish(message("t", "x").qos2());
        world.run();
        assert!(client.answers().is_empty());
        world.fall_unnoticed(1, usize::MAX, 0);
        world.run();
        world.take_place_of(1);
        comes_once(&world, 0, [subscriber, publisher]);
    }
}

#[test]
fn a_message_lost_before_the_old_home_comes_once_after_a_move() {
    let world = World::cluster(3, 1, |_| {});
    let [subscriber, _] = subscriber_and_publisher(&world);
    let publisher = v5(&world.name_on(2, "publisher ")).clean(false).expiry(u32::MAX);
    let client = world.connect(publisher.clone());
    // Another client at the new home wants it anyway.
    world.connect(v5(&world.name_on(1, "other "))).subscribe("t", ExactlyOnce);
    world.begin_move(0, 1, &subscriber.client_id);
    world.advance_move();
    // Node 2 does not hear of the new home before it sends.
    world.hold(1, 2);
    world.advance_move();
    world.hold(2, 0);
    let first = client.send_publish(message("t", "x").qos2());
    assert!(first.is_some());
    world.run();
    world.release(1, 2);
    world.break_link(0, 2, 0);
    world.run();
    world.end_move();
    world.mend_links();
    world.run();
    comes_once(&world, 1, [subscriber, publisher]);
}

#[test]
fn a_late_copy_from_a_publishers_old_home_changes_nothing() {
    // The receivers are at the new home of the publisher, or at a third node.
    for node in [1, 2] {
        let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
        let topic = world.name_on(node, "topic ");
        let subscriber = v5(&world.name_on(node, "subscriber ")).clean(false).expiry(u32::MAX);
        world.absent_subscriber(subscriber.clone(), &topic, ExactlyOnce);
        let publisher = v5(&world.name_on(0, "publisher ")).clean(false).expiry(u32::MAX);
        let client = world.connect(publisher.clone());
        // The old home waits for its disk, say, before the message may leave.
        world.hold(0, node);
        let mut sent = message(&topic, "x").qos2().retain();
        let id = client.send_publish(sent.clone());
        world.run();
        world.begin_move(0, 1, &publisher.client_id);
        world.end_move();
        world.run();
        let client = world.connect(publisher.accept_on(1));
        (sent.dup, sent.id) = (true, id);
        client.send_publish(sent);
        world.run();
        let newer = world.connect(v5(&world.name_on(node, "newer ")));
        assert_eq!(newer.publish(message(&topic, "y").qos1().retain()), ReasonCode::Success);
        world.release(0, node);
        let id = id.expect("a packet id");
        assert!(!client.expect_answer(PacketType::PubRec, id).is_error());
        assert_eq!(client.expect_answer(PacketType::PubComp, id), ReasonCode::Success);
        world.run();
        assert_eq!(world.connect(subscriber.accept_on(node)).payloads(), ["x", "y"], "{node}");
        let reader = world.connect(v5(&world.name_on(0, "reader ")));
        reader.subscribe(&topic, AtLeastOnce);
        assert_eq!(reader.payloads(), ["y"], "{node}");
    }
}

#[test]
fn an_unconfirmed_will_of_a_moved_client_is_published_once() {
    let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
    let subscriber = v5(&world.name_on(2, "subscriber ")).clean(false).expiry(u32::MAX);
    world.absent_subscriber(subscriber.clone(), "t", ExactlyOnce);
    let [mortal, other] = subscriber_and_publisher(&world);
    let client = world.connect(mortal.clone().will(message("t", "will").qos2()));
    world.hold(0, 2);
    client.lose();
    world.run();
    world.begin_move(0, 1, &mortal.client_id);
    for _ in 0..3 {
        world.advance_move();
    }
    world.hold(1, 2);
    world.end_move();
    world.run();
    // The old home does not say with its next message that the will has arrived everywhere.
    world.connect(other).send_publish(message("t", "x").qos2());
    world.run();
    world.release(0, 2);
    world.run();
    world.release(1, 2);
    world.run();
    assert_eq!(world.connect(subscriber.accept_on(2)).payloads(), ["will", "x"]);
}

#[test]
fn a_confirmed_message_of_a_mover_comes_once_if_its_home_dies() {
    let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
    let subscriber = world.connect(v5(&world.name_on(2, "subscriber ")));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = v5(&world.name_on(0, "publisher ")).clean(false).expiry(u32::MAX).manual();
    let client = world.connect(publisher.clone());
    let first = client.send_publish(message("t", "x").qos2());
    client.expect(PacketType::PubRec);
    client.lose();
    world.begin_move(0, 1, &publisher.client_id);
    world.end_move();
    world.run();
    // The node of the publisher does not keep its name in use.
    let other = v5(&world.name_on(0, "other ")).clean(false).expiry(u32::MAX);
    world.connect(other).publish(message("t", "y").qos2());
    world.fall_unnoticed(1, usize::MAX, 0);
    world.take_place_of(1);
    let client = world.connect(publisher.accept_on(2));
    let mut again = message("t", "x").qos2();
    (again.dup, again.id) = (true, first);
    client.send_publish(again);
    client.expect(PacketType::PubRec);
    assert_eq!(subscriber.payloads(), ["x", "y"]);
}

#[test]
fn a_group_moved_while_dealing_deals_once_if_its_old_home_dies() {
    // It comes before the cut of its publisher's node or behind it, or before the old home has read that it is not the
    // home any more; and then the new one learns of it, or does not.
    for stage in 0..4 {
        let world = World::cluster(4, 1, |settings| settings.durability = Durability::Commit);
        let topic = group_at(&world, 0);
        let member = v5(&world.name_on(3, "member ")).clean(false).expiry(u32::MAX);
        world.absent_subscriber(member.clone(), &format!("$share/group/{topic}"), ExactlyOnce);
        let publisher = v5(&world.name_on(2, "publisher ")).clean(false).expiry(u32::MAX);
        let client = world.connect(publisher.clone());
        world.begin_move(0, 1, &format!("group/{topic}"));
        world.advance_move();
        if stage > 0 {
            world.advance_move();
        }
        world.hold(0, 2);
        if stage >= 2 {
            world.advance_move();
            world.advance_move();
            world.advance_move();
            world.read_table(1);
        }
        if stage == 3 {
            world.hold(0, 1);
        }
        client.send_publish(message(&topic, "x").qos2());
        world.run();
        assert!(client.answers().is_empty(), "the node where it is dealt has not confirmed it");
        world.end_move();
        world.run();
        world.fall_unnoticed(0, usize::MAX, 0);
        world.run();
        world.take_place_of(0);
        let client = world.connect(publisher.accept_on(2));
        let id = client.next_id();
        let mut again = message(&topic, "x").qos2();
        (again.dup, again.id) = (true, Some(id));
        client.send_publish(again);
        assert!(!client.expect_answer(PacketType::PubRec, id).is_error());
        client.expect_answer(PacketType::PubComp, id);
        assert_eq!(world.connect(member.accept_on(2)).payloads(), ["x"], "{stage}");
    }
}

#[test]
fn a_moving_publisher_is_answered_after_all_confirmations() {
    let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
    let subscriber = world.connect(v5(&world.name_on(2, "subscriber ")));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = v5(&world.name_on(0, "publisher ")).clean(false).expiry(u32::MAX);
    let client = world.connect(publisher.clone());
    world.begin_move(0, 1, &publisher.client_id);
    world.hold(2, 0);
    let id = client.send_publish(message("t", "x").qos2());
    world.run();
    world.advance_move();
    world.advance_move();
    world.release(2, 0);
    world.end_move();
    world.run();
    world.hold(2, 1);
    let client = world.connect(publisher.accept_on(1));
    let mut again = message("t", "x").qos2();
    (again.dup, again.id) = (true, id);
    client.send_publish(again);
    world.run();
    assert!(client.answers().is_empty(), "a node has not confirmed it");
    world.release(2, 1);
    let id = id.expect("a packet id");
    assert!(!client.expect_answer(PacketType::PubRec, id).is_error());
    client.expect_answer(PacketType::PubComp, id);
    assert_eq!(subscriber.payloads(), ["x"]);
}

/// Three nodes, the second one without partitions.
fn with_a_node_that_works_nothing() -> World {
    let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
    world.fall_unnoticed(1, usize::MAX, 0);
    world.take_place_of(1);
    world.rejoin(1);
    world.run();
    world
}

#[test]
fn a_publish_to_a_moved_client_waits_for_its_new_home() {
    // The publisher's node, the old home or a third one, has read both tables, or that the move begins, or nothing, when it hears of the end.
    for (node, tables) in [(0, 0), (2, 0), (2, 1), (2, 2)] {
        let world = with_a_node_that_works_nothing();
        let [subscriber, publisher] = subscriber_and_publisher(&world);
        let elsewhere = v5(&world.name_on(2, "publisher ")).clean(false).expiry(u32::MAX);
        let publisher = if node == 0 { publisher } else { elsewhere };
        let client = world.connect(publisher.clone());
        move_until_cut(&world, &subscriber);
        for _ in 0..3 {
            world.advance_move();
        }
        world.fall_unnoticed(1, usize::MAX, 0);
        world.run();
        for _ in 0..tables {
            world.read_table(node);
        }
        client.send_publish(message("t", "x").qos2());
        world.run();
        assert!(client.answers().is_empty(), "its receiver is at the node that is gone: {node}, {tables}");
        world.take_place_of(1);
        if client.closed().is_some() {
            comes_once(&world, 2, [subscriber, publisher]);
        } else {
            // It has waited, which is over when the place is taken.
            assert_eq!(client.answers().len(), 2, "{node}, {tables}");
            assert_eq!(world.connect(subscriber.accept_on(2)).payloads(), ["x"]);
        }
    }
}

#[test]
fn a_retained_publish_to_a_moved_topic_waits_for_its_new_home() {
    for node in [0, 2] {
        let world = with_a_node_that_works_nothing();
        let topic = world.name_on(0, "topic ");
        let is_other = |name: &String| partition_of(T, name) != partition_of(T, &topic);
        let names = (0..100).map(|number| world.name_on(node, &format!("publisher {number} ")));
        let publisher = v5(&names.into_iter().find(is_other).expect("one of many names")).clean(false);
        let client = world.connect(publisher.expiry(u32::MAX));
        world.begin_move(0, 1, &topic);
        for _ in 0..5 {
            world.advance_move();
        }
        world.fall_unnoticed(1, usize::MAX, 0);
        world.run();
        client.send_publish(message(&topic, "x").qos1().retain());
        world.run();
        assert!(client.answers().is_empty(), "no node serves the home of its topic: {node}");
        world.take_place_of(1);
        assert_eq!(client.answers().len(), 1, "its publisher is answered when it is kept: {node}");
        let reader = world.connect(v5(&world.name_on(2, "reader ")));
        reader.subscribe(&topic, AtLeastOnce);
        assert_eq!(reader.payloads(), ["x"]);
    }
}

#[test]
fn a_cancelled_move_to_a_dead_home_keeps_no_client_waiting() {
    let world = with_a_node_that_works_nothing();
    let [subscriber, _] = subscriber_and_publisher(&world);
    let publisher = v5(&world.name_on(2, "publisher ")).clean(false).expiry(u32::MAX);
    let client = world.connect(publisher.clone());
    move_until_cut(&world, &subscriber);
    world.fall_unnoticed(1, usize::MAX, 0);
    world.run();
    client.send_publish(message("t", "x").qos2());
    world.run();
    assert!(client.answers().is_empty(), "whether it has moved is not known");
    world.call_off_move();
    world.read_all_tables();
    world.run();
    assert_eq!(client.answers().len(), 2);
    assert_eq!(world.connect(subscriber).payloads(), ["x"]);
}

#[test]
fn a_client_that_was_sent_on_misses_nothing_at_qos_0() {
    for late in [false, true] {
        let world = World::cluster(3, 1, |_| {});
        let subscriber = v5(&world.name_on(0, "subscriber ")).clean(false).expiry(u32::MAX);
        let client = world.connect(subscriber.clone());
        client.subscribe("t", AtMostOnce);
        let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
        let mut sent = Vec::new();
        let mut publish = || {
            sent.push(format!("{}", sent.len()));
            publisher.send_publish(message("t", sent.last().unwrap()).qos(AtMostOnce));
            world.run();
        };
        world.begin_move(0, 1, &subscriber.client_id);
        publish();
        for _ in 0..6 {
            world.advance_move();
            publish();
        }
        world.end_move();
        world.read_all_tables();
        world.run();
        if late {
            world.advance(seconds(11));
        }
        publish();
        let mut got: Vec<String> = client.messages_among_others().iter().map(Delivered::text).collect();
        assert_eq!(client.expect_closed(), Reason::UseAnotherServer);
        got.extend(world.connect(subscriber.accept_on(1)).payloads());
        if late {
            sent.pop();
        }
        assert_eq!(got, sent, "late: {late}");
    }
}
