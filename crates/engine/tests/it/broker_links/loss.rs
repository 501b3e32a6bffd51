//! Brokers that die, hang, return and forget.

use tidegate_engine::{BrokerLinkOptions, BrokerLinkState, RoutingPolicy};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{Packet, PacketId, PacketType, PubAck, QoS, ReasonCode, Version};

use crate::harness::*;

fn numbers(count: u32) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// The broker that a topic goes to first, and the other one.
fn first_of<'b>(world: &World, brokers: [&'b Broker; 2], topic: &str) -> [&'b Broker; 2] {
    world.connect(v5("scout")).publish(message(topic, "scout"));
    let [a, b] = brokers;
    let taken = [a, b].map(|broker| !broker.taken().is_empty());
    if taken[0] { [a, b] } else { [b, a] }
}

/// Checks ten messages to a broker that dies with all its state.
fn dies_with_ten(qos: QoS, while_it: impl Fn(&mut Ways)) {
    in_front_of(["a", "b"], |world, [a, b]| {
        let [holder, other] = first_of(world, [&a, &b], "t");
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        holder.now(&while_it);
        for number in numbers(10) {
            client.publish_later(message("t", number).qos(qos));
        }
        holder.die_and_forget();
        assert_eq!(holder.state(), BrokerLinkState::Down);
        world.advance(seconds(1));
        assert_eq!(other.payloads(), Vec::<String>::new(), "before the delay is over");
        world.advance(seconds(2));
        assert_eq!(other.payloads(), numbers(10));
        assert_eq!(client.payloads(), numbers(10));
        assert_eq!(world.owed(), 0);
        holder.now(|ways| *ways = Ways::default());
        holder.come_back();
        world.advance(seconds(20));
        client.expect_nothing();
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_lost_brokers_unacknowledged_messages_go_to_others() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        dies_with_ten(qos, |ways| {
            ways.withholds_acknowledgements = true;
            ways.loses = true;
        });
    }
}

#[test]
fn a_lost_brokers_unreturned_messages_go_to_others() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        dies_with_ten(qos, |ways| ways.withholds_messages = true);
    }
}

#[test]
fn a_lost_brokers_unread_messages_go_to_others() {
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        if qos != AtMostOnce {
            dies_with_ten(qos, |ways| ways.hangs = true);
        }
    }
}

#[test]
fn a_broker_back_with_its_session_brings_nothing_twice() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a", "b"], |world, [a, b]| {
            let [holder, _] = first_of(world, [&a, &b], "t");
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            holder.now(|ways| ways.withholds_messages = true);
            for number in numbers(10) {
                client.publish_later(message("t", number).qos(qos));
            }
            // It has them all, and others get them while it is away.
            holder.cut();
            holder.now(|ways| ways.reachable = false);
            world.advance(seconds(3));
            assert_eq!(client.payloads(), numbers(10));
            holder.now(|ways| ways.withholds_messages = false);
            holder.come_back();
            client.expect_nothing();
            client.answers();
            for number in numbers(10) {
                client.publish(message("t", number).qos(qos));
            }
            assert_eq!(client.payloads(), numbers(10), "its packet ids are as good as before");
            world.advance(seconds(30));
            assert_eq!(world.owed(), 0);
            client.expect_nothing();
        });
    }
}

#[test]
fn a_broker_back_before_the_delay_continues() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a", "b"], |world, [a, b]| {
            let [holder, other] = first_of(world, [&a, &b], "t");
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            holder.now(|ways| ways.withholds_acknowledgements = true);
            for number in numbers(5) {
                client.publish_later(message("t", number).qos(qos));
            }
            holder.cut();
            holder.now(|ways| ways.withholds_acknowledgements = false);
            world.advance(millis(300));
            assert_eq!(holder.state(), BrokerLinkState::Serving);
            assert_eq!((client.payloads(), world.owed()), (numbers(5), 0));
            assert_eq!(other.payloads(), Vec::<String>::new());
        });
    }
}

#[test]
fn the_only_broker_keeps_its_messages_until_it_is_back() {
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            a.die();
            for number in numbers(5) {
                client.publish(message("t", number).qos(qos));
            }
            world.advance(minutes(2));
            assert_eq!(a.report().queued, 5);
            a.come_back();
            assert_eq!((client.payloads(), world.owed()), (numbers(5), 0));
        });
    }
}

