//! Brokers that send invalid packets: they are closed or ignored, and nothing breaks.

use std::num::NonZeroU16;

use tidegate_engine::{BrokerLinkState, Reason};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{ConnAck, Packet, PubAck, PubComp, PubRec, PubRel, ReasonCode, SubAck, UnsubAck, Version};

use crate::harness::*;

/// A broker sends packets; `stays` says whether its connection remains.
fn says(packets: &[Packet<'_>], stays: bool) {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        for packet in packets {
            a.say(Version::V5, packet);
        }
        let connections = a.with(|broker| broker.accepted);
        assert_eq!(a.report().counters.lost, u64::from(!stays), "{packets:?}: {:?}", a.report());
        assert!(stays || !a.report().last_error.is_empty());
        world.advance(seconds(2));
        assert_eq!(a.state(), BrokerLinkState::Serving);
        assert_eq!(a.with(|broker| broker.accepted), connections + u32::from(!stays));
        client.publish(message("t", "x").qos2());
        client.expect_publish("t", "x");
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn acknowledgements_of_unsent_messages_change_nothing() {
    let success = ReasonCode::Success;
    for number in [1, 17, u16::MAX - 1, u16::MAX] {
        says(&[Packet::PubAck(PubAck::new(id(number), success))], true);
        says(&[Packet::PubComp(PubComp::new(id(number), success))], true);
        says(&[Packet::PubRec(PubRec::new(id(number), success))], true);
        says(&[Packet::PubRel(PubRel::new(id(number), success))], true);
        says(&[Packet::SubAck(SubAck::new(id(number), &[success]))], true);
        says(&[Packet::UnsubAck(UnsubAck::new(id(number), &[success]))], true);
    }
}

/// As mochi, which answers QoS 1 with the code of a granted subscription.
#[test]
fn a_broker_may_acknowledge_with_a_code_of_a_suback() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", AtLeastOnce);
        a.now(|ways| ways.answers = ReasonCode::GrantedQos1);
        for number in 0..3 {
            assert_eq!(client.publish(message("t", number.to_string()).qos1()), ReasonCode::Success);
        }
        assert_eq!((client.payloads(), world.owed()), (vec!["0".to_owned(), "1".to_owned(), "2".to_owned()], 0));
        assert_eq!((a.report().counters.lost, a.report().counters.acknowledged), (0, 3));
    });
}

#[test]
fn packets_that_only_clients_send_end_the_connection() {
    says(&[Packet::PingReq(tidegate_mqtt::PingReq)], false);
    says(&[Packet::ConnAck(ConnAck::default())], false);
    in_front_of(["a"], |world, [a]| {
        a.say_bytes(&v5("liar").encode());
        assert_eq!(a.report().counters.lost, 1);
        world.advance(seconds(2));
        assert_eq!(a.state(), BrokerLinkState::Serving);
    });
}

#[test]
fn a_topic_alias_ends_the_connection_since_none_was_offered() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        let mut sent = message("t", "x");
        sent.alias = NonZeroU16::new(1);
        a.say_bytes(&sent.encode(Version::V5));
        assert!(a.report().last_error.contains("topic alias"), "{:?}", a.report());
        client.expect_nothing();
        world.advance(seconds(2));
        assert_eq!(a.state(), BrokerLinkState::Serving);
    });
}

#[test]
fn messages_to_its_own_topics_are_acknowledged_and_go_nowhere() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("#", ExactlyOnce);
        client.subscribe("$SYS/broker/lie", ExactlyOnce);
        client.messages_among_others();
        a.say_bytes(&message("$SYS/broker/lie", "x").qos1().id(9).retain().encode(Version::V5));
        client.expect_nothing();
        assert_eq!(a.report().counters.lost, 0);
        world.run();
    });
}

/// RabbitMQ brings a message to `t/*` as one to `t/+`. It would bring it again on each connection.
#[test]
fn a_message_to_no_topic_is_dropped_and_acknowledged() {
    for topic in [&b"t/+"[..], b"t/#", b"t/\xff"] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("#", ExactlyOnce);
            for (first_byte, number) in [(0x32, 9), (0x34, 10)] {
                let mut bytes = vec![first_byte, topic.len() as u8 + 6, 0, topic.len() as u8];
                bytes.extend(topic);
                bytes.extend([0, number, 0, b'x']);
                a.say_bytes(&bytes);
            }
            client.expect_nothing();
            assert_eq!(a.report().counters.lost, 0, "{:?}", a.report());
            assert_eq!(a.with(|broker| broker.acknowledged.clone()), [9, 10]);
            assert_eq!(world.dropped(Reason::InvalidTopicName), 2);
            assert!(a.report().last_error.contains("topic"), "{:?}", a.report());
            client.publish(message("t", "x").qos2());
            client.expect_publish("t", "x");
        });
    }
}

