//! The broker that gets a message, and messages that none gets.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::{Reason, RoutingPolicy};
use tidegate_mqtt::PacketType;
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

/// The broker that took each topic.
fn places(brokers: &[Broker]) -> BTreeMap<String, String> {
    let taken = brokers.iter().flat_map(|broker| broker.taken().into_iter().map(move |one| (one.topic, broker)));
    taken.map(|(topic, broker)| (topic, broker.name().to_owned())).collect()
}

#[test]
fn each_publish_goes_to_exactly_one_broker_by_every_policy() {
    for policy in [RoutingPolicy::TopicHash, RoutingPolicy::RoundRobin, RoutingPolicy::LeastLoaded] {
        everywhere_with(
            |settings| fleet_settings(settings, policy),
            |world| {
                let brokers = ["a", "b", "c"].map(|name| world.broker(name));
                let publisher = world.connect(v5("p"));
                let mut sent = BTreeSet::new();
                for (number, qos) in [AtMostOnce, AtLeastOnce, ExactlyOnce].into_iter().cycle().take(30).enumerate() {
                    publisher.publish(message(&format!("t/{number}"), number.to_string()).qos(qos));
                    sent.insert(number.to_string());
                }
                let taken: Vec<String> = brokers.iter().flat_map(Broker::payloads).collect();
                assert_eq!(taken.len(), 30, "{policy:?}");
                assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), sent, "{policy:?}");
                assert_eq!(world.owed(), 0);
            },
        );
    }
}

#[test]
fn round_robin_spreads_a_single_topic_over_all() {
    everywhere_with(
        |settings| fleet_settings(settings, RoutingPolicy::RoundRobin),
        |world| {
            let brokers = ["a", "b", "c"].map(|name| world.broker(name));
            let publisher = world.connect(v5("p"));
            for number in 0..9 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            let counts = brokers.each_ref().map(|broker| broker.taken().len());
            assert_eq!(counts, [3, 3, 3]);
        },
    );
}

#[test]
fn least_loaded_spares_a_broker_that_owes() {
    everywhere_with(
        |settings| fleet_settings(settings, RoutingPolicy::LeastLoaded),
        |world| {
            let [a, b] = ["a", "b"].map(|name| world.broker(name));
            a.now(|ways| ways.withholds_acknowledgements = true);
            let publisher = world.connect(v5("p"));
            for number in 0..6 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            assert_eq!((a.taken().len(), b.taken().len()), (1, 5));
        },
    );
}

#[test]
fn least_loaded_spares_a_broker_that_returns_nothing() {
    everywhere_with(
        |settings| fleet_settings(settings, RoutingPolicy::LeastLoaded),
        |world| {
            let [a, b] = ["a", "b"].map(|name| world.broker(name));
            let client = world.connect(v5("c"));
            client.subscribe("t", AtLeastOnce);
            a.now(|ways| ways.withholds_messages = true);
            for number in 0..6 {
                client.publish(message("t", number.to_string()).qos1());
            }
            assert_eq!((a.taken().len(), b.taken().len(), a.report().unreturned), (1, 5, 1));
        },
    );
}

#[test]
fn drops_without_a_broker_have_their_own_reason() {
    in_front_of([], |world, []| {
        world.connect(v5("c")).publish(message("t", "x"));
        assert_eq!((world.dropped(Reason::NoBroker), world.dropped(Reason::FleetFull)), (1, 0));
    });
}

#[test]
fn a_topic_stays_with_its_broker_and_keeps_its_order() {
    in_front_of(["a", "b", "c"], |world, brokers| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t/#", ExactlyOnce);
        let publisher = world.connect(v311("p"));
        for number in 0..30 {
            let topic = format!("t/{}", number % 5);
            publisher.publish_later(message(&topic, number.to_string()).qos(if number % 2 == 0 {
                AtLeastOnce
            } else {
                ExactlyOnce
            }));
        }
        for broker in &brokers {
            for taken in broker.taken() {
                let number: u32 = taken.text().parse().unwrap();
                assert_eq!(taken.topic, format!("t/{}", number % 5));
            }
        }
        let mut last = BTreeMap::new();
        let got = subscriber.messages();
        assert_eq!(got.len(), 30);
        for got in got {
            let number: i32 = got.text().parse().unwrap();
            let before = last.insert(got.topic.clone(), number).unwrap_or(-1);
            assert!(before < number, "{} holds {number} behind {before}", got.topic);
        }
    });
}

