//! Filters that brokers are asked for.

use std::collections::BTreeSet;

use tidegate_engine::{BrokerLinkState, RoutingPolicy};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode};

use crate::harness::fleet::lasting;
use crate::harness::*;

#[test]
fn each_filter_is_asked_for_once() {
    in_front_of(["a", "b"], |world, brokers| {
        let clients: Vec<Client> = (0..6).map(|n| world.connect(v5(&world.name_on(n, &format!("c{n}."))))).collect();
        for client in &clients {
            for filter in ["t/+", "t/1"] {
                client.subscribe(filter, AtLeastOnce);
            }
            client.subscribe("$share/g/t/2", AtLeastOnce);
        }
        for broker in &brokers {
            let mut asked = broker.asked();
            asked.sort();
            assert_eq!(asked, ["t/+", "t/1", "t/2"], "{}", broker.name());
        }
        for client in &clients {
            client.unsubscribe("t/1");
        }
        for broker in &brokers {
            assert_eq!(broker.forgotten(), ["t/1"]);
            assert_eq!(broker.report().filters, 2);
        }
        for client in clients {
            client.disconnect();
        }
        for broker in &brokers {
            assert_eq!(broker.held(), Vec::<String>::new());
        }
        assert_eq!(world.engine(0, |engine, _| engine.questions().wanted_filters()), 0);
    });
}

#[test]
fn a_new_broker_serves_only_when_it_holds_all_filters() {
    in_front_of(["a"], |world, [_a]| {
        let client = world.connect(v5("c"));
        for number in 0..600 {
            client.subscribe(&format!("t/{number}"), AtLeastOnce);
        }
        client.subscribe("w/+/#", AtLeastOnce);
        let slow = Ways { withholds_sub_acks: true, ..Ways::default() };
        let late = world.broker_with("late", lasting(), slow);
        assert_eq!(late.state(), BrokerLinkState::Subscribing);
        assert_eq!((late.report().filters, late.report().filters_pending), (0, 601));
        late.now(|ways| ways.withholds_sub_acks = false);
        assert_eq!(late.state(), BrokerLinkState::Serving);
        assert_eq!((late.report().filters, late.report().filters_pending), (601, 0));
        assert_eq!(late.held().len(), 601);
        let asked: BTreeSet<String> = late.asked().into_iter().collect();
        assert_eq!(asked.len(), 601);
    });
}

