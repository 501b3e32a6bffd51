//! Messages and filters that make brokers close the connection.

use tidegate_engine::{BrokerLinkState, Reason, RoutingPolicy};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode};

use crate::harness::fleet::lasting;
use crate::harness::*;

/// A part of a topic that the brokers of these tests do not like.
const BAD: &str = "bad";

fn picky() -> Ways {
    Ways { closes_on: Some(BAD), ..Ways::default() }
}

#[test]
fn a_message_that_makes_brokers_close_is_set_aside() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of([], |world, []| {
            let [a, b] = ["a", "b"].map(|name| world.broker_with(name, lasting(), picky()));
            let client = world.connect(v5("c"));
            client.subscribe("#", ExactlyOnce);
            let send = |topic: &str, payload: &str| {
                client.publish_later(Message { qos, ..message(topic, payload) });
            };
            for number in 0..20 {
                send(&format!("t/{number}"), "before");
            }
            send("bad/1", "x");
            for number in 0..20 {
                send(&format!("t/{number}"), "after");
            }
            world.advance(seconds(20));
            assert_eq!(world.dropped(Reason::ClosesConnections), 1);
            assert_eq!((a.state(), b.state(), world.owed()), (BrokerLinkState::Serving, BrokerLinkState::Serving, 0));
            let reports = [a.report(), b.report()];
            assert_eq!(reports.iter().map(|report| report.counters.set_aside).sum::<u64>(), 1);
            assert!(reports.iter().any(|report| report.counters.lost == 0), "one has never seen it: {reports:?}");
            let got = client.messages();
            assert_eq!(got.len(), 40, "{got:?}");
        });
    }
}

#[test]
fn a_message_is_set_aside_although_sessions_are_forgotten() {
    for policy in [RoutingPolicy::TopicHash, RoutingPolicy::RoundRobin, RoutingPolicy::LeastLoaded] {
        let world = World::with(1, |settings| fleet_settings(settings, policy));
        let options = tidegate_engine::BrokerLinkOptions { lasting: false, ..lasting() };
        let brokers = ["a", "b"].map(|name| world.broker_with(name, options.clone(), picky()));
        let client = world.connect(v5("c"));
        client.subscribe("#", AtLeastOnce);
        for topic in ["t/1", "t/2", "bad/1", "t/3", "t/4"] {
            client.publish_later(message(topic, "x").qos1());
        }
        world.advance(minutes(1));
        assert_eq!((world.dropped(Reason::ClosesConnections), world.owed()), (1, 0), "{policy:?}");
        assert!(brokers.iter().all(|broker| broker.state() == BrokerLinkState::Serving), "{policy:?}");
    }
}

#[test]
fn a_message_is_kept_while_its_broker_answers_probes_after_it() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        a.now(|ways| ways.withholds_acknowledgements = true);
        client.publish_later(message("t", "x").qos1());
        for _ in 0..10 {
            world.advance(100);
            a.cut();
            world.advance(seconds(5));
        }
        a.now(|ways| ways.withholds_acknowledgements = false);
        a.come_back();
        assert_eq!((world.dropped(Reason::ClosesConnections), world.owed()), (0, 0));
        assert!(a.payloads().contains(&"x".to_owned()));
    });
}

/// How a broker denies messages: it closes the connection, and says why or not.
const DENIALS: [Option<ReasonCode>; 3] = [None, Some(ReasonCode::NotAuthorized), Some(ReasonCode::UnspecifiedError)];

#[test]
fn denied_messages_delay_others_by_no_back_off() {
    for closes_with in DENIALS {
        for qos in [AtLeastOnce, ExactlyOnce] {
            in_front_of([], |world, []| {
                let a = world.broker_with("a", lasting(), Ways { closes_with, ..picky() });
                let [client, denied] = ["c", "denied"].map(|name| world.connect(v5(name)));
                client.subscribe("t/#", ExactlyOnce);
                for round in 0..10 {
                    denied.publish_later(Message { qos, ..message("bad/1", "x") });
                    client.publish_later(Message { qos, ..message("t/1", format!("{round}")) });
                    // The first back-off is 100 ms.
                    world.advance(20);
                    assert_eq!(client.payloads(), [round.to_string()], "{:?}", a.report());
                }
                assert_eq!(world.owed(), 0);
                let lost = a.report().counters.lost;
                assert!(lost <= 10, "lost {lost} times");
            });
        }
    }
}

