//! Rates of publishers, and lengths of topics and filters.

use tidegate_engine::{Reason, Settings};
use tidegate_mqtt::QoS::{AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{ReasonCode, SubscriptionOptions};

use crate::harness::*;

#[test]
fn a_client_that_publishes_too_fast_waits_and_loses_nothing() {
    let settings = |settings: &mut Settings| {
        settings.listeners[0].max_message_rate = 10;
        settings.listeners[0].message_burst = 5;
        settings.limits.block_timeout_ms = seconds(3);
    };
    everywhere_with(settings, |world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtMostOnce);
        let (fast, other) = (world.connect(v5("fast")), world.connect(v5("other")));
        for n in 0..100 {
            fast.send_publish(message("t", n.to_string()).qos1());
        }
        world.run();
        assert_eq!(subscriber.payloads().len(), 6, "the burst, and one above the limit");
        fast.ping();
        other.publish(message("t", "other"));
        assert_eq!(subscriber.payloads(), ["other"]);
        world.advance(seconds(1));
        let in_a_second = subscriber.payloads().len();
        assert!((9..=11).contains(&in_a_second), "{in_a_second}");
        world.advance(seconds(5));
        let in_five = subscriber.payloads().len();
        assert!((48..=52).contains(&in_five), "{in_five}: waiting longer than a queue may block is no way around");
        world.advance(seconds(10));
        assert_eq!(subscriber.payloads().len(), 100 - 6 - in_a_second - in_five);
        assert_eq!((world.counters().dropped_total(), fast.answers().len()), (0, 100));
        assert!(world.counters().rate_limited > 0);
    });
}

#[test]
fn bytes_are_limited_as_well_and_a_client_may_leave_meanwhile() {
    let settings = |settings: &mut Settings| settings.listeners[0].max_byte_rate = 1000;
    everywhere_with(settings, |world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtMostOnce);
        let fast = world.connect(v5("fast"));
        for _ in 0..20 {
            fast.send_publish(message("t", vec![b'x'; 489]));
        }
        world.run();
        assert_eq!(subscriber.payloads().len(), 3);
        world.advance(seconds(2));
        assert_eq!(subscriber.payloads().len(), 4);
        fast.lose();
        world.run();
        assert_eq!(subscriber.payloads().len(), 13, "its earlier messages count");
        world.advance(minutes(1));
    });
}

#[test]
fn all_clients_of_a_listener_share_its_rate_and_take_turns() {
    for shards in [1, 3] {
        let world = World::with(shards, |settings| {
            settings.listeners.push(settings.listeners[0].clone());
            settings.listeners[0].max_total_message_rate = 10;
            settings.limits.block_timeout_ms = seconds(3);
        });
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("#", AtMostOnce);
        let pair = ["a", "b"].map(|stem| world.connect(v5(&world.name_on(shards - 1, stem))));
        for n in 0..100 {
            for (client, topic) in pair.iter().zip(["a", "b"]) {
                client.send_publish(message(topic, n.to_string()).qos1());
            }
        }
        world.run();
        assert_eq!(subscriber.payloads().len(), 12, "the burst, and one each that is too much");
        pair[0].ping();
        let free = world.connect(v5("free").through(1));
        for _ in 0..50 {
            free.send_publish(message("free", "x"));
        }
        world.run();
        assert_eq!(subscriber.payloads().len(), 50, "another listener has nothing to do with it");
        world.advance(seconds(10));
        let got = subscriber.messages();
        assert!((96..=104).contains(&got.len()), "{}", got.len());
        let of_a = got.iter().filter(|got| got.topic == "a").count();
        assert!((40..=60).contains(&of_a), "{of_a} of {}", got.len());
        world.advance(seconds(10));
        assert_eq!(subscriber.payloads().len(), 200 - 12 - got.len());
        assert_eq!(world.counters().dropped_total(), 0);
        assert!(pair.iter().all(|client| client.answers().len() == 100));
        let waits_for_all = world.take_log().into_iter().any(|event| {
            matches!(event, tidegate_engine::LogEvent::Delayed { delay: tidegate_engine::Delay::ListenerRate, .. })
        });
        assert!(waits_for_all);
    }
}

#[test]
fn bytes_of_all_clients_are_limited_as_well() {
    let world = World::with(1, |settings| settings.listeners[0].max_total_byte_rate = 1000);
    let subscriber = world.connect(v5("s"));
    subscriber.subscribe("t", AtMostOnce);
    let pair = ["a", "b"].map(|name| world.connect(v5(name)));
    for _ in 0..4 {
        for client in &pair {
            client.send_publish(message("t", vec![b'x'; 489]));
        }
    }
    world.run();
    assert_eq!(subscriber.payloads().len(), 4, "two, and one each that is too much");
    world.advance(seconds(3));
    assert_eq!(subscriber.payloads().len(), 4);
}

#[test]
fn long_topics_and_wide_filters_are_refused() {
    let settings = |settings: &mut Settings| {
        settings.limits.max_topic_bytes = 20;
        settings.limits.max_filter_wildcards = 2;
    };
    everywhere_with(settings, |world| {
        let client = world.connect(v5("s"));
        let with = SubscriptionOptions::new(ExactlyOnce);
        let filters = ["+/+/#", "+/+/+", "12345678901234567890", "123456789012345678901", "$share/g/+/a/+/+"];
        let all: Vec<_> = filters.iter().map(|filter| (*filter, with)).collect();
        let id = client.send_subscribe(&all, None);
        let (granted, wide, long) =
            (ReasonCode::GrantedQos2, ReasonCode::QuotaExceeded, ReasonCode::TopicFilterInvalid);
        assert_eq!(client.expect_sub_ack(id), [granted, wide, granted, long, wide]);
        assert_eq!(world.counters().requests_refused[Reason::TooManyWildcards.number()], 2);
        client.publish(message("12345678901234567890", "x"));
        assert_eq!(client.payloads(), ["x"]);
        client.send_publish(message("123456789012345678901", "x"));
        client.expect_disconnect(ReasonCode::TopicNameInvalid);
        assert_eq!(client.closed(), Some(Reason::TopicTooLong));
    });
}
