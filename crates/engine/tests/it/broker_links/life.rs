//! Brokers come into the fleet, are drained and leave it.

use tidegate_engine::{BrokerLinkError, BrokerLinkState, RoutingPolicy};
use tidegate_mqtt::QoS::ExactlyOnce;
use tidegate_mqtt::ReasonCode;

use crate::harness::fleet::lasting;
use crate::harness::*;

#[test]
fn a_drained_broker_gets_no_messages_and_settles_its_own() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        a.now(|ways| ways.withholds_messages = true);
        let publish = || {
            for number in 0..20 {
                client.publish(message(&format!("t/{number}"), "x").qos2());
            }
        };
        publish();
        let owed = a.owed();
        assert!(owed > 0, "some topics are a's");
        a.drain().unwrap();
        a.taken();
        publish();
        assert_eq!(a.taken().len(), 0);
        assert_eq!((a.state(), a.owed()), (BrokerLinkState::Draining, owed));
        // Messages that other clients publish there still arrive.
        assert_eq!(b.state(), BrokerLinkState::Serving);
        a.now(|ways| ways.withholds_messages = false);
        world.advance(seconds(2));
        assert_eq!(a.state(), BrokerLinkState::Drained);
        assert_eq!(client.messages().len(), 40);
        a.publish(&message("t/direct", "x").qos1());
        client.expect_publish("t/direct", "x");
    });
}

#[test]
fn a_drain_ends_with_a_probe_behind_the_last_message() {
    in_front_of(["a", "b"], |world, [a, _b]| {
        a.now(|ways| ways.hangs = true);
        a.drain().unwrap();
        assert_eq!((a.owed(), a.state()), (0, BrokerLinkState::Draining));
        world.advance(seconds(3));
        assert_eq!(a.state(), BrokerLinkState::Draining, "it has not answered");
        a.now(|ways| ways.hangs = false);
        world.advance(seconds(2));
        assert_eq!(a.state(), BrokerLinkState::Drained);
    });
}

#[test]
fn a_broker_that_is_being_drained_and_set_again_serves_again() {
    in_front_of(["a", "b"], |world, [a, b]| {
        a.drain().unwrap();
        a.set(lasting());
        assert_eq!(a.state(), BrokerLinkState::Serving);
        let publisher = world.connect(v5("p"));
        for number in 0..40 {
            publisher.publish(message(&format!("t/{number}"), "x").qos1());
        }
        assert!(!a.taken().is_empty() && !b.taken().is_empty());
    });
}

#[test]
fn a_broker_lost_while_drained_gets_no_messages_on_return() {
    in_front_of(["a", "b"], |world, [a, b]| {
        a.now(|ways| ways.withholds_acknowledgements = true);
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        for number in 0..20 {
            client.publish_later(message(&format!("t/{number}"), "x").qos2());
        }
        a.drain().unwrap();
        a.die();
        world.advance(seconds(4));
        assert_eq!(client.messages().len(), 20);
        client.answers();
        a.now(|ways| ways.withholds_acknowledgements = false);
        a.come_back();
        world.advance(seconds(3));
        assert_eq!((a.state(), world.owed()), (BrokerLinkState::Drained, 0));
        a.taken();
        b.taken();
        for number in 0..20 {
            client.publish(message(&format!("t/{number}"), "y").qos2());
        }
        assert_eq!((a.taken().len(), b.taken().len()), (0, 20));
        assert_eq!(client.messages().len(), 20);
    });
}

#[test]
fn the_last_broker_is_neither_drained_nor_removed_while_it_owes() {
    in_front_of(["a", "b"], |world, [a, b]| {
        b.drain().unwrap();
        assert_eq!(a.drain(), Err(BrokerLinkError::Last("a".into())));
        a.now(|ways| ways.withholds_acknowledgements = true);
        world.connect(v5("p")).publish(message("t", "x").qos1());
        assert_eq!(a.remove(false), Err(BrokerLinkError::Owes { name: "a".into(), owed: 1 }));
        assert_eq!(a.remove(true), Err(BrokerLinkError::Last("a".into())));
        world.advance(seconds(2));
        b.remove(false).unwrap();
        assert_eq!(a.remove(true), Err(BrokerLinkError::Last("a".into())));
        assert_eq!(world.broker_links().len(), 1);
    });
}

