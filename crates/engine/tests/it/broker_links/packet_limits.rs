//! Messages that are longer than a broker takes.

use tidegate_engine::{BrokerLinkOptions, BrokerLinkSettings, BrokerLinkState, Reason, RoutingPolicy, Settings};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode, Version};

use crate::harness::fleet::lasting;
use crate::harness::*;

fn at_most(bytes: u32) -> Ways {
    Ways { max_packet: Some(bytes), ..Ways::default() }
}

fn large(topic: &str) -> Message {
    message(topic, "x".repeat(1_000)).qos1()
}

#[test]
fn a_message_too_large_for_one_broker_goes_to_another() {
    for policy in [RoutingPolicy::TopicHash, RoutingPolicy::RoundRobin, RoutingPolicy::LeastLoaded] {
        for shards in [1, 3] {
            let world = World::with(shards, |settings| fleet_settings(settings, policy));
            let small = world.broker_with("small", lasting(), at_most(400));
            let other = world.broker("other");
            let client = world.connect(v5("c"));
            client.subscribe("#", ExactlyOnce);
            for number in 0..20 {
                let retained = Message { retain: number % 3 == 0, ..large(&format!("t/{number}")) };
                let qos = if number % 2 == 0 { AtLeastOnce } else { ExactlyOnce };
                assert_eq!(client.publish(retained.qos(qos)), ReasonCode::Success);
            }
            assert_eq!((client.messages().len(), world.owed()), (20, 0), "{policy:?}");
            assert_eq!((small.payloads().len(), other.payloads().len()), (0, 20), "{policy:?}");
        }
    }
}

#[test]
fn a_message_too_large_for_all_brokers_is_refused() {
    in_front_of([], |world, []| {
        let a = world.broker_with("a", lasting(), at_most(400));
        world.broker_with("b", lasting(), at_most(300));
        let client = world.connect(v5("c"));
        client.subscribe("#", ExactlyOnce);
        assert_eq!(client.publish(large("t")), ReasonCode::ImplementationSpecificError);
        assert_eq!(client.publish(large("t").qos2()), ReasonCode::ImplementationSpecificError);
        assert_eq!(world.dropped(Reason::FleetPacketLimit), 2);
        client.publish(message("t", "small").qos2());
        assert_eq!(client.payloads(), ["small"]);
        // A broker that is added may take more.
        let c = world.broker("c");
        assert_eq!(client.publish(large("t")), ReasonCode::Success);
        assert_eq!(c.payloads(), ["x".repeat(1_000)]);
        assert!(a.payloads().iter().all(|payload| payload == "small"));
    });
}

/// No message is acknowledged and then dropped because no broker had told its limit.
#[test]
fn a_message_waits_until_a_limit_of_a_broker_is_known() {
    for version in [v5 as fn(&str) -> Connecting, v311] {
        in_front_of([], |world, []| {
            let broker = world.broker_unknown("a", at_most(400));
            broker.die();
            broker.set(lasting());
            let client = world.connect(version("c"));
            let first = client.send_publish(large("t")).unwrap();
            let second = client.send_publish(message("t", "small").qos1()).unwrap();
            world.run();
            assert_eq!((client.answers(), world.owed()), (Vec::new(), 0));
            broker.come_back();
            world.advance(seconds(6));
            let refusal = if client.is_v5() { ReasonCode::ImplementationSpecificError } else { ReasonCode::Success };
            assert_eq!(client.expect_answer(PacketType::PubAck, first), refusal);
            assert_eq!(client.expect_answer(PacketType::PubAck, second), ReasonCode::Success);
            assert_eq!((broker.payloads(), world.dropped(Reason::FleetPacketLimit)), (vec!["small".to_owned()], 1));
        });
    }
}

#[test]
fn a_broker_that_returns_with_a_smaller_limit_loses_none() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let client = world.connect(v5("c"));
        client.subscribe("#", ExactlyOnce);
        for broker in [&a, &b] {
            broker.now(|ways| ways.withholds_acknowledgements = true);
        }
        for number in 0..20 {
            let qos = if number % 2 == 0 { AtLeastOnce } else { ExactlyOnce };
            client.publish(large(&format!("t/{number}")).qos(qos));
        }
        a.now(|ways| ways.max_packet = Some(400));
        a.die_and_forget();
        a.come_back();
        for broker in [&a, &b] {
            broker.now(|ways| ways.withholds_acknowledgements = false);
        }
        world.advance(seconds(30));
        let mut topics: Vec<String> = client.messages().iter().map(|message| message.topic.clone()).collect();
        topics.sort();
        topics.dedup();
        assert_eq!((topics.len(), world.owed()), (20, 0));
        assert_eq!(world.dropped(Reason::FleetPacketLimit), 0);
    });
}