#[test]
fn a_denied_topic_is_refused_to_its_publishers_for_a_minute() {
    for closes_with in DENIALS {
        in_front_of([], |world, []| {
            let a = world.broker_with("a", lasting(), Ways { closes_with, ..picky() });
            let client = world.connect(v5("c"));
            // A code of the broker is believed the first time.
            let times = if closes_with == Some(ReasonCode::NotAuthorized) { 1 } else { 2 };
            for _ in 0..times {
                assert!(!client.publish(message("bad/1", "x").qos1()).is_error());
                world.advance(20);
            }
            let lost = a.report().counters.lost;
            for _ in 0..5 {
                assert_eq!(client.publish(message("bad/1", "x").qos1()), ReasonCode::NotAuthorized);
                assert_eq!(client.publish(message("bad/1", "x").qos2()), ReasonCode::NotAuthorized);
                client.publish(message("bad/1", "x"));
            }
            assert_eq!(a.report().counters.lost, lost);
            assert!(world.dropped(Reason::TopicDenied) >= 15);
            assert!(!client.publish(message("t/1", "x").qos1()).is_error());
            a.now(|ways| ways.closes_on = None);
            world.advance(seconds(60));
            assert!(!client.publish(message("bad/1", "again").qos1()).is_error());
            assert!(a.payloads().contains(&"again".to_owned()));
        });
    }
}

#[test]
fn a_denial_while_another_broker_is_away_refuses_no_topic() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        a.now(|ways| ways.answers = ReasonCode::NotAuthorized);
        b.now(|ways| ways.reachable = false);
        b.cut();
        for number in 0..10 {
            client.publish_later(message(&format!("t/{number}"), "x").qos1());
        }
        world.run();
        assert!(a.offered() > 0, "some topics are a's");
        b.now(|ways| ways.reachable = true);
        world.advance(seconds(1));
        assert_eq!((b.payloads().len(), client.payloads().len(), world.owed()), (10, 10, 0));
        assert_eq!((world.dropped(Reason::TopicDenied), world.dropped(Reason::RefusedByReceiver)), (0, 0));
    });
}

#[test]
fn a_broker_that_answers_nothing_is_not_dialed_without_a_pause() {
    in_front_of([], |world, []| {
        let a = world.broker_with("a", lasting(), Ways { closes_on: Some(""), ..Ways::default() });
        let client = world.connect(v5("c"));
        for number in 0..100 {
            client.publish_later(message(&format!("t/{number}"), "x").qos1());
        }
        world.advance(seconds(5));
        let lost = a.report().counters.lost;
        assert!(lost < 60, "lost {lost} times in 5 s");
    });
}

#[test]
fn a_filter_that_makes_brokers_close_is_refused_there() {
    for forgets in [false, true] {
        in_front_of([], |world, []| {
            let client = world.connect(v5("c"));
            client.subscribe("good/1", AtLeastOnce);
            let brokers = ["a", "b"].map(|name| world.broker_with(name, lasting(), picky()));
            client.subscribe_later("bad/+");
            client.subscribe_later("good/2");
            world.advance(seconds(20));
            client.expect(PacketType::SubAck);
            client.expect(PacketType::SubAck);
            for broker in &brokers {
                let report = broker.report();
                assert_eq!(
                    (report.state, report.filters, report.filters_refused),
                    (BrokerLinkState::Serving, 2, 1),
                    "{report:?}"
                );
                assert_eq!(broker.held(), ["good/1", "good/2"]);
                assert!(report.last_error.contains("bad/+"), "{report:?}");
            }
            assert_eq!(client.publish(message("good/2", "x").qos1()), ReasonCode::Success);
            client.expect_publish("good/2", "x");
            if forgets {
                // Neither forgetting it nor asking again costs a connection.
                let lost = |broker: &Broker| broker.report().counters.lost;
                let before: Vec<u64> = brokers.iter().map(lost).collect();
                client.unsubscribe("bad/+");
                assert_eq!(client.subscribe_code("bad/+", AtLeastOnce), Some(ReasonCode::TopicFilterInvalid));
                let other = world.connect(v5("other"));
                assert_eq!(other.subscribe_code("bad/+", AtLeastOnce), Some(ReasonCode::TopicFilterInvalid));
                world.advance(minutes(2));
                assert_eq!(brokers.iter().map(lost).collect::<Vec<_>>(), before);
            }
            // Once in a while it is tried again: a broker may have become another one.
            for broker in &brokers {
                broker.now(|ways| ways.closes_on = None);
            }
            world.advance(minutes(10));
            if forgets {
                assert_eq!(client.subscribe_code("bad/+", AtLeastOnce), Some(ReasonCode::GrantedQos1));
            }
            assert!(brokers.iter().all(|broker| broker.held().contains(&"bad/+".to_owned())));
            assert!(brokers.iter().all(|broker| broker.report().filters_refused == 0));
        });
    }
}

#[test]
fn a_broker_that_closes_at_once_is_tried_ever_more_rarely() {
    in_front_of(["a"], |world, [a]| {
        let mut tries = 0;
        for _ in 0..200 {
            if a.state() == BrokerLinkState::Serving {
                a.cut();
                tries += 1;
            }
            world.advance(100);
        }
        assert!(tries < 12, "{tries} connections in 20 s");
    });
}
