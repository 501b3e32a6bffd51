//! Endless behaviour of a broker that the orchestrator bounds.

use tidegate_engine::{BrokerLinkState, DialAttempt, Millis, RoutingPolicy};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{ReasonCode, Version};

use crate::harness::fleet::lasting;
use crate::harness::*;

#[test]
fn an_unreturned_message_is_resent_thrice_then_delivered_here() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            a.now(|ways| ways.loses = true);
            client.publish(message("t", "1").qos(qos));
            world.advance(seconds(35));
            client.expect_nothing();
            world.advance(minutes(10));
            assert_eq!(a.payloads().len(), 4);
            client.expect_publish("t", "1");
            client.expect_nothing();
            let report = a.report();
            assert_eq!((report.owed(), report.counters.delivered_here), (0, 1), "{report:?}");
            assert!(report.last_error.contains("does not bring them back"), "{report:?}");
        });
    }
}

#[test]
fn the_resend_limit_counts_all_brokers_together() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        for broker in [&a, &b] {
            broker.now(|ways| ways.loses = true);
        }
        client.publish(message("t", "1").qos2());
        world.advance(minutes(10));
        assert_eq!((a.payloads().len(), b.payloads().len()), (2, 2));
        client.expect_publish("t", "1");
        client.expect_nothing();
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_late_return_is_not_delivered_again() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        a.now(|ways| ways.withholds_messages = true);
        client.publish(message("t", "1").qos2());
        world.advance(minutes(1));
        client.expect_publish("t", "1");
        // It is known to keep the topic's messages back: they do not wait.
        client.publish(message("t", "2").qos1());
        client.expect_publish("t", "2");
        a.now(|ways| ways.withholds_messages = false);
        client.expect_nothing();
        // A returned message shows that it brings the topic's messages again.
        client.publish(message("t", "3").qos1());
        client.expect_publish("t", "3");
        assert_eq!((a.owed(), a.report().counters.delivered_here), (0, 2));
    });
}

/// Plays a story in front of a broker of a version that refuses the filter "bad".
fn refusing(version: Version, story: impl Fn(&World, Client, Broker)) {
    in_front_of([], |world, []| {
        let client = world.connect(v5("c"));
        for filter in ["good", "bad"] {
            client.subscribe(filter, ExactlyOnce);
        }
        let ways = Ways { refuses_filter: Some("bad".into()), ..Ways::default() };
        let options = tidegate_engine::BrokerLinkOptions { version: Some(version), ..lasting() };
        let broker = world.broker_with("a", options, ways);
        assert_eq!(broker.report().version, Some(version));
        story(world, client, broker);
    });
}

#[test]
fn a_message_of_refused_filters_only_is_delivered_at_once() {
    for version in [Version::V311, Version::V5] {
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            refusing(version, |world, client, a| {
                for topic in ["bad", "good"] {
                    client.publish(message(topic, "1").qos(qos));
                    client.expect_publish(topic, "1");
                }
                assert_eq!((a.offered(), a.report().counters.delivered_here), (2, 1));
                world.advance(minutes(2));
                client.expect_nothing();
                assert_eq!((a.offered(), a.owed()), (0, 0));
            });
        }
    }
}

#[test]
fn a_refused_filter_is_asked_for_again_each_minute() {
    refusing(Version::V5, |world, client, a| {
        a.asked();
        world.advance(seconds(55));
        assert_eq!(a.asked(), Vec::<String>::new());
        world.advance(seconds(10));
        assert_eq!(a.asked(), ["bad"]);
        a.now(|ways| ways.refuses_filter = None);
        world.advance(minutes(1));
        assert_eq!(a.asked(), ["bad"]);
        client.publish(message("bad", "1").qos1());
        client.expect_publish("bad", "1");
        assert_eq!((a.report().counters.delivered_here, a.report().counters.returned), (0, 1));
        world.advance(minutes(5));
        assert_eq!(a.asked(), Vec::<String>::new());
    });
}