#[test]
fn few_topics_move_when_a_broker_is_added_and_only_to_it() {
    let world = World::with(2, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
    let mut brokers: Vec<Broker> = ["a", "b", "c"].map(|name| world.broker(name)).into();
    let publisher = world.connect(v5("p"));
    let all = |brokers: &[Broker]| {
        for number in 0..400 {
            publisher.publish(message(&format!("t/{number}"), "x").qos1());
        }
        places(brokers)
    };
    let before = all(&brokers);
    assert_eq!(before, all(&brokers), "nothing moves without a change");
    brokers.push(world.broker("d"));
    let after = all(&brokers);
    let moved: Vec<_> = after.iter().filter(|(topic, at)| before[*topic] != **at).collect();
    assert!(moved.iter().all(|(_, at)| *at == "d"), "{moved:?}");
    assert!((60..140).contains(&moved.len()), "a quarter of 400 moves, not {}", moved.len());
    for broker in &brokers {
        let has = after.values().filter(|at| *at == broker.name()).count();
        assert!((60..140).contains(&has), "{} has {has} of 400", broker.name());
    }
}

#[test]
fn the_broker_of_a_topic_is_the_same_after_a_restart() {
    let world = World::with(2, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = tidegate_engine::Durability::Commit;
    });
    let brokers: Vec<Broker> = ["a", "b", "c"].map(|name| world.broker(name)).into();
    let all = || {
        let publisher = world.connect(v5("p"));
        for number in 0..60 {
            publisher.publish(message(&format!("t/{number}"), "x").qos1());
        }
        places(&brokers)
    };
    let before = all();
    world.crash(Crash::now(3));
    world.advance(seconds(1));
    assert_eq!(before, all());
}

#[test]
fn a_will_goes_to_the_fleet_and_returns_from_there() {
    in_front_of(["a", "b"], |world, brokers| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("w/#", AtLeastOnce);
        world.connect(v311("gone").will(message("w/1", "will").qos1().retain())).lose();
        let taken: Vec<Carried> = brokers.iter().flat_map(Broker::taken).collect();
        assert_eq!(taken.len(), 1);
        assert!(taken[0].id().is_some() && taken[0].retain);
        watcher.expect_publish("w/1", "will");
        watcher.expect_nothing();
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn what_the_orchestrator_says_of_itself_stays_at_home() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("$SYS/#", AtMostOnce);
        world.advance(seconds(30));
        assert!(!client.messages().is_empty());
        assert!(a.taken().is_empty() && a.held().is_empty());
    });
}

#[test]
fn properties_survive_the_fleet_and_the_id_stays_inside() {
    in_front_of(["a"], |world, [_a]| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", ExactlyOnce);
        let sent = message("t", "x").qos2().user("k", "1").user("k", "2").utf8().content_type("c").response("r", b"d");
        world.connect(v5("p")).publish(sent.expiry(90));
        let got = subscriber.expect_publish("t", "x");
        assert_eq!(got.user_properties, [("k".to_owned(), "1".to_owned()), ("k".to_owned(), "2".to_owned())]);
        assert_eq!((got.content_type.as_deref(), got.response_topic.as_deref()), (Some("c"), Some("r")));
        assert_eq!((got.correlation_data.as_deref(), got.expiry), (Some(&b"d"[..]), Some(90)));
        assert!(got.payload_format.is_some());
    });
}

/// A world whose fleet may owe four messages.
fn narrow(story: impl Fn(&World, Broker)) {
    everywhere_with(
        |settings| {
            fleet_settings(settings, RoutingPolicy::TopicHash);
            settings.broker_links.as_mut().unwrap().max_owed_messages = 40;
        },
        |world| story(world, world.broker("a")),
    );
}

