//! QoS 2 messages of shared groups, of whose nodes one dies.

use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, SubscriptionOptions};

use super::*;

/// A topic whose group `group` is dealt at a node.
fn group_at(world: &World, home: u16) -> String {
    let names = (0..1000).map(|number| format!("t{number}"));
    names.into_iter().find(|name| world.home_of(&format!("group/{name}")) == home).expect("one of many names")
}

/// A member that is away, with its session at a node.
fn member(world: &World, node: u16, topic: &str) -> Connecting {
    let member = steady(world, node, "member ");
    world.absent_subscriber(member.clone(), &format!("$share/group/{topic}"), ExactlyOnce);
    member
}

#[test]
fn a_stored_unconfirmed_deal_comes_once_if_its_node_dies() {
    let world = three();
    let topic = group_at(&world, 0);
    let member = member(&world, 1, &topic);
    let publisher = world.connect(steady(&world, 0, "publisher "));
    world.hold(1, 0);
    publisher.publish(message(&topic, "x").qos2());
    assert_eq!(world.uncommitted_of(1), 0, "it is in the store of its member");
    assert_eq!(world.gauges().kept_deals, 1, "and its group does not know");
    world.fall(1, 0, 0);
    world.run();
    world.take_over(1);
    let client = world.connect(member.accept_on(2));
    assert_eq!(client.payloads(), ["x"]);
    assert_eq!(world.gauges().kept_deals, 0);
    world.advance(minutes(5));
    client.expect_nothing();
}

#[test]
fn a_deal_waits_until_the_home_of_its_member_serves() {
    let heirs = three();
    heirs.fall(1, 0, 0);
    let stems = (0..1000).map(|number| format!("member {number} "));
    for qos in [AtLeastOnce, ExactlyOnce] {
        let world = three();
        let topic = group_at(&world, 0);
        // Node 2 is to succeed node 1 for this one.
        let member = stems.clone().map(|stem| world.name_on(1, &stem)).find(|name| heirs.home_of(name) == 2);
        let member = v5(&member.expect("one of many names")).clean(false).expiry(u32::MAX).accept_on(1);
        world.absent_subscriber(member.clone(), &format!("$share/group/{topic}"), ExactlyOnce);
        let publisher = world.connect(steady(&world, 0, "publisher "));
        world.hold(0, 1);
        publisher.publish(message(&topic, "x").qos(qos));
        world.fall(1, 0, 0);
        world.run();
        world.fetch_of(1);
        world.run();
        assert_eq!(world.gauges().kept_deals, 1, "{qos:?}: node 2 has the session, and does not serve it");
        world.fall(2, usize::MAX, 0);
        world.fetch_of(1);
        world.run();
        world.serve_for(1);
        world.run();
        assert_eq!(world.connect(member.accept_on(0)).payloads(), ["x"], "{qos:?}");
        assert_eq!(world.gauges().kept_deals, 0, "{qos:?}");
    }
}

#[test]
fn an_acknowledged_deal_is_not_repeated_if_its_node_dies() {
    let world = three();
    let topic = group_at(&world, 0);
    let member = member(&world, 1, &topic);
    let client = world.connect(member.clone());
    let publisher = world.connect(steady(&world, 0, "publisher "));
    world.hold(1, 0);
    publisher.publish(message(&topic, "x").qos2());
    assert_eq!(client.payloads(), ["x"]);
    world.fall(1, 0, 0);
    world.run();
    world.take_over(1);
    let client = world.connect(member.accept_on(2));
    assert!(client.session_present());
    world.advance(minutes(5));
    client.expect_nothing();
    assert_eq!(world.gauges().kept_deals, 0);
}

#[test]
fn a_deal_is_not_repeated_if_its_home_dies_unconfirmed() {
    // The home dies before it has the message, before that is in its store, or when it is.
    for come in [0, 1, 2] {
        let world = three();
        let topic = group_at(&world, 1);
        let members = [0, 2].map(|node| member(&world, node, &topic));
        let publisher = steady(&world, 0, "publisher ");
        let client = world.connect(publisher.clone());
        world.hold(1, 0);
        if come == 0 {
            world.hold(0, 1);
        }
        let id = client.send_publish(message(&topic, "x").qos2());
        if come == 1 {
            world.until_it_has(1, 0);
        } else {
            world.run();
        }
        world.fall(1, 0, 0);
        world.run();
        world.take_over(1);
        let client = world.connect(publisher);
        let mut again = message(&topic, "x").qos2();
        (again.dup, again.id) = (true, id);
        client.send_publish(again);
        let id = id.expect("a packet id");
        assert!(!client.expect_answer(PacketType::PubRec, id).is_error());
        client.expect_answer(PacketType::PubComp, id);
        let got: Vec<String> =
            members.into_iter().flat_map(|member| world.connect(member.accept_on(2)).payloads()).collect();
        assert_eq!(got, ["x"], "{come}");
    }
}