/// A limit is learned while most messages in flight have not been sent again.
#[test]
fn messages_not_sent_again_yet_leave_a_broker_in_order() {
    in_front_of([], |world, []| {
        let a = world.broker_with("a", lasting(), Ways::default());
        let client = world.connect(v5("c"));
        client.subscribe("#", ExactlyOnce);
        a.now(|ways| ways.hangs = true);
        for number in 0..20 {
            let qos = if number % 2 == 0 { AtLeastOnce } else { ExactlyOnce };
            client.publish_later(large(&format!("t/{number}")).qos(qos));
            client.publish_later(message(&format!("small/{number}"), "x").qos(qos));
        }
        a.die();
        a.now(|ways| {
            (ways.receive_maximum, ways.hidden_limit) = (Some(2), Some(400));
            (ways.answers_too_large, ways.hangs) = (true, false);
        });
        a.come_back();
        world.advance(seconds(30));
        let small = |message: &Delivered| message.topic.starts_with("small/");
        assert_eq!(client.messages().iter().filter(|message| small(message)).count(), 20, "{:?}", a.report());
        world.connect(v5("p")).publish(message("later", "x").qos1());
        assert_eq!(
            (client.payloads(), a.report().in_flight),
            (vec!["x".to_owned()], 0),
            "the broker gets later messages"
        );
    });
}

#[test]
fn a_limit_that_a_broker_only_shows_is_learned() {
    for answers_too_large in [false, true] {
        in_front_of(["other"], |world, [other]| {
            let ways = Ways {
                hidden_limit: Some(400),
                answers_too_large,
                closes_with: Some(ReasonCode::PacketTooLarge),
                ..Ways::default()
            };
            let small = world.broker_with("small", lasting(), ways);
            let client = world.connect(v5("c"));
            client.subscribe("#", ExactlyOnce);
            for number in 0..20 {
                let qos = if number % 2 == 0 { AtLeastOnce } else { ExactlyOnce };
                client.publish_later(large(&format!("t/{number}")).qos(qos));
                client.publish_later(message(&format!("small/{number}"), "x").qos(qos));
            }
            // No back-off passes, and nothing is dropped.
            world.advance(50);
            assert_eq!((client.messages().len(), world.owed()), (40, 0), "{:?}", small.report());
            assert_eq!(small.state(), BrokerLinkState::Serving);
            assert!(small.report().counters.lost <= 1 && !small.payloads().is_empty());
            assert!(other.payloads().len() >= 20);
        });
    }
}

#[test]
fn a_long_topic_goes_to_a_broker_that_limits_payloads() {
    in_front_of([], |world, []| {
        let ways = Ways { hidden_payload_limit: Some(400), answers_too_large: true, ..Ways::default() };
        let only = world.broker_with("only", lasting(), ways);
        let client = world.connect(v5("c"));
        client.subscribe("#", ExactlyOnce);
        client.publish(large("t"));
        world.advance(50);
        assert_eq!(client.publish(large("t")), ReasonCode::ImplementationSpecificError, "its limit is known");
        let long_topic = format!("t/{}", "x".repeat(2_000));
        assert_eq!(client.publish(message(&long_topic, "y").qos1()), ReasonCode::Success);
        assert_eq!((client.payloads(), only.payloads()), (vec!["y".to_owned()], vec!["y".to_owned()]));
    });
}

#[test]
fn a_large_payload_goes_to_a_broker_that_limits_packets() {
    in_front_of([], |world, []| {
        let ways = Ways { hidden_limit: Some(1_500), answers_too_large: true, ..Ways::default() };
        let only = world.broker_with("only", lasting(), ways);
        let client = world.connect(v5("c"));
        client.subscribe("#", ExactlyOnce);
        client.publish(message(&format!("t/{}", "x".repeat(2_000)), "y").qos1());
        world.advance(50);
        assert_eq!(client.publish(large("t")), ReasonCode::Success);
        assert_eq!(only.payloads(), ["x".repeat(1_000)]);
    });
}

/// The engine with an orchestrator's settings.
fn with_settings(change: impl Fn(&mut BrokerLinkSettings) + Copy, story: impl Fn(&World)) {
    let settings = |settings: &mut Settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.broker_links.iter_mut().for_each(change);
    };
    everywhere_with(settings, |world| story(world));
}

#[test]
fn a_message_above_an_unannounced_limit_is_refused() {
    with_settings(
        |settings| settings.unannounced_packet_limit = 400,
        |world| {
            let options = BrokerLinkOptions { version: Some(Version::V311), ..lasting() };
            let ways = Ways { hidden_limit: Some(400), ..Ways::default() };
            let old = world.broker_with("old", options, ways);
            let client = world.connect(v5("c"));
            assert_eq!(client.publish(large("t")), ReasonCode::ImplementationSpecificError);
            assert_eq!(client.publish(message("t", "small").qos2()), ReasonCode::Success);
            assert_eq!((old.payloads(), old.report().counters.lost), (vec!["small".to_owned()], 0));
            assert_eq!(world.counters().given_up, 0, "it was not accepted");
            // One that announces a limit has its own.
            let large_one = world.broker_with("new", lasting(), at_most(2_000));
            assert_eq!(client.publish(large("t")), ReasonCode::Success);
            assert_eq!(large_one.payloads(), ["x".repeat(1_000)]);
        },
    );
}

#[test]
fn a_message_that_no_broker_takes_is_counted() {
    in_front_of([], |world, []| {
        let ways = Ways { hidden_limit: Some(400), answers_too_large: true, ..Ways::default() };
        world.broker_with("only", lasting(), ways);
        let client = world.connect(v5("c"));
        client.publish(large("t"));
        world.advance(50);
        assert_eq!((world.counters().given_up, world.dropped(Reason::FleetPacketLimit)), (1, 1));
        client.publish(large("t"));
        assert_eq!((world.counters().given_up, world.dropped(Reason::FleetPacketLimit)), (1, 2));
    });
}
