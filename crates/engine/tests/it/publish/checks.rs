//! Reasons to refuse a PUBLISH.

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::{QoS, ReasonCode, Version};

use crate::harness::*;

#[test]
fn utf_8_payloads_are_checked_if_the_listener_asks() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.publish(message("t", b"\xff").utf8().qos1());
        client.expect_open();
    });
    everywhere_with(
        |settings| settings.listeners[0].check_payload_format = true,
        |world| {
            let client = world.connect(v5("a"));
            client.publish(message("t", "text").utf8().qos1());
            client.publish(message("t", b"\xff").qos1());
            client.send_publish(message("t", b"\xff").utf8().qos1());
            client.expect_disconnect(ReasonCode::PayloadFormatInvalid);
        },
    );
}

#[test]
fn a_topic_with_wildcards_ends_the_connection() {
    let publish = |topic: &str, version: Version| {
        let mut body = vec![0, topic.len() as u8];
        body.extend(topic.as_bytes());
        if version.is_v5() {
            body.push(0);
        }
        let mut bytes = vec![0x30, body.len() as u8];
        bytes.extend(body);
        bytes
    };
    everywhere(|world| {
        for topic in ["a/+", "#", "a\0b"] {
            let client = world.connect(v5("a"));
            client.send_bytes(&publish(topic, Version::V5));
            client.expect_disconnect(ReasonCode::TopicNameInvalid);
            let old = world.connect(v311("b"));
            old.send_bytes(&publish(topic, Version::V311));
            assert_eq!(old.expect_closed(), Reason::InvalidTopicName);
        }
        let client = world.connect(v5("a"));
        client.send_bytes(&publish("", Version::V5));
        client.expect_disconnect(ReasonCode::ProtocolError);
    });
}

#[test]
fn a_topic_with_too_many_levels_ends_the_connection() {
    everywhere_with(
        |settings| settings.limits.max_topic_levels = 3,
        |world| {
            let client = world.connect(v5("a"));
            client.publish(message("1/2/3", "x").qos1());
            client.send_publish(message("1/2/3/4", "x").qos1());
            client.expect_disconnect(ReasonCode::TopicNameInvalid);
            let deep = v5("b").will(message("1/2/3/4", "x"));
            world.try_connect(deep).expect_refused(ReasonCode::TopicNameInvalid);
        },
    );
}

#[test]
fn a_quality_above_the_maximum_ends_the_connection() {
    everywhere_with(
        |settings| settings.listeners[0].maximum_qos = AtLeastOnce,
        |world| {
            let client = world.connect(v5("a"));
            client.publish(message("t", "x").qos1());
            client.send_publish(message("t", "x").qos2());
            client.expect_disconnect(ReasonCode::QosNotSupported);
            let will = v5("a").will(message("t", "x").qos2());
            world.try_connect(will).expect_refused(ReasonCode::QosNotSupported);
        },
    );
}

#[test]
fn retain_ends_the_connection_where_it_is_switched_off() {
    everywhere_with(
        |settings| settings.retained.available = false,
        |world| {
            let client = world.connect(v5("a"));
            client.send_publish(message("t", "x").retain());
            client.expect_disconnect(ReasonCode::RetainNotSupported);
        },
    );
}

#[test]
fn a_client_may_not_send_subscription_identifiers() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.send_bytes(&[0x30, 6, 0, 1, b't', 2, 0x0B, 1]);
        client.expect_disconnect(ReasonCode::ProtocolError);
    });
}

#[test]
fn topics_of_the_broker_are_not_for_clients_to_write() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("$SYS/broker/fake", AtLeastOnce);
        let client = world.connect(v5("a"));
        assert_eq!(client.publish(message("$SYS/broker/fake", "x").qos1()), ReasonCode::NotAuthorized);
        assert_eq!(client.publish(message("$SYS/broker/fake", "x").qos2()), ReasonCode::NotAuthorized);
        client.publish(message("$SYS/broker/fake", "x").retain());
        watcher.expect_nothing();
        assert_eq!(world.dropped(Reason::NotAuthorized), 3);
        client.expect_open();
    });
}

#[test]
fn a_will_may_not_be_left_below_the_brokers_own_topics() {
    everywhere(|world| {
        let will = v5("a").will(message("$SYS/broker/fake", "x"));
        world.try_connect(will).expect_refused(ReasonCode::NotAuthorized);
    });
}

#[test]
fn a_payload_beyond_the_limit_is_acknowledged_and_dropped() {
    everywhere_with(
        |settings| settings.limits.max_payload = 4,
        |world| {
            let subscriber = world.connect(v5("s"));
            subscriber.subscribe("t", QoS::ExactlyOnce);
            for (connecting, code) in
                [(v5("new"), ReasonCode::ImplementationSpecificError), (v311("old"), ReasonCode::Success)]
            {
                let publisher = world.connect(connecting);
                for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
                    let expected = if qos == QoS::AtMostOnce { ReasonCode::Success } else { code };
                    assert_eq!(publisher.publish(message("t", "12345").qos(qos).retain()), expected, "{qos:?}");
                    publisher.publish(message("t", "1234").qos(qos));
                    subscriber.expect_publish("t", "1234");
                }
            }
            subscriber.expect_nothing();
            assert_eq!(world.counters().dropped[Reason::PayloadTooLong.number()], 6);
            assert_eq!(world.gauges().retained_messages, 0);
        },
    );
}