#[test]
fn a_node_without_a_place_deals_nothing() {
    // Another node may have read its store already: then its sessions here are copies, and their messages would be lost.
    let world = three();
    let topic = group_at(&world, 0);
    let members = [0, 1].map(|node| member(&world, node, &topic));
    let publisher = world.connect(steady(&world, 0, "publisher "));
    world.hold(0, 1);
    for payload in ["x", "y"] {
        publisher.publish(message(&topic, payload).qos1());
    }
    assert_eq!(world.gauges().kept_deals, 1, "the one for the member at node 1");
    world.fall(0, usize::MAX, 0);
    world.run();
    world.return_without_place(0);
    world.advance(minutes(2));
    world.engine(0, |engine, _| {
        let gauges = engine.questions().gauges();
        assert_eq!((gauges.kept_deals, gauges.queued_messages), (1, 1), "both are as they were");
    });
    world.take_place(0);
    world.run();
    let mut got: Vec<String> =
        members.into_iter().flat_map(|member| world.connect(member.accept_on(2)).payloads()).collect();
    got.sort_unstable();
    assert_eq!(got, ["x", "y"]);
}

#[test]
fn a_deal_within_a_dead_node_goes_to_another_member() {
    // The session of the member is on the shard that deals, or on the other one of its node.
    for shard in [0, 1] {
        let world = World::cluster(3, 2, |settings| settings.durability = Durability::Commit);
        let topic = group_at(&world, 0);
        let filter = format!("$share/group/{topic}");
        let member = world.connect(v5(&world.name_on(shard, "member ")).manual());
        member.subscribe(&filter, AtLeastOnce);
        let publisher = world.connect(steady(&world, 4, "publisher "));
        publisher.publish(message(&topic, "x").qos1());
        publisher.publish(message(&topic, "y").qos1());
        let first = member.expect_message();
        assert_eq!((first.text(), member.expect_message().text()), ("x".to_owned(), "y".to_owned()));
        assert_eq!(world.gauges().kept_deals, 2, "its group keeps them");
        member.puback(first.id.expect("a packet id"));
        world.run();
        assert_eq!(world.gauges().kept_deals, 1);
        let other = world.connect(steady(&world, 2, "other "));
        other.subscribe(&filter, AtLeastOnce);
        world.fall(0, usize::MAX, 0);
        world.run();
        world.take_over(0);
        assert_eq!(other.payloads(), ["y"], "shard {shard}");
        assert_eq!(world.gauges().kept_deals, 0);
    }
}

#[test]
fn a_node_alone_keeps_deals_to_members_of_one_connection() {
    let world = World::cluster(2, 1, |settings| settings.durability = Durability::Commit);
    let topic = group_at(&world, 0);
    let away = member(&world, 0, &topic);
    let fleeting = world.connect(v5(&world.name_on(0, "fleeting ")).manual());
    fleeting.subscribe(&format!("$share/group/{topic}"), AtLeastOnce);
    world.fall(1, usize::MAX, 0);
    world.run();
    world.take_over(1);
    let publisher = world.connect(steady(&world, 0, "publisher "));
    publisher.publish(message(&topic, "x").qos1());
    assert_eq!(fleeting.expect_message().text(), "x");
    world.fall(0, usize::MAX, 0);
    world.run();
    world.return_without_place(0);
    world.take_place(0);
    world.run();
    assert_eq!(world.connect(away).payloads(), ["x"]);
    assert_eq!(world.gauges().kept_deals, 0);
}

