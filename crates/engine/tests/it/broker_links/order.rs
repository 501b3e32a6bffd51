//! A topic's messages keep their order while its broker changes.

use tidegate_engine::BrokerLinkState;
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{QoS, ReasonCode};

use crate::harness::*;

const TOPICS: usize = 20;

/// Publishes one more to each of many topics.
fn publish_round(client: &Client, round: u32, qos: QoS) {
    for topic in 0..TOPICS {
        client.publish_later(message(&format!("t/{topic}"), round.to_string()).qos(qos));
    }
}

/// Each topic has brought these rounds, in their order and each once.
#[track_caller]
fn expect_rounds(client: &Client, rounds: std::ops::Range<u32>) {
    let got = client.messages();
    for topic in 0..TOPICS {
        let topic = format!("t/{topic}");
        let of_topic = got.iter().filter(|delivered| delivered.topic == topic);
        let of_topic: Vec<String> = of_topic.map(Delivered::text).collect();
        let expected: Vec<String> = rounds.clone().map(|round| round.to_string()).collect();
        assert_eq!(of_topic, expected, "of {topic}");
    }
    assert_eq!(got.len(), TOPICS * rounds.len());
}

fn slow(broker: &Broker, slow: bool) {
    broker.now(|ways| {
        ways.withholds_acknowledgements = slow;
        ways.withholds_messages = slow;
    });
}

#[test]
fn messages_of_one_read_come_once_and_in_their_order() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        client.subscribe("t/1", ExactlyOnce);
        a.now(|ways| {
            ways.copies = true;
            ways.withholds_messages = true;
        });
        for number in 0..60 {
            let message = message(&format!("t/{}", number % 3), number.to_string());
            client.publish(match number % 10 {
                3 => message.qos2(),
                6 => message.qos1().retain(),
                0 | 7 => message,
                _ => message.qos1(),
            });
        }
        a.now(|ways| ways.withholds_messages = false);
        let all: Vec<String> = (0..60).map(|number| number.to_string()).collect();
        assert_eq!(client.payloads(), all);
        let counters = a.report().counters;
        assert_eq!((counters.received, counters.duplicates, counters.lost), (80, 20, 0), "{counters:?}");
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn topics_keep_their_order_when_a_broker_comes() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t/#", ExactlyOnce);
            slow(&a, true);
            publish_round(&client, 0, qos);
            let b = world.broker("b");
            publish_round(&client, 1, qos);
            publish_round(&client, 2, qos);
            assert_eq!(b.payloads(), Vec::<String>::new(), "a has messages of its topics under way");
            slow(&a, false);
            assert!(!b.payloads().is_empty());
            expect_rounds(&client, 0..3);
            assert_eq!(world.owed(), 0);
        });
    }
}

#[test]
fn queued_messages_move_with_their_topics() {
    in_front_of([], |world, []| {
        let narrow = |name| {
            let ways = Ways { receive_maximum: Some(3), withholds_messages: true, ..Ways::default() };
            world.broker_with(name, fleet::lasting(), ways)
        };
        let a = narrow("a");
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        for round in 0..3 {
            publish_round(&client, round, AtLeastOnce);
        }
        let queued = a.report().queued;
        let b = narrow("b");
        assert!(a.report().queued < queued && b.report().queued > 0, "{:?} {:?}", a.report(), b.report());
        slow(&a, false);
        slow(&b, false);
        expect_rounds(&client, 0..3);
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn topics_keep_their_order_when_a_broker_is_drained_and_set() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a", "b"], |world, [a, b]| {
            let client = world.connect(v5("c"));
            client.subscribe("t/#", ExactlyOnce);
            slow(&a, true);
            publish_round(&client, 0, qos);
            let before = b.taken().len();
            a.drain().unwrap();
            publish_round(&client, 1, qos);
            assert_eq!(b.taken().len(), 0, "after {before}");
            slow(&a, false);
            slow(&b, true);
            publish_round(&client, 2, qos);
            a.set(fleet::lasting());
            a.taken();
            publish_round(&client, 3, qos);
            assert_eq!(a.taken().len(), 0);
            slow(&b, false);
            expect_rounds(&client, 0..4);
            assert_eq!((world.owed(), a.state()), (0, BrokerLinkState::Serving));
        });
    }
}