#[test]
fn messages_for_a_lost_broker_go_to_one_that_is_added_later() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        a.now(|ways| ways.withholds_messages = true);
        client.publish(message("t", "0").qos2());
        a.die_and_forget();
        client.publish(message("t", "1").qos2());
        world.advance(seconds(10));
        client.expect_nothing();
        world.broker("b");
        world.advance(seconds(1));
        assert_eq!((client.payloads(), world.owed()), (numbers(2), 0));
    });
}

#[test]
fn a_broker_without_session_gets_all_under_new_packet_ids() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            a.now(|ways| {
                ways.withholds_acknowledgements = true;
                ways.loses = true;
            });
            for number in 0..3 {
                client.publish_later(message("t", number.to_string()).qos(qos));
            }
            a.now(|ways| ways.withholds_acknowledgements = false);
            a.now(|ways| ways.withholds_acknowledgements = true);
            for number in 3..6 {
                client.publish_later(message("t", number.to_string()).qos(qos));
            }
            a.taken();
            a.die_and_forget();
            a.now(|ways| *ways = Ways::default());
            a.come_back();
            assert_eq!((a.payloads(), client.payloads()), (numbers(6), numbers(6)));
            assert_eq!(world.owed(), 0);
        });
    }
}

#[test]
fn packet_ids_of_a_broker_that_forgot_are_new_messages() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c").manual());
        client.subscribe("t", ExactlyOnce);
        // The broker's QoS 2 message under packet id 1 is not released when the broker forgets it.
        let publish = |text: &'static str| {
            a.say_bytes(&message("t", text).qos2().id(1).encode(tidegate_mqtt::Version::V5));
        };
        publish("old");
        client.expect_publish("t", "old");
        a.die_and_forget();
        a.come_back();
        publish("new");
        client.expect_publish("t", "new");
        client.expect_nothing();
    });
}

#[test]
fn a_first_delivery_under_an_unreleased_packet_id_is_new() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        let say = |text: &str, dup: bool| {
            let sent = message("t", text).qos2().id(77);
            a.say_bytes(&if dup { sent.dup() } else { sent }.encode(tidegate_mqtt::Version::V5));
        };
        say("old", false);
        say("old", true);
        assert_eq!(client.payloads(), ["old"]);
        say("new", false);
        say("new", true);
        assert_eq!(client.payloads(), ["new"]);
    });
}

#[test]
fn a_hung_broker_is_lost_after_the_timeout_and_not_before() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let [holder, other] = first_of(world, [&a, &b], "t");
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        holder.now(|ways| ways.hangs = true);
        for number in numbers(3) {
            client.publish_later(message("t", number).qos2());
        }
        world.advance(seconds(4));
        assert_eq!(holder.state(), BrokerLinkState::Serving);
        world.advance(seconds(2) + 1);
        assert_ne!(holder.state(), BrokerLinkState::Serving);
        assert!(holder.report().last_error.contains("has not answered a probe for 5000 ms"), "{:?}", holder.report());
        world.advance(seconds(3));
        assert_eq!((client.payloads(), other.payloads()), (numbers(3), numbers(3)));
        assert_eq!(holder.report().counters.lost, 1);
    });
}

#[test]
fn any_packet_of_a_broker_counts_as_life() {
    in_front_of(["a"], |world, [a]| {
        a.now(|ways| ways.hangs = true);
        for _ in 0..10 {
            world.advance(seconds(3));
            a.say(Version::V5, &Packet::PubAck(PubAck::new(PacketId::MIN, ReasonCode::Success)));
        }
        assert_eq!((a.state(), a.report().counters.lost), (BrokerLinkState::Serving, 0));
        world.advance(seconds(4));
        assert_eq!(a.report().counters.lost, 0);
        world.advance(seconds(2));
        assert_eq!(a.report().counters.lost, 1);
        assert!(a.report().last_error.contains("has not answered a probe"));
    });
}

#[test]
fn a_broker_without_a_connack_is_tried_ever_more_rarely() {
    in_front_of([], |world, []| {
        let ways = Ways { hangs: true, ..Ways::default() };
        let a = world.broker_with("a", fleet::lasting(), ways);
        world.advance(minutes(2));
        assert_eq!(a.state(), BrokerLinkState::Connecting);
        assert!(a.report().last_error.contains("has not answered CONNECT"), "{:?}", a.report());
        a.now(|ways| ways.hangs = false);
        world.advance(seconds(11));
        assert_eq!(a.state(), BrokerLinkState::Serving);
    });
}

#[test]
fn a_broker_that_answers_probes_is_not_lost() {
    in_front_of(["a"], |world, [a]| {
        a.now(|ways| ways.withholds_acknowledgements = true);
        world.connect(v5("c")).publish(message("t", "x").qos1());
        world.advance(minutes(5));
        assert_eq!((a.state(), a.report().counters.lost), (BrokerLinkState::Serving, 0));
        assert_eq!(a.payloads(), ["x"], "sent once on one connection");
    });
}