#[test]
fn a_message_prefers_a_broker_that_granted_its_filter() {
    refusing(Version::V5, |world, client, a| {
        let b = world.broker("b");
        for number in 0..20 {
            client.publish(message("bad", number.to_string()).qos1());
        }
        assert_eq!((a.offered(), b.offered()), (0, 20));
        assert_eq!(client.payloads().len(), 20);
        assert_eq!(b.report().counters.delivered_here, 0);
    });
}

#[test]
fn the_only_broker_without_room_is_tried_ever_more_rarely() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            a.now(|ways| ways.answers = ReasonCode::QuotaExceeded);
            for number in 0..10 {
                client.publish_later(message("t", number.to_string()).qos(qos));
            }
            let at_first = a.offered();
            assert!(at_first <= 10, "{at_first}");
            world.advance(seconds(1));
            // After 100, 300 and 700 ms, each time no more than had been under way.
            let soon = a.offered();
            assert!((1..=30).contains(&soon), "{soon}");
            world.advance(seconds(9));
            a.offered();
            world.advance(minutes(1));
            let later = a.offered();
            assert!((12..=130).contains(&later), "each 5 s: {later}");
            a.now(|ways| ways.answers = ReasonCode::Success);
            world.advance(seconds(6));
            let expected: Vec<String> = (0..10).map(|number| number.to_string()).collect();
            assert_eq!((a.payloads(), client.payloads()), (expected.clone(), expected));
            assert_eq!(a.owed(), 0);
            // It has room, and the next refusal counts as the first.
            a.now(|ways| ways.answers = ReasonCode::QuotaExceeded);
            client.publish_later(message("t", "last").qos(qos));
            a.now(|ways| ways.answers = ReasonCode::Success);
            world.advance(200);
            client.expect_publish("t", "last");
        });
    }
}

#[test]
fn a_broker_without_room_gives_none_to_lost_brokers() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("t/#", ExactlyOnce);
        b.die();
        world.advance(seconds(10));
        a.now(|ways| ways.answers = ReasonCode::QuotaExceeded);
        for number in 0..10 {
            client.publish_later(message(&format!("t/{number}"), "x").qos1());
        }
        a.now(|ways| ways.answers = ReasonCode::Success);
        world.advance(seconds(1));
        assert_eq!((client.messages().len(), world.owed()), (10, 0));
    });
}

#[test]
fn a_broker_without_a_suback_is_lost_at_the_deadline() {
    in_front_of([], |world, []| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        let a = world.broker_with("a", lasting(), Ways { withholds_sub_acks: true, ..Ways::default() });
        assert_eq!(a.state(), BrokerLinkState::Subscribing);
        world.advance(seconds(29));
        assert_eq!((a.state(), a.report().counters.lost), (BrokerLinkState::Subscribing, 0));
        world.advance(seconds(2));
        let report = a.report();
        assert_eq!(report.counters.lost, 1, "{report:?}");
        assert!(report.last_error.contains("has not answered SUBSCRIBE"), "{report:?}");
        // Each attempt waits as long for its answer, and some time before it.
        world.advance(minutes(5));
        let accepted = a.with(|broker| broker.accepted);
        assert!((9..=11).contains(&accepted), "{accepted}");
        a.now(|ways| ways.withholds_sub_acks = false);
        world.advance(seconds(40));
        assert_eq!((a.state(), a.report().last_error.as_str()), (BrokerLinkState::Serving, ""));
    });
}

#[test]
fn a_broker_may_answer_filters_slowly_one_by_one() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        for round in 0..4 {
            a.now(|ways| ways.withholds_sub_acks = true);
            client.subscribe_later(&format!("t/{round}"));
            world.advance(seconds(20));
            a.now(|ways| ways.withholds_sub_acks = false);
            client.expect(tidegate_mqtt::PacketType::SubAck);
        }
        assert_eq!((a.state(), a.report().counters.lost), (BrokerLinkState::Serving, 0));
    });
}