/// Publishes until the gate is closed.
fn fill(world: &World) {
    let filler = world.connect(v5("filler"));
    for number in 0..200 {
        if !world.engine(0, |engine, _| engine.questions().fleet_is_open()) {
            break;
        }
        filler.publish(message("full", number.to_string()).qos1());
    }
    assert!(!world.engine(0, |engine, _| engine.questions().fleet_is_open()), "the gate does not close");
    world.run();
    filler.disconnect();
}

#[test]
fn a_full_fleet_refuses_or_withholds_by_version() {
    narrow(|world, a| {
        a.now(|ways| ways.withholds_acknowledgements = true);
        fill(world);
        let (new, old) = (world.connect(v5("new")), world.connect(v311("old")));
        assert_eq!(new.publish(message("t", "refused").qos1()), ReasonCode::QuotaExceeded);
        assert_eq!(new.publish(message("t", "refused").qos2()), ReasonCode::QuotaExceeded);
        let id = old.send_publish(message("t", "waits").qos1()).unwrap();
        old.expect_nothing();
        old.expect_open();
        assert!(a.taken().iter().all(|taken| taken.topic == "full"));
        a.now(|ways| ways.withholds_acknowledgements = false);
        assert_eq!(old.expect_answer(PacketType::PubAck, id), ReasonCode::Success);
        assert!(a.payloads().contains(&"waits".to_owned()));
        assert_eq!(new.publish(message("t", "again").qos1()), ReasonCode::Success);
        assert_eq!(world.dropped(Reason::FleetFull), 2);
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_full_fleet_drops_and_counts_qos_0_messages() {
    narrow(|world, a| {
        a.now(|ways| ways.withholds_acknowledgements = true);
        fill(world);
        let old = world.connect(v311("old"));
        for _ in 0..3 {
            old.publish(message("t", "dropped"));
        }
        assert_eq!(world.dropped(Reason::FleetFull), 3);
        a.now(|ways| ways.withholds_acknowledgements = false);
        old.publish(message("t", "taken"));
        assert_eq!(a.taken().iter().filter(|taken| taken.topic == "t").count(), 1);
    });
}

#[test]
fn a_fleet_that_was_never_connected_bounds_qos_0_messages() {
    everywhere_with(
        |settings| {
            fleet_settings(settings, RoutingPolicy::TopicHash);
            settings.broker_links.as_mut().unwrap().max_owed_messages = 40;
        },
        |world| {
            let a = world.broker_with("a", fleet::lasting(), Ways { reachable: false, ..Ways::default() });
            let old = world.connect(v311("old"));
            for _ in 0..200 {
                old.publish(message("t", "x"));
                world.run();
            }
            let (owed, dropped) = (world.owed(), world.dropped(Reason::FleetFull));
            assert!((40..80).contains(&owed), "{owed}");
            assert_eq!(owed + dropped, 200);
            let new = world.connect(v5("new"));
            assert_eq!(new.publish(message("t", "refused").qos1()), ReasonCode::QuotaExceeded);
            a.come_back();
            assert_eq!((a.taken().len() as u64, world.owed()), (owed, 0));
            assert_eq!(new.publish(message("t", "taken").qos1()), ReasonCode::Success);
        },
    );
}

#[test]
fn messages_wait_for_the_first_broker() {
    everywhere_with(
        |settings| fleet_settings(settings, RoutingPolicy::TopicHash),
        |world| {
            let (new, old) = (world.connect(v5("new")), world.connect(v311("old")));
            let early = new.send_publish(message("t", "waits").qos1()).unwrap();
            let id = old.send_publish(message("t", "waits").qos1()).unwrap();
            new.expect_nothing();
            old.expect_nothing();
            let a = world.broker("a");
            assert_eq!(new.expect_answer(PacketType::PubAck, early), ReasonCode::Success);
            assert_eq!(old.expect_answer(PacketType::PubAck, id), ReasonCode::Success);
            assert_eq!(a.payloads(), ["waits", "waits"]);
        },
    );
}