#[test]
fn a_message_bound_to_a_client_outlasts_its_sessions() {
    let world = World::cluster(2, 1, |settings| settings.durability = Durability::Commit);
    let topic = group_at(&world, 0);
    let (name, filter) = (world.name_on(0, "fleeting "), format!("$share/group/{topic}"));
    let join = || {
        let client = world.connect(v5(&name).manual());
        client.send_subscribe(&[(&filter, SubscriptionOptions::new(AtLeastOnce))], None);
        world.run();
        client
    };
    // The message may come before SUBACK.
    let take = |client: &Client| {
        let message = std::iter::from_fn(|| client.take_arrival()).find_map(|arrival| arrival.delivered());
        message.expect("a message")
    };
    let client = join();
    world.connect(steady(&world, 1, "publisher ")).publish(message(&topic, "x").qos2());
    assert_eq!(take(&client).text(), "x");
    world.fall(0, usize::MAX, 0);
    world.run();
    world.return_without_place(0);
    world.take_place(0);
    world.run();
    // It may have the message, so no other client gets it. Its sessions end with their connections.
    for _ in 0..2 {
        let client = join();
        assert_eq!(take(&client).text(), "x");
        client.disconnect();
        world.run();
    }
    let client = join();
    client.puback(take(&client).id.expect("a packet id"));
    world.run();
    assert_eq!(world.gauges().kept_deals, 0);
}

/// A client whose session ends with its connection, which has a message of the group and has not acknowledged it.
fn takes_without_answer(world: &World, node: u16, topic: &str) -> (Client, tidegate_mqtt::PacketId) {
    let client = world.connect(v5(&world.name_on(node, "fleeting ")).manual());
    client.subscribe(&format!("$share/group/{topic}"), AtLeastOnce);
    world.connect(steady(world, 2, "publisher ")).publish(message(topic, "x").qos2());
    let message = client.expect_message();
    assert_eq!((message.text(), world.gauges().kept_deals), ("x".to_owned(), 1));
    (client, message.id.expect("a packet id"))
}

/// The session of the client has ended, and another client gets the message.
fn goes_to_another(world: &World, topic: &str) {
    let other = world.connect(steady(world, 2, "other "));
    other.subscribe(&format!("$share/group/{topic}"), AtLeastOnce);
    world.advance(minutes(3));
    assert_eq!(other.payloads(), ["x"]);
    assert_eq!(world.gauges().kept_deals, 0);
}

/// The node of the client dies with its session.
fn outlives_its_receiver(world: &World, node: usize, topic: &str) {
    assert_eq!(world.gauges().kept_deals, 1, "the receiver has not acknowledged it");
    world.fall(node, usize::MAX, 0);
    world.run();
    world.take_over(node);
    goes_to_another(world, topic);
}

#[test]
fn a_restarted_group_keeps_messages_without_an_answer() {
    for answers in [true, false] {
        let world = three();
        let topic = group_at(&world, 0);
        let (client, id) = takes_without_answer(&world, 1, &topic);
        world.fall(0, usize::MAX, 0);
        world.run();
        world.revive(0);
        world.run();
        client.expect_nothing();
        if answers {
            client.puback(id);
            world.run();
            assert_eq!(world.gauges().kept_deals, 0);
        } else {
            outlives_its_receiver(&world, 1, &topic);
        }
    }
}

/// The home of a group dies or restarts, and the node of its member is the home from then on. Returns the world, the topic
/// and the member.
fn becomes_home_of_its_member(moves: bool) -> (World, String, Client) {
    let world = three();
    let topic = group_at(&world, 0);
    let (client, _) = takes_without_answer(&world, 1, &topic);
    let group = format!("group/{topic}");
    if moves {
        world.begin_move(0, 1, &group);
        world.end_move();
    }
    world.fall(0, usize::MAX, 0);
    world.run();
    if moves {
        world.revive(0);
        world.run();
    } else {
        world.take_over(0);
    }
    assert_eq!(world.home_of(&group), 1);
    client.expect_nothing();
    (world, topic, client)
}

#[test]
fn an_heir_of_a_group_keeps_messages_of_its_own_member() {
    let (world, topic, _) = becomes_home_of_its_member(false);
    outlives_its_receiver(&world, 1, &topic);
}

#[test]
fn a_former_home_keeps_messages_of_a_member_at_the_next() {
    let (world, topic, _) = becomes_home_of_its_member(true);
    outlives_its_receiver(&world, 1, &topic);
}

#[test]
fn a_member_that_leaves_returns_messages_kept_by_an_heir() {
    for moves in [false, true] {
        let (world, topic, client) = becomes_home_of_its_member(moves);
        client.disconnect();
        world.run();
        goes_to_another(&world, &topic);
    }
}