#[test]
fn topics_keep_their_order_when_a_broker_is_removed_by_force() {
    in_front_of([], |world, []| {
        let narrow = |name| {
            let ways = Ways { receive_maximum: Some(3), ..Ways::default() };
            world.broker_with(name, fleet::lasting(), ways)
        };
        let [a, _b] = [narrow("a"), narrow("b")];
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        a.now(|ways| {
            ways.loses = true;
            ways.withholds_acknowledgements = true;
        });
        for round in 0..3 {
            publish_round(&client, round, AtLeastOnce);
        }
        assert!(a.report().queued > 0 && a.report().in_flight > 0);
        a.remove(true).unwrap();
        publish_round(&client, 3, AtLeastOnce);
        expect_rounds(&client, 0..4);
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn topics_keep_their_order_when_a_lost_broker_returns() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        a.die();
        world.advance(seconds(3));
        slow(&b, true);
        publish_round(&client, 0, AtLeastOnce);
        // Back within the time that a broker waits for others.
        a.with(|broker| broker.ways.reachable = true);
        for _ in 0..100 {
            if a.state() == BrokerLinkState::Serving {
                break;
            }
            world.advance(100);
        }
        publish_round(&client, 1, AtLeastOnce);
        assert_eq!((a.state(), a.taken().len()), (BrokerLinkState::Serving, 0));
        slow(&b, false);
        expect_rounds(&client, 0..2);
        assert!(!a.taken().is_empty());
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn topics_keep_their_order_when_a_broker_has_no_room() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a", "b"], |world, [a, b]| {
            let client = world.connect(v5("c"));
            client.subscribe("t/#", ExactlyOnce);
            publish_round(&client, 0, qos);
            a.now(|ways| {
                ways.answers = ReasonCode::QuotaExceeded;
                ways.withholds_acknowledgements = true;
            });
            publish_round(&client, 1, qos);
            a.now(|ways| ways.withholds_acknowledgements = false);
            publish_round(&client, 2, qos);
            slow(&b, true);
            publish_round(&client, 3, qos);
            a.now(|ways| ways.answers = ReasonCode::Success);
            world.advance(150);
            publish_round(&client, 4, qos);
            slow(&b, false);
            expect_rounds(&client, 0..5);
            assert_eq!(world.owed(), 0);
        });
    }
}

#[test]
fn a_broker_waits_for_others_no_longer_than_two_seconds() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        slow(&a, true);
        publish_round(&client, 0, AtLeastOnce);
        let b = world.broker("b");
        publish_round(&client, 1, AtLeastOnce);
        world.advance(1_900);
        assert_eq!(b.taken().len(), 0);
        world.advance(200);
        assert!(!b.taken().is_empty());
        slow(&a, false);
        assert_eq!(client.messages().len(), 2 * TOPICS);
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_dead_or_denying_broker_keeps_no_others_waiting() {
    for denies in [false, true] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t/#", ExactlyOnce);
            a.now(|ways| {
                ways.withholds_acknowledgements = true;
                ways.loses = true;
                ways.answers = if denies { ReasonCode::NotAuthorized } else { ReasonCode::Success };
            });
            publish_round(&client, 0, AtLeastOnce);
            let b = world.broker("b");
            publish_round(&client, 1, AtLeastOnce);
            assert_eq!(b.taken().len(), 0);
            if denies {
                a.now(|ways| ways.withholds_acknowledgements = false);
                assert!(!b.taken().is_empty());
            } else {
                a.die_and_forget();
                world.advance(seconds(3));
                expect_rounds(&client, 0..2);
                assert_eq!(world.owed(), 0);
            }
        });
    }
}
