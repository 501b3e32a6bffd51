//! The parts of a message that are passed on: properties, payload, order, and the rest of its time.

use tidegate_engine::Reason;
use tidegate_mqtt::PayloadFormat;
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use super::LEVELS;
use crate::harness::*;

#[test]
fn properties_are_passed_on_as_they_came_and_in_order() {
    everywhere(|world| {
        let new = world.connect(v5("new"));
        let old = world.connect(v311("old"));
        new.subscribe("t", AtLeastOnce);
        old.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        let sent = message("t", "x")
            .qos1()
            .alias(3)
            .user("b", "1")
            .user("a", "2")
            .user("b", "")
            .utf8()
            .content_type("text/plain")
            .response("answers/1", b"\0\xff");
        publisher.publish(sent);
        let got = new.expect_publish("t", "x");
        let pairs = [("b", "1"), ("a", "2"), ("b", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(got.user_properties, pairs);
        assert_eq!(got.payload_format, Some(PayloadFormat::Utf8));
        assert_eq!(got.content_type.as_deref(), Some("text/plain"));
        assert_eq!(got.response_topic.as_deref(), Some("answers/1"));
        assert_eq!(got.correlation_data.as_deref(), Some(&b"\0\xff"[..]));
        assert_eq!((got.alias, got.expiry), (None, None));
        old.expect_publish("t", "x");
    });
}

#[test]
fn request_and_response_find_each_other() {
    everywhere(|world| {
        let server = world.connect(v5("server"));
        server.subscribe("requests", AtLeastOnce);
        let client = world.connect(v5("client"));
        client.subscribe("answers/client", AtLeastOnce);
        client.publish(message("requests", "2+2").qos1().response("answers/client", b"42"));
        let request = server.expect_publish("requests", "2+2");
        let (topic, correlation) = (request.response_topic.unwrap(), request.correlation_data.unwrap());
        let mut answer = message(&topic, "4").qos1();
        answer.correlation_data = Some(correlation);
        server.publish(answer);
        assert_eq!(client.expect_publish("answers/client", "4").correlation_data.unwrap(), b"42");
    });
}

#[test]
fn a_waiting_message_loses_the_time_that_it_waited() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber").lasting());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("t", "at once").qos1().expiry(100));
        assert_eq!(subscriber.expect_publish("t", "at once").expiry, Some(100));
        subscriber.lose();
        publisher.publish(message("t", "later").qos1().expiry(100));
        publisher.publish(message("t", "too late").qos1().expiry(30));
        publisher.publish(message("t", "for ever").qos1());
        world.advance(seconds(30));
        let subscriber = world.connect(v5("subscriber").lasting());
        assert_eq!(subscriber.expect_publish("t", "later").expiry, Some(70));
        assert_eq!(subscriber.expect_publish("t", "for ever").expiry, None);
        subscriber.expect_nothing();
        assert_eq!(world.dropped(Reason::MessageExpired), 1);
        assert_eq!(world.gauges().queued_messages, 0);
    });
}

#[test]
fn a_message_that_expires_between_shards_is_not_delivered() {
    let world = World::new(2);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    let subscriber = world.connect(v5(&there));
    subscriber.subscribe("t", AtLeastOnce);
    let publisher = world.connect(v5(&here));
    world.hold(0, 1);
    publisher.send_publish(message("t", "late").qos1().expiry(1));
    publisher.send_publish(message("t", "in time").qos1().expiry(3));
    world.run();
    world.skip(seconds(1));
    world.release(0, 1);
    assert_eq!(subscriber.expect_publish("t", "in time").expiry, Some(2));
    subscriber.expect_nothing();
    assert_eq!(world.dropped(Reason::MessageExpired), 1);
    assert_eq!(publisher.answers().len(), 2);
}

#[test]
fn an_expiry_survives_a_step_of_the_wall_clock() {
    everywhere(|world| {
        world.absent_subscriber(v5("subscriber").lasting(), "t", AtLeastOnce);
        world.connect(v5("publisher")).publish(message("t", "x").qos1().expiry(100));
        world.step_wall_clock(-1_000_000_000);
        world.advance(seconds(10));
        world.step_wall_clock(2_000_000_000);
        let subscriber = world.connect(v5("subscriber").lasting());
        assert_eq!(subscriber.expect_publish("t", "x").expiry, Some(90));
    });
}

#[test]
fn large_payloads_arrive_whole_at_every_reader() {
    everywhere(|world| {
        let payload: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let readers: Vec<Client> = (0..4).map(|number| world.connect(v5(&format!("reader {number}")))).collect();
        for (reader, qos) in readers.iter().zip([AtMostOnce, AtLeastOnce, ExactlyOnce, AtLeastOnce]) {
            reader.subscribe("big", qos);
        }
        let publisher = world.connect(v311("publisher"));
        for _ in 0..3 {
            publisher.publish(message("big", &payload).qos2());
            publisher.publish(message("big", "small").qos2());
        }
        for reader in &readers {
            for _ in 0..3 {
                assert!(reader.expect_message().payload == payload);
                reader.expect_publish("big", "small");
            }
        }
    });
}

#[test]
fn messages_of_one_publisher_keep_their_order() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("a/#", ExactlyOnce);
        let publisher = world.connect(v5("publisher"));
        let wanted: Vec<String> = (0..60).map(|number| number.to_string()).collect();
        for (number, text) in wanted.iter().enumerate() {
            let topic = ["a/1", "a/2"][number % 2];
            publisher.send_publish(message(topic, text).qos(LEVELS[number % 3]));
        }
        assert_eq!(subscriber.payloads(), wanted);
    });
}