#[test]
fn topics_of_a_lost_broker_move_and_come_home_when_it_is_back() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let [holder, other] = first_of(world, [&a, &b], "t");
        let publisher = world.connect(v5("p"));
        holder.die();
        world.advance(seconds(3));
        publisher.publish(message("t", "1").qos1());
        assert_eq!(other.payloads(), ["1"]);
        holder.come_back();
        publisher.publish(message("t", "2").qos1());
        assert_eq!((holder.payloads(), other.payloads()), (vec!["2".to_owned()], vec![]));
    });
}

#[test]
fn owed_messages_outlive_the_orchestrator_at_their_broker() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        for kept in [0, 1, 3, usize::MAX] {
            let world = World::with(2, |settings| {
                fleet_settings(settings, RoutingPolicy::TopicHash);
                settings.durability = tidegate_engine::Durability::Commit;
            });
            let a = world.broker("a");
            let subscriber = world.connect(v5("s").lasting());
            subscriber.subscribe("t", ExactlyOnce);
            subscriber.lose();
            let publisher = world.connect(v5("p").lasting().manual());
            a.now(|ways| ways.withholds_acknowledgements = true);
            for number in 0..4 {
                publisher.publish_later(message("t", number.to_string()).qos(qos));
            }
            let answer = if qos == AtLeastOnce { PacketType::PubAck } else { PacketType::PubRec };
            for _ in 0..4 {
                publisher.expect(answer);
            }
            world.hold_commits();
            a.now(|ways| ways.withholds_acknowledgements = false);
            world.crash(Crash { kept, ..Crash::now(3) });
            world.release_commits();
            world.advance(seconds(20));
            let subscriber = world.connect(v5("s").lasting());
            let got = subscriber.payloads();
            let mut once = got.clone();
            once.sort();
            once.dedup();
            assert_eq!(once, numbers(4), "{qos:?}, {kept} batches");
            assert!(qos == AtLeastOnce || got.len() == 4, "{got:?}, {kept} batches");
            assert_eq!(world.owed(), 0);
        }
    }
}

#[test]
fn unnamed_brokers_of_an_earlier_process_are_given_up() {
    let world = World::with(2, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = tidegate_engine::Durability::Commit;
    });
    let old = ["a", "b"].map(|name| world.broker(name));
    let client = world.connect(v5("s").lasting());
    client.subscribe("t", ExactlyOnce);
    for broker in &old {
        broker.now(|ways| ways.hangs = true);
    }
    for number in numbers(4) {
        client.publish_later(message("t", number).qos2());
    }
    client.lose();
    // The next process knows no broker. A manager names new ones, and the old one that still runs.
    old.iter().for_each(Broker::leave_out);
    world.crash(Crash::now(2));
    world.advance(seconds(30));
    let [_, idle] = first_of(&world, [&old[0], &old[1]], "t");
    idle.now(|ways| ways.hangs = false);
    idle.set(BrokerLinkOptions { version: None, user_name: None, password: None, lasting: true });
    let new = world.broker("c");
    world.advance(seconds(9));
    let named: Vec<String> = world.broker_links().into_iter().map(|broker_link| broker_link.name).collect();
    assert_eq!(named, [idle.name(), "c"]);
    world.advance(seconds(5));
    let client = world.connect(v5("s").lasting());
    assert_eq!((client.payloads(), world.owed()), (numbers(4), 0));
    assert_eq!(idle.payloads().len() + new.payloads().len(), 4);
}

#[test]
fn messages_of_an_unconfigured_broker_go_to_others() {
    let world = World::with(2, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = tidegate_engine::Durability::Commit;
    });
    let [a, b] = ["a", "b"].map(|name| world.broker(name));
    let [holder, other] = first_of(&world, [&a, &b], "t");
    let subscriber = world.connect(v5("s").lasting());
    subscriber.subscribe("t", ExactlyOnce);
    holder.now(|ways| ways.hangs = true);
    for number in numbers(4) {
        subscriber.publish_later(message("t", number).qos2());
    }
    subscriber.lose();
    holder.leave_out();
    world.crash(Crash::now(2));
    world.advance(seconds(5));
    assert_eq!(other.payloads(), numbers(4));
    let subscriber = world.connect(v5("s").lasting());
    assert_eq!((subscriber.payloads(), world.owed()), (numbers(4), 0));
    assert_eq!(world.broker_links().len(), 1);
}