#[test]
fn bytes_that_are_no_mqtt_end_the_connection() {
    for bytes in [
        &[0x00, 0x00][..],
        &[0x30, 0x00],
        &[0x30, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x32, 0x05, 0x00, 0x01, b't', 0x00, 0x00],
        &[0x36, 0x03, 0x00, 0x01, b't'],
        &[0x90, 0x01, 0x00],
        &[0x20, 0x00],
        &[0x3d, 0x02, 0x00, 0x00],
    ] {
        in_front_of(["a"], |world, [a]| {
            a.say_bytes(bytes);
            assert_eq!(a.report().counters.lost, 1, "{bytes:?}: {:?}", a.report());
            assert!(!a.report().last_error.is_empty());
            world.advance(seconds(2));
            assert_eq!(a.state(), BrokerLinkState::Serving);
        });
    }
}

#[test]
fn nonsense_instead_of_a_connack_is_no_reason_to_give_up() {
    in_front_of([], |world, []| {
        let a = world.broker_with("a", fleet::lasting(), Ways { hangs: true, ..Ways::default() });
        a.say_bytes(&[0x90, 0x03, 0x00, 0x01, 0x00]);
        assert_ne!(a.state(), BrokerLinkState::Serving);
        world.advance(millis(300));
        a.say_bytes(&[0x20, 0x03, 0x05, 0x00, 0x00]);
        world.advance(seconds(1));
        a.now(|ways| ways.hangs = false);
        world.advance(seconds(12));
        assert_eq!(a.state(), BrokerLinkState::Serving, "{:?}", a.report());
    });
}

#[test]
fn a_packet_above_the_limit_ends_the_connection_unread() {
    everywhere_with(
        |settings| {
            fleet_settings(settings, tidegate_engine::RoutingPolicy::TopicHash);
            settings.broker_links.as_mut().unwrap().max_packet_size = 10_000;
        },
        |world| {
            let a = world.broker("a");
            let client = world.connect(v5("c"));
            client.subscribe("t", AtLeastOnce);
            a.say_bytes(&message("t", "x".repeat(9_000)).encode(Version::V5));
            assert_eq!(client.messages().len(), 1);
            // Only the head of it, so that nothing waits for the rest.
            a.say_bytes(&message("t", "x".repeat(20_000)).encode(Version::V5)[..20]);
            assert_eq!(a.report().counters.lost, 1, "{:?}", a.report());
            client.expect_nothing();
        },
    );
}

#[test]
fn a_forged_id_is_at_worst_another_publishers_message() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", AtLeastOnce);
        let long = "~".repeat(42);
        for value in ["", "x", &long, &format!("{}r", &long[1..]), &format!("{}-", "0".repeat(41))] {
            a.publish(&message("t", "x").qos1().user("tidegate-id", value));
        }
        let got = client.messages();
        assert!(got.len() >= 3, "{}", got.len());
        // An id of the far future stops nothing that comes later.
        client.publish(message("t", "own").qos2());
        client.expect_publish("t", "own");
        assert_eq!((world.owed(), a.report().counters.lost), (0, 0));
    });
}

#[test]
fn odd_acknowledgements_settle_each_message_once() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        a.now(|ways| ways.hangs = true);
        for number in 0..4 {
            client.publish_later(message("t", number.to_string()).qos(if number < 2 {
                AtLeastOnce
            } else {
                ExactlyOnce
            }));
        }
        let success = ReasonCode::Success;
        for number in [2, 2, 1] {
            a.say(Version::V5, &Packet::PubAck(PubAck::new(id(number), success)));
        }
        // PUBCOMP without PUBREC, PUBACK for a QoS 2 message, which a broker without QoS 2 may send, and PUBREC twice.
        a.say(Version::V5, &Packet::PubComp(PubComp::new(id(3), success)));
        a.say(Version::V5, &Packet::PubAck(PubAck::new(id(3), success)));
        for _ in 0..2 {
            a.say(Version::V5, &Packet::PubRec(PubRec::new(id(4), success)));
        }
        let report = a.report();
        assert_eq!((report.in_flight, report.unreturned, report.counters.lost), (1, 3, 0), "{report:?}");
        a.die_and_forget();
        a.now(|ways| ways.hangs = false);
        a.come_back();
        assert_eq!((client.payloads().len(), world.owed()), (4, 0));
    });
}

#[test]
fn messages_beyond_the_receive_maximum_are_taken_and_counted() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        for number in 1..=1100 {
            a.say_bytes(&message("t", number.to_string()).qos2().id(number).encode(Version::V5));
        }
        assert_eq!(client.drain().len(), 1100);
        let counters = a.report().counters;
        assert_eq!((counters.received, counters.beyond_window, counters.lost), (1100, 1100 - 1024, 0));
        for number in 1..=1100 {
            a.say(Version::V5, &Packet::PubRel(PubRel::new(id(number), ReasonCode::Success)));
        }
        a.say_bytes(&message("t", "last").qos2().id(1).encode(Version::V5));
        assert_eq!(client.drain(), ["last"]);
        assert_eq!(a.report().counters.beyond_window, 1100 - 1024);
    });
}