#[test]
fn a_late_outcome_of_an_earlier_dial_changes_nothing() {
    in_front_of([], |world, []| {
        let a = world.broker_unknown("a", Ways { reachable: false, ..Ways::default() });
        a.set(lasting());
        world.advance(seconds(3));
        // Attempts were made under lower numbers; the present one has not begun, or has one that was not given yet.
        let before = a.report();
        let present = world.engine(0, |engine, now| {
            let late = DialAttempt(0);
            assert_eq!(engine.fleet().open_broker_link(now, "a", late), None);
            engine.fleet().fail_broker_link(now, "a", late, "too late");
            engine.questions().broker_links().remove(0)
        });
        assert_eq!(present, before, "{before:?}");
        assert_ne!(world.next_deadline(), Millis::NEVER);
        a.come_back();
        assert_eq!((a.state(), a.with(|broker| broker.accepted)), (BrokerLinkState::Serving, 1));
    });
}

/// A PUBLISH of MQTT 5 without a payload.
fn publish_bytes(first_byte: u8, topic: u8, packet_id: u16) -> [u8; 8] {
    let [high, low] = packet_id.to_be_bytes();
    [first_byte, 6, 0, 1, topic, high, low, 0]
}

#[test]
fn answers_of_one_read_keep_the_window_of_a_broker() {
    let narrow = |settings: &mut tidegate_engine::Settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.broker_links.as_mut().expect("a fleet").window = Some(4);
    };
    everywhere_with(narrow, |world| {
        let a = world.broker("a");
        let client = world.connect(v5("c"));
        client.subscribe("t", AtLeastOnce);
        a.now(|ways| {
            ways.withholds_messages = true;
            ways.withholds_acknowledgements = true;
        });
        for number in 0..12 {
            client.publish(message("t", number.to_string()).qos1());
        }
        assert_eq!(a.report().in_flight, 4);
        a.now(|ways| ways.withholds_acknowledgements = false);
        let report = a.report();
        // A message is sent for each that is answered, and the answer is settled behind that.
        assert_eq!((report.in_flight, report.unreturned), (0, 5), "{report:?}");
        a.now(|ways| ways.withholds_messages = false);
        assert_eq!(a.owed(), 0);
        assert_eq!(client.payloads().len(), 12);
    });
}

#[test]
fn the_window_is_the_receive_maximum_of_a_broker() {
    for (receive_maximum, window) in [(Some(3), 3), (Some(600), 600), (Some(5_000), 1_024), (None, 512)] {
        let world = World::with(1, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
        let a = world.broker_with("a", lasting(), Ways { receive_maximum, ..Ways::default() });
        let client = world.connect(v5("c"));
        a.now(|ways| ways.withholds_acknowledgements = true);
        for number in 0..1_100 {
            client.publish(message("t", number.to_string()).qos1());
        }
        assert_eq!(a.report().in_flight, window, "{receive_maximum:?}");
    }
}

#[test]
fn a_message_beyond_the_window_leaves_its_packet_id_free() {
    let world = World::with(2, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
    let a = world.broker("a");
    let clients: Vec<_> = (0..8).map(|number| world.connect(v5(&format!("c{number}")))).collect();
    for client in &clients {
        client.subscribe("t", AtLeastOnce);
    }
    clients[0].subscribe("q", ExactlyOnce);
    // The first acknowledgement waits for the other shard, and the others for their turn behind it.
    world.hold(0, 1);
    let mut bytes = publish_bytes(0x32, b't', 1).to_vec();
    for packet_id in 2..=u16::MAX {
        bytes.extend(publish_bytes(0x32, b'u', packet_id));
    }
    bytes.extend(publish_bytes(0x34, b'q', 1));
    a.say_bytes(&bytes);
    assert_eq!(a.report().counters.lost, 1, "{:?}", a.report());
    world.release(0, 1);
    world.advance(seconds(1));
    assert_eq!(a.state(), BrokerLinkState::Serving);
    clients[0].messages();
    a.say_bytes(&publish_bytes(0x3c, b'q', 1));
    clients[0].expect_publish("q", "");
}