#[test]
fn a_broker_is_not_drained_before_another_was_connected() {
    in_front_of(["a"], |world, [a]| {
        let b = world.broker_with("b", lasting(), Ways { reachable: false, ..Ways::default() });
        assert_eq!(a.drain(), Err(BrokerLinkError::Last("a".into())));
        assert_eq!(a.remove(true), Err(BrokerLinkError::Last("a".into())));
        let publisher = world.connect(v5("p"));
        assert_eq!(publisher.publish(message("t", "x").qos1()), ReasonCode::Success);
        b.come_back();
        a.drain().unwrap();
        assert_eq!(publisher.publish(message("t", "y").qos1()), ReasonCode::Success);
    });
}

#[test]
fn a_broker_that_was_never_connected_can_be_removed() {
    let world = World::with(1, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
    let [a, b] =
        ["a", "b"].map(|name| world.broker_with(name, lasting(), Ways { reachable: false, ..Ways::default() }));
    a.remove(true).unwrap();
    assert_eq!(b.remove(true), Err(BrokerLinkError::Last("b".into())));
}

#[test]
fn a_removed_broker_gets_a_disconnect_and_may_forget() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        a.drain().unwrap();
        world.advance(seconds(2));
        a.remove(false).unwrap();
        assert_eq!(a.with(|broker| (broker.goodbyes, broker.lines().len())), (1, 0));
        assert_eq!(a.held(), Vec::<String>::new());
        world.advance(minutes(1));
        assert_eq!(a.with(|broker| broker.accepted), 1, "no connection returns");
        client.publish(message("t", "x").qos2());
        client.expect_publish("t", "x");
        assert_eq!(b.payloads(), ["x"]);
        assert_eq!(a.drain(), Err(BrokerLinkError::Unknown("a".into())));
    });
}

#[test]
fn a_removed_brokers_messages_go_to_others() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        for broker in [&a, &b] {
            broker.now(|ways| ways.withholds_messages = true);
        }
        for number in 0..20 {
            client.publish(message(&format!("t/{number}"), "x").qos2());
        }
        let of_b = b.taken().len();
        a.remove(true).unwrap();
        b.now(|ways| ways.withholds_messages = false);
        assert_eq!((b.taken().len(), client.messages().len()), (20 - of_b, 20));
        assert_eq!(world.owed(), 0);
        assert_eq!(a.with(|broker| broker.owes()), 0);
    });
}

#[test]
fn a_dead_broker_can_be_removed_by_force() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        a.now(|ways| ways.hangs = true);
        for number in 0..20 {
            client.publish_later(message(&format!("t/{number}"), "x").qos2());
        }
        a.die_and_forget();
        a.remove(true).unwrap();
        assert_eq!((b.taken().len(), client.messages().len()), (20, 20));
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_broker_of_the_name_of_a_removed_one_starts_from_nothing() {
    for durable in [false, true] {
        let world = World::with(2, |settings| {
            fleet_settings(settings, RoutingPolicy::TopicHash);
            if durable {
                settings.durability = tidegate_engine::Durability::Commit;
            }
        });
        let [a, _b] = ["a", "b"].map(|name| world.broker(name));
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        for number in 0..10 {
            client.publish(message(&format!("t/{number}"), "x").qos2());
        }
        a.drain().unwrap();
        world.advance(seconds(2));
        a.remove(false).unwrap();
        let a = world.broker("a");
        assert_eq!(a.held(), ["t/#"]);
        assert_eq!(a.report().counters.sent, 0);
        client.messages();
        for number in 0..10 {
            client.publish(message(&format!("t/{number}"), "y").qos2());
        }
        assert_eq!(client.messages().len(), 10);
    }
}

#[test]
fn a_broker_has_no_fleet() {
    let world = World::new(2);
    assert_eq!(
        world.engine(0, |engine, now| engine.fleet().set_broker_link(now, "a", lasting())),
        Err(BrokerLinkError::NoFleet)
    );
    let orchestrator = World::with(2, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
    let elsewhere = orchestrator.engine(1, |engine, now| engine.fleet().set_broker_link(now, "a", lasting()));
    assert_eq!(elsewhere, Err(BrokerLinkError::NoFleet));
}

#[test]
fn an_orchestrator_that_shuts_down_says_goodbye_to_its_brokers() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c").will(message("w", "gone").qos1()));
        world.shut_down();
        client.expect_disconnect(ReasonCode::ServerShuttingDown);
        assert_eq!(a.with(|broker| (broker.goodbyes, broker.lines().len())), (1, 0));
        assert_eq!(a.payloads(), ["gone"], "wills are published before");
    });
}
