//! Copies of one message, and messages of others.

use tidegate_engine::{BrokerLinkOptions, RoutingPolicy, Settings};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::Version;

use crate::harness::*;

#[test]
fn a_message_of_a_client_comes_once_however_many_filters_match() {
    for (copies, identifies) in [(false, true), (true, true), (true, false)] {
        in_front_of([], |world, []| {
            let ways = Ways { copies, identifies, ..Ways::default() };
            let a = world.broker_with("a", fleet::lasting(), ways);
            let one = world.connect(v5("one"));
            for filter in ["t/#", "t/+", "t/1"] {
                one.subscribe(filter, ExactlyOnce);
            }
            let other = world.connect(v311("other"));
            other.subscribe("#", AtLeastOnce);
            for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                one.publish(message("t/1", "x").qos(qos));
                one.publish(message("t/1", "x").qos(qos));
            }
            assert_eq!((one.messages().len(), other.messages().len()), (6, 6), "copies {copies}");
            assert_eq!(a.report().counters.duplicates, if copies { 18 } else { 0 });
        });
    }
}

#[test]
fn a_direct_publishers_message_comes_once_if_recognised() {
    for copies in [false, true] {
        in_front_of([], |world, []| {
            let a = world.broker_with("a", fleet::lasting(), Ways { copies, ..Ways::default() });
            let client = world.connect(v5("c"));
            for filter in ["t/#", "t/+", "+/1"] {
                client.subscribe(filter, ExactlyOnce);
            }
            for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                // The same value twice is two messages.
                a.publish(&message("t/1", "21.5").qos(qos));
                a.publish(&message("t/1", "21.5").qos(qos));
            }
            assert_eq!(client.messages().len(), 6, "copies {copies}");
            a.publish(&message("t/1", "x").user("k", "1"));
            a.publish(&message("t/1", "x").user("k", "2"));
            assert_eq!(client.messages().len(), 2);
        });
    }
}

#[test]
fn a_message_that_two_brokers_bring_comes_once() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        client.publish(message("t", "1").qos1());
        assert_eq!(client.payloads(), ["1"]);
        let carried: Vec<Carried> = [&a, &b].iter().flat_map(|broker| broker.taken()).collect();
        for broker in [&a, &b] {
            broker.carry(&carried[0]);
        }
        client.expect_nothing();
    });
}

#[test]
fn the_id_of_an_exactly_once_message_is_known_after_a_restart() {
    let world = World::with(2, |settings| {
        fleet_settings(settings, tidegate_engine::RoutingPolicy::TopicHash);
        settings.durability = tidegate_engine::Durability::Commit;
    });
    let [a, b] = ["a", "b"].map(|name| world.broker(name));
    let client = world.connect(v5("c").lasting());
    client.subscribe("t", ExactlyOnce);
    client.publish(message("t", "1").qos2());
    assert_eq!(client.payloads(), ["1"]);
    client.lose();
    world.crash(Crash::now(1));
    world.advance(seconds(1));
    let client = world.connect(v5("c").lasting());
    let carried: Vec<Carried> = [&a, &b].iter().flat_map(|broker| broker.taken()).collect();
    a.carry(&carried[0]);
    b.carry(&carried[0]);
    client.expect_nothing();
}

#[test]
fn no_local_holds_across_the_fleet() {
    in_front_of(["a"], |world, [a]| {
        let one = world.connect(v5("one"));
        let options = tidegate_mqtt::SubscriptionOptions {
            no_local: true,
            ..tidegate_mqtt::SubscriptionOptions::new(ExactlyOnce)
        };
        one.subscribe_with("t", options, None);
        let other = world.connect(v5("other"));
        other.subscribe("t", ExactlyOnce);
        one.publish(message("t", "1").qos1());
        other.publish(message("t", "2").qos1());
        assert_eq!(one.payloads(), ["2"]);
        assert_eq!(other.payloads(), ["1", "2"]);
        assert_eq!(world.owed(), 0);
        // The same client id at another orchestrator is the same client.
        let mut carried = a.taken().into_iter().find(|carried| carried.text() == "1").unwrap();
        renumber(&mut carried, 1);
        a.carry(&carried);
        one.expect_nothing();
        assert_eq!(other.payloads(), ["1"]);
    });
}

/// Makes a message one of another orchestrator.
pub(super) fn renumber(carried: &mut Carried, origin: u8) {
    let (_, id) = carried.user_properties.iter_mut().find(|(name, _)| name == "tidegate-id").unwrap();
    id.replace_range(0..11, &format!("{origin:>011}"));
}

#[test]
fn messages_of_another_orchestrator_are_not_owed_here() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        client.publish(message("t", "1").qos2());
        let mut carried = a.taken().remove(0);
        renumber(&mut carried, 7);
        a.carry(&carried);
        assert_eq!(client.payloads(), ["1", "1"]);
        a.carry(&carried);
        client.expect_nothing();
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_message_from_the_fleet_is_not_sent_there_again() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", AtLeastOnce);
        a.publish(&message("t", "direct").qos1());
        assert_eq!(client.payloads(), ["direct"]);
        world.advance(seconds(30));
        assert!(a.taken().is_empty() && b.taken().is_empty());
    });
}

/// In front of a broker as NATS: of MQTT 3.1.1, with a copy for each filter.
fn in_front_of_nats(story: impl Fn(&World, Broker)) {
    let settings = |settings: &mut Settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.broker_links.iter_mut().for_each(|it| it.merge_filters = true);
    };
    everywhere_with(settings, |world| {
        let options = BrokerLinkOptions { version: Some(Version::V311), ..fleet::lasting() };
        let nats = world.broker_with("nats", options, Ways { copies: true, ..Ways::default() });
        story(world, nats);
    });
}

#[test]
fn an_old_broker_with_copies_gets_common_filters() {
    in_front_of_nats(|world, nats| {
        let (one, other) = (world.connect(v5("one")), world.connect(v311("other")));
        for filter in ["t/+", "t/1", "u/+/c", "u/b/+"] {
            one.subscribe(filter, ExactlyOnce);
        }
        other.subscribe("t/1", ExactlyOnce);
        world.advance(seconds(6));
        assert_eq!(nats.held(), ["t/+", "u/+/+"]);
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            one.publish(message("t/1", "x").qos(qos));
            one.publish(message("u/b/c", "x").qos(qos));
            one.publish(message("u/a/a", "unwanted").qos(qos));
        }
        let copies = one.messages().len();
        assert_eq!((copies, other.messages().len()), (6, 3), "each message once");
        one.unsubscribe("t/+");
        one.unsubscribe("u/b/+");
        world.advance(seconds(6));
        assert_eq!(nats.held(), ["t/1", "u/+/c"]);
        one.publish(message("t/1", "x").qos2());
        assert_eq!(other.payloads(), ["x"]);
    });
}

#[test]
fn common_filters_outlast_a_connection() {
    in_front_of_nats(|world, nats| {
        let client = world.connect(v5("c"));
        client.subscribe("t/1", ExactlyOnce);
        client.subscribe("t/+", ExactlyOnce);
        nats.cut();
        client.unsubscribe("t/+");
        world.advance(seconds(12));
        assert_eq!(nats.held(), ["t/1"]);
        client.publish(message("t/1", "x").qos2());
        assert_eq!(client.payloads(), ["x"]);
    });
}