#[test]
fn messages_to_a_broker_not_yet_serving_return() {
    in_front_of([], |world, []| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", AtLeastOnce);
        let slow = Ways { withholds_sub_acks: true, ..Ways::default() };
        world.broker_with("late", lasting(), slow);
        for number in 0..20 {
            client.publish_later(message(&format!("t/{number}"), "x").qos1());
        }
        assert_eq!(client.messages().len(), 20);
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_returning_broker_gets_the_changed_filters() {
    in_front_of(["a", "b"], |world, [a, _b]| {
        let client = world.connect(v5("c"));
        for filter in ["stays", "goes"] {
            client.subscribe(filter, AtLeastOnce);
        }
        a.cut();
        a.now(|ways| ways.reachable = false);
        client.unsubscribe("goes");
        client.subscribe("comes", AtLeastOnce);
        a.come_back();
        assert_eq!(a.held(), ["comes", "stays"]);
        assert_eq!(a.state(), BrokerLinkState::Serving);
        assert_eq!(a.forgotten(), ["goes"]);
    });
}

/// A world of two shards in front of two brokers, and a client on each.
fn two_shards() -> (World, [Broker; 2], [Client; 2]) {
    let world = World::with(2, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
    let brokers = ["a", "b"].map(|name| world.broker(name));
    let clients = [0, 1].map(|shard| world.connect(v5(&world.name_on(shard, "c"))));
    (world, brokers, clients)
}

#[test]
fn a_suback_waits_until_all_brokers_have_answered() {
    let (_world, [a, b], clients) = two_shards();
    for broker in [&a, &b] {
        broker.now(|ways| ways.withholds_sub_acks = true);
    }
    for (number, client) in clients.iter().enumerate() {
        client.subscribe_later(&format!("t/{number}"));
        client.expect_nothing();
    }
    a.now(|ways| ways.withholds_sub_acks = false);
    clients.iter().for_each(Client::expect_nothing);
    b.now(|ways| ways.withholds_sub_acks = false);
    for client in &clients {
        client.expect(PacketType::SubAck);
    }
}

#[test]
fn a_suback_waits_no_longer_for_a_broker_that_dies() {
    let (world, [a, b], clients) = two_shards();
    a.now(|ways| ways.withholds_sub_acks = true);
    for client in &clients {
        client.subscribe_later("t");
    }
    clients[0].expect_nothing();
    a.die();
    for client in &clients {
        client.expect(PacketType::SubAck);
    }
    assert_eq!(b.held(), ["t"]);
    // And one that hangs is taken for dead.
    b.now(|ways| ways.withholds_sub_acks = true);
    clients[1].subscribe_later("u");
    clients[1].expect_nothing();
    b.now(|ways| ways.hangs = true);
    world.advance(seconds(7));
    clients[1].expect(PacketType::SubAck);
}

#[test]
fn a_filter_that_a_broker_refuses_is_reported() {
    in_front_of([], |world, []| {
        let client = world.connect(v5("c"));
        for filter in ["good", "bad"] {
            client.subscribe(filter, AtMostOnce);
        }
        let ways = Ways { refuses_filter: Some("bad".into()), ..Ways::default() };
        let broker = world.broker_with("a", lasting(), ways);
        assert_eq!(broker.state(), BrokerLinkState::Serving);
        assert!(broker.report().last_error.contains("refused 1 of the filters"), "{:?}", broker.report());
        client.publish(message("good", "x"));
        client.expect_publish("good", "x");
    });
}

#[test]
fn a_filter_that_no_broker_takes_is_refused_to_the_client() {
    for shards in 1..=3 {
        let world = World::with(shards, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
        let ways = Ways { refuses_filter: Some("bad".into()), ..Ways::default() };
        let [a, b] = ["a", "b"].map(|name| world.broker_with(name, lasting(), ways.clone()));
        let clients: Vec<Client> =
            (0..6).map(|number| world.connect(v5(&world.name_on(number, &format!("c{number}."))))).collect();
        for client in &clients {
            assert_eq!(client.subscribe_code("bad", AtLeastOnce), Some(ReasonCode::NotAuthorized));
            // A group at home on another shard is joined before anybody has asked brokers.
            if shards == 1 {
                assert_eq!(client.subscribe_code("$share/g/bad", AtLeastOnce), Some(ReasonCode::NotAuthorized));
            }
            assert_eq!(client.subscribe_code("good", AtLeastOnce), Some(ReasonCode::GrantedQos1));
        }
        assert_eq!(world.engine(0, |engine, _| engine.questions().wanted_filters()), 1);
        assert_eq!((a.report().filters, a.report().filters_refused), (1, 0));
        // As soon as one takes it, it is served.
        b.now(|ways| ways.refuses_filter = None);
        assert_eq!(clients[0].subscribe_code("bad", AtLeastOnce), Some(ReasonCode::GrantedQos1));
        assert_eq!((a.report().filters, a.report().filters_refused, b.report().filters), (1, 1, 2));
        clients[1].publish(message("bad", "x").qos1());
        clients[0].expect_publish("bad", "x");
    }
}

#[test]
fn subscriptions_of_offline_sessions_hold_after_a_restart() {
    let world = World::with(3, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = tidegate_engine::Durability::Commit;
    });
    let a = world.broker("a");
    for shard in 0..3 {
        let client = world.connect(v5(&world.name_on(shard, "c")).lasting());
        client.subscribe(&format!("t/{shard}"), ExactlyOnce);
        client.lose();
    }
    a.die_and_forget();
    world.crash(Crash::now(2));
    a.come_back();
    assert_eq!(a.held(), ["t/0", "t/1", "t/2"]);
    assert_eq!(a.state(), BrokerLinkState::Serving);
    world.connect(v5("p")).publish(message("t/2", "x").qos1());
    world.crash(Crash::now(1));
    world.advance(seconds(1));
    assert_eq!(a.held(), ["t/0", "t/1", "t/2"]);
}

#[test]
fn a_subscriber_of_a_filter_just_asked_for_waits_as_well() {
    for shards in 1..=3 {
        let world = World::with(shards, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
        let a = world.broker("a");
        let clients: Vec<Client> =
            (0..6).map(|number| world.connect(v5(&world.name_on(number, &format!("c{number}."))))).collect();
        a.now(|ways| ways.withholds_sub_acks = true);
        for client in &clients {
            client.subscribe_later("t");
        }
        clients.iter().for_each(Client::expect_nothing);
        a.now(|ways| ways.withholds_sub_acks = false);
        for client in &clients {
            client.expect(PacketType::SubAck);
        }
        assert_eq!(a.asked(), ["t"]);
    }
}
