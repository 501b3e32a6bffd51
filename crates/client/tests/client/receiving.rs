use std::num::{NonZeroU16, NonZeroU32};

use tidegate_client::{
    Acknowledgement, Disconnected, Event, Options, PacketId, PayloadFormat, ProtocolError, QoS, ReasonCode,
    SentAfterRelease, TopicError, Version,
};

use crate::script::{ACCEPTED, ACCEPTED_V5, RESUMED, RESUMED_V5, Script, options, topic};

fn manual(version: Version) -> Script {
    let own = Options { acknowledgement: Acknowledgement::Manual, ..options(version) };
    Script::accepted(own, crate::script::accepted(version))
}

#[test]
fn qos_0_needs_no_answer() {
    let mut script = Script::connected(Version::V311);
    script.receive(b"\x31\x06\0\x03a/bx");
    let message = script.message();
    assert_eq!(message.topic, topic("a/b"));
    assert_eq!(message.payload, b"x");
    assert!(message.retain);
    assert_eq!((message.packet_id, message.delivery), (None, None));
    script.assert_quiet();
}

#[test]
fn all_properties_are_in_the_event() {
    let mut script = Script::connected(Version::V5);
    script.receive(
        b"\x32\x2c\0\x01t\0\x07\x25\x01\x01\x02\0\0\0\x09\x08\0\x01r\x09\0\x01d\x03\0\x01c\x0b\x05\x0b\x06\
          \x26\0\x01k\0\x01v\x26\0\x01k\0\x01wx",
    );
    let message = script.message();
    let properties = &message.properties;
    assert_eq!(properties.payload_format, Some(PayloadFormat::Utf8));
    assert_eq!(properties.message_expiry, Some(9));
    assert_eq!(properties.response_topic, Some(topic("r")));
    assert_eq!(properties.correlation_data.as_deref(), Some(&b"d"[..]));
    assert_eq!(properties.content_type.as_deref(), Some("c"));
    assert_eq!(message.subscription_identifiers, [5, 6]);
    let pairs = [("k".into(), "v".into()), ("k".into(), "w".into())];
    assert_eq!(properties.user_properties, pairs);
    assert_eq!(message.packet_id, PacketId::new(7));
    assert_eq!(script.sent(), [0x40, 2, 0, 7]);
}

#[test]
fn a_marked_property_comes_apart_from_the_others() {
    let own = Options { mark: Some("k"), ..options(Version::V5) };
    let mut script = Script::accepted(own, crate::script::accepted(Version::V5));
    script.receive(b"\x30\x19\0\x01t\x15\x26\0\x01j\0\x01u\x26\0\x01k\0\x01v\x26\0\x01k\0\x01w");
    let message = script.message();
    assert_eq!(message.marked.as_deref(), Some("v"));
    assert_eq!(message.properties.user_properties, [("j".into(), "u".into())]);
    script.receive(b"\x30\x0b\0\x01t\x07\x26\0\x01j\0\x01u");
    assert_eq!(script.message().marked, None);
}

#[test]
fn a_message_in_used_memory_has_its_own_fields_alone() {
    let own = Options { mark: Some("k"), ..options(Version::V5) };
    let mut script = Script::accepted(own, crate::script::accepted(Version::V5));
    // A payload format, a mark, another pair, and a subscription identifier.
    let full = b"\x3b\x1f\0\x02tt\0\x07\x12\x01\x01\x26\0\x01j\0\x01u\x26\0\x01k\0\x01v\x0b\x05payload";
    script.receive(&[&[full[0], full.len() as u8 - 2], &full[2..]].concat());
    let before = script.message();
    assert_eq!((before.marked.as_deref(), before.subscription_identifiers.as_slice()), (Some("v"), &[5][..]));
    let place = before.payload.as_ptr();
    script.client.reuse(Box::new(before));
    let plain = b"\x30\x06\0\x01s\0pq";
    script.receive(plain);
    let message = script.message();
    assert_eq!(message.payload.as_ptr(), place, "in the same memory");
    let mut fresh = Script::accepted(options(Version::V5), crate::script::accepted(Version::V5));
    fresh.receive(plain);
    assert_eq!(message, fresh.message());
}

#[test]
fn qos_1_is_acknowledged_at_once_or_when_the_owner_says_so() {
    let mut script = Script::connected(Version::V311);
    script.receive(b"\x32\x06\0\x01t\0\x01x");
    script.message();
    assert_eq!(script.sent(), [0x40, 2, 0, 1]);

    let mut script = manual(Version::V311);
    script.receive(b"\x32\x06\0\x01t\0\x01x");
    let delivery = script.delivery();
    script.assert_quiet();
    script.client.acknowledge(script.now, delivery);
    assert_eq!(script.sent(), [0x40, 2, 0, 1]);
    script.client.acknowledge(script.now, delivery);
    script.assert_quiet();
}

#[test]
fn acknowledgements_leave_in_the_order_of_arrival() {
    let mut script = manual(Version::V311);
    script.receive(b"\x32\x06\0\x01t\0\x01a\x34\x06\0\x01t\0\x02b\x32\x06\0\x01t\0\x03c");
    let [first, second, third] = [(); 3].map(|()| script.delivery());
    script.client.acknowledge(script.now, third);
    script.client.acknowledge(script.now, second);
    script.assert_quiet();
    script.client.acknowledge(script.now, first);
    assert_eq!(script.sent(), [0x40, 2, 0, 1, 0x50, 2, 0, 2, 0x40, 2, 0, 3]);
}

#[test]
fn acknowledgements_of_many_messages_leave_together() {
    let mut script = manual(Version::V311);
    script.receive(b"\x32\x06\0\x01t\0\x01a\x34\x06\0\x01t\0\x02b\x32\x06\0\x01t\0\x03c\x32\x06\0\x01t\0\x04d");
    let [first, second, third, fourth] = [(); 4].map(|()| script.delivery());
    script.client.acknowledge_all(script.now, [second, third]);
    script.assert_quiet();
    script.client.acknowledge_all(script.now, [first, first]);
    assert_eq!(script.sent(), [0x40, 2, 0, 1, 0x50, 2, 0, 2, 0x40, 2, 0, 3]);
    script.client.acknowledge_all(script.now, [fourth, third]);
    assert_eq!(script.sent(), [0x40, 2, 0, 4]);
}

#[test]
fn qos_2_is_delivered_once_until_it_is_released() {
    let mut script = Script::connected(Version::V311);
    script.receive(b"\x34\x06\0\x01t\0\x01x");
    script.message();
    assert_eq!(script.sent(), [0x50, 2, 0, 1]);
    // PUBREC was lost, so the server sends the message again.
    script.receive(b"\x3c\x06\0\x01t\0\x01x");
    assert_eq!(script.client.poll_event(), None);
    assert_eq!(script.sent(), [0x50, 2, 0, 1]);
    script.receive(&[0x62, 2, 0, 1]);
    assert_eq!(script.sent(), [0x70, 2, 0, 1]);
    // The identifier is free again: this is another message.
    script.receive(b"\x34\x06\0\x01t\0\x01y");
    assert_eq!(script.message().payload, b"y");
}

#[test]
fn qos_2_is_delivered_once_over_connections() {
    for released in [false, true] {
        let mut script = Script::connected(Version::V311);
        script.receive(b"\x34\x06\0\x01t\0\x01x");
        script.message();
        script.lose_connection();
        script.reconnect(RESUMED);
        if !released {
            script.receive(b"\x3c\x06\0\x01t\0\x01x");
            assert_eq!(script.client.poll_event(), None);
            assert_eq!(script.sent(), [0x50, 2, 0, 1]);
        }
        script.receive(&[0x62, 2, 0, 1]);
        assert_eq!(script.sent(), [0x70, 2, 0, 1]);
    }
}

/// A client of Mosquitto that has got the values 1 and 2 of a topic, and whose connection is lost before Mosquitto has the
/// PUBCOMP of the first one.
fn with_released(sent_after_release: SentAfterRelease) -> Script {
    let mut options = options(Version::V311);
    options.sent_after_release = sent_after_release;
    let mut script = Script::accepted(options, ACCEPTED);
    script.receive(b"\x34\x06\0\x01t\0\x011");
    script.message();
    script.receive(&[0x62, 2, 0, 1]);
    script.receive(b"\x34\x06\0\x01t\0\x022");
    assert_eq!(script.message().payload, b"2");
    assert_eq!(script.sent(), [0x50, 2, 0, 1, 0x70, 2, 0, 1, 0x50, 2, 0, 2]);
    script.lose_connection();
    script.reconnect(RESUMED);
    script
}

#[test]
fn a_released_message_that_is_sent_again_is_known() {
    let mut script = with_released(SentAfterRelease::Known);
    for _ in 0..2 {
        script.receive(b"\x3c\x06\0\x01t\0\x011");
        assert_eq!((script.client.poll_event(), script.sent()), (None, vec![0x50, 2, 0, 1]));
    }
    script.receive(&[0x62, 2, 0, 1]);
    assert_eq!(script.sent(), [0x70, 2, 0, 1]);
    // The next message under this identifier, and one of another content.
    for next in [b"\x34\x06\0\x01t\0\x011", b"\x3c\x06\0\x01t\0\x013"] {
        script.receive(next);
        assert_eq!(script.message().payload, next[7..]);
        script.receive(&[0x62, 2, 0, 1]);
        script.lose_connection();
        script.reconnect(RESUMED);
    }
}

#[test]
fn a_released_identifier_is_free_by_the_standard() {
    let mut script = with_released(SentAfterRelease::New);
    script.receive(b"\x3c\x06\0\x01t\0\x011");
    assert_eq!(script.message().payload, b"1");
}

#[test]
fn a_new_session_delivers_a_known_identifier_again() {
    let mut script = Script::connected(Version::V311);
    script.receive(b"\x34\x06\0\x01t\0\x01x");
    script.message();
    script.lose_connection();
    script.reconnect(ACCEPTED);
    script.receive(b"\x34\x06\0\x01t\0\x01y");
    assert_eq!(script.message().payload, b"y");
}

#[test]
fn a_release_of_nothing_is_answered() {
    let mut script = Script::connected(Version::V5);
    script.receive(&[0x62, 2, 0, 5]);
    assert_eq!(script.sent(), [0x70, 3, 0, 5, 0x92]);
    let mut script = Script::connected(Version::V311);
    script.receive(&[0x62, 2, 0, 5]);
    assert_eq!(script.sent(), [0x70, 2, 0, 5]);
}

#[test]
fn a_held_qos_2_message_is_not_delivered_again() {
    let mut script = manual(Version::V311);
    script.receive(b"\x34\x06\0\x01t\0\x01x");
    let delivery = script.delivery();
    script.lose_connection();
    script.reconnect(RESUMED);
    script.receive(b"\x3c\x06\0\x01t\0\x01x");
    script.assert_quiet();
    script.client.acknowledge(script.now, delivery);
    assert_eq!(script.sent(), [0x50, 2, 0, 1]);
}

#[test]
fn an_acknowledgement_between_connections_is_kept_at_qos_2() {
    let mut script = manual(Version::V311);
    script.receive(b"\x34\x06\0\x01t\0\x01x");
    let delivery = script.delivery();
    script.lose_connection();
    script.client.acknowledge(script.now, delivery);
    script.reconnect(RESUMED);
    script.assert_quiet();
    script.receive(b"\x3c\x06\0\x01t\0\x01x");
    assert_eq!(script.client.poll_event(), None);
    assert_eq!(script.sent(), [0x50, 2, 0, 1]);
}

#[test]
fn an_old_acknowledgement_settles_nothing_at_qos_1() {
    let mut script = manual(Version::V311);
    script.receive(b"\x32\x06\0\x01t\0\x01x");
    let early = script.delivery();
    script.lose_connection();
    script.reconnect(RESUMED);
    script.receive(b"\x3a\x06\0\x01t\0\x01x");
    let message = script.message();
    assert!(message.dup);
    script.client.acknowledge(script.now, early);
    script.assert_quiet();
    script.client.acknowledge(script.now, message.delivery.unwrap());
    assert_eq!(script.sent(), [0x40, 2, 0, 1]);
}

#[test]
fn a_refusal_says_why_and_frees_the_identifier() {
    let mut script = manual(Version::V5);
    script.receive(b"\x34\x07\0\x01t\0\x01\0x\x32\x07\0\x01t\0\x02\0x");
    let [first, second] = [(); 2].map(|()| script.delivery());
    script.client.refuse(script.now, first, ReasonCode::PayloadFormatInvalid);
    script.client.refuse(script.now, second, ReasonCode::Success);
    assert_eq!(script.sent(), [0x50, 3, 0, 1, 0x99, 0x40, 3, 0, 2, 0x80]);
    script.receive(b"\x34\x07\0\x01t\0\x01\0y");
    assert_eq!(script.message().payload, b"y");
}

/// RabbitMQ brings a message to `a*` as one to `a+`. The server would send it again on each connection.
#[test]
fn a_message_to_an_invalid_topic_is_acknowledged_and_dropped() {
    for (version, properties) in [(Version::V311, &b""[..]), (Version::V5, b"\0")] {
        let mut script = manual(version);
        for (first_byte, id) in [(0x30, None), (0x32, Some(1)), (0x34, Some(2))] {
            let mut body = b"\0\x02a+".to_vec();
            body.extend(id.into_iter().flat_map(|id| [0, id]));
            body.extend(properties);
            body.push(b'x');
            script.receive(&[&[first_byte, body.len() as u8], &body[..]].concat());
            let event = script.client.poll_event();
            assert_eq!(event, Some(Event::InvalidTopic(TopicError::Wildcard)));
        }
        assert_eq!(script.sent(), [0x40, 2, 0, 1, 0x50, 2, 0, 2]);
        script.receive(&[&[0x32, 6 + properties.len() as u8, 0, 1, b't', 0, 3], properties, b"y"].concat());
        assert_eq!(script.message().payload, b"y");
    }
}

#[test]
fn messages_beyond_the_receive_maximum_are_taken_up_to_a_bound() {
    let mut own = options(Version::V5);
    own.acknowledgement = Acknowledgement::Manual;
    own.properties.receive_maximum = NonZeroU16::new(1);
    own.max_messages_beyond = 2;
    let mut script = Script::accepted(own.clone(), ACCEPTED_V5);
    script.receive(b"\x32\x07\0\x01t\0\x01\0x");
    let first = script.delivery();
    for id in [2, 3] {
        script.receive(&[0x32, 7, 0, 1, b't', 0, id, 0, b'x']);
        assert_eq!(script.client.poll_event(), Some(Event::BeyondReceiveMaximum));
        script.delivery();
    }
    script.client.acknowledge(script.now, first);
    assert_eq!(script.sent(), [0x40, 2, 0, 1]);
    script.receive(b"\x32\x07\0\x01t\0\x04\0x");
    assert_eq!(script.client.poll_event(), Some(Event::BeyondReceiveMaximum));
    script.delivery();
    script.receive(b"\x32\x07\0\x01t\0\x05\0x");
    assert_eq!(script.sent(), [0xe0, 1, 0x93]);

    own.max_bytes_beyond = 2;
    let mut script = Script::accepted(own, ACCEPTED_V5);
    script.receive(b"\x32\x07\0\x01t\0\x01\0x\x32\x07\0\x01t\0\x02\0x");
    script.delivery();
    assert_eq!(script.client.poll_event(), Some(Event::BeyondReceiveMaximum));
    script.delivery();
    script.receive(b"\x32\x07\0\x01t\0\x03\0x");
    assert_eq!(script.sent(), [0xe0, 1, 0x93]);
}

#[test]
fn the_receive_maximum_is_enforced_without_tolerance() {
    let mut own = options(Version::V5);
    own.max_messages_beyond = 0;
    own.acknowledgement = Acknowledgement::Manual;
    own.properties.receive_maximum = NonZeroU16::new(2);
    let mut script = Script::accepted(own, ACCEPTED_V5);
    script.receive(b"\x32\x07\0\x01t\0\x01\0x\x34\x07\0\x01t\0\x02\0x");
    let [first, second] = [(); 2].map(|()| script.delivery());
    script.client.acknowledge(script.now, first);
    script.client.acknowledge(script.now, second);
    script.sent();
    // The second counts until its PUBCOMP.
    script.receive(b"\x32\x07\0\x01t\0\x03\0x");
    script.delivery();
    script.receive(b"\x32\x07\0\x01t\0\x04\0x");
    assert_eq!(script.sent(), [0xe0, 1, 0x93]);
    let maximum = 2;
    assert_eq!(script.disconnected(), Disconnected::Protocol(ProtocolError::ReceiveMaximumExceeded { maximum }));
    // A new connection starts with the whole of it, whatever the session still owes.
    script.client.handle_closed();
    script.reconnect(RESUMED_V5);
    script.receive(b"\x3a\x07\0\x01t\0\x03\0x\x3a\x07\0\x01t\0\x04\0x");
    script.delivery();
    script.delivery();
    script.receive(&[0x62, 2, 0, 2]);
    assert_eq!(script.sent(), [0x70, 2, 0, 2]);
}

#[test]
fn topic_aliases_are_resolved_on_their_connection() {
    let mut own = options(Version::V5);
    own.properties.topic_alias_maximum = Some(3);
    let mut script = Script::accepted(own, ACCEPTED_V5);
    script.receive(b"\x30\x08\0\x01t\x03\x23\0\x03x\x30\x07\0\0\x03\x23\0\x03y");
    assert_eq!(script.message().topic, topic("t"));
    let second = script.message();
    assert_eq!(second.topic, topic("t"));
    assert_eq!(second.topic_alias, NonZeroU16::new(3));
    script.lose_connection();
    script.reconnect(RESUMED_V5);
    script.receive(b"\x30\x07\0\0\x03\x23\0\x03y");
    assert_eq!(script.sent(), [0xe0, 1, 0x82]);
    let unknown = ProtocolError::UnknownTopicAlias { alias: 3 };
    assert_eq!(script.disconnected(), Disconnected::Protocol(unknown));
}

#[test]
fn an_alias_above_the_maximum_ends_the_connection() {
    let mut script = Script::connected(Version::V5);
    script.receive(b"\x30\x08\0\x01t\x03\x23\0\x01x");
    assert_eq!(script.sent(), [0xe0, 1, 0x94]);
}

#[test]
fn a_packet_above_the_maximum_ends_the_connection() {
    for (version, farewell) in [(Version::V5, &[0xe0, 1, 0x95][..]), (Version::V311, &[])] {
        let mut own = options(version);
        own.properties.maximum_packet_size = NonZeroU32::new(50);
        let mut script = Script::accepted(own, crate::script::accepted(version));
        script.receive(&[0x30, 60, 0, 1]);
        assert_eq!(script.sent(), farewell, "as soon as its length is known");
        assert!(matches!(script.disconnected(), Disconnected::Protocol(ProtocolError::Frame(_))));
    }
}

#[test]
fn acknowledgements_do_not_wait_for_a_full_output() {
    let mut script = Script::connected(Version::V311);
    for _ in 0..3 {
        script.publish("t", &"x".repeat(200_000), QoS::AtMostOnce);
    }
    let before = script.client.output().len();
    script.receive(b"\x32\x06\0\x01t\0\x01x");
    assert_eq!(script.client.output().len(), before + 4);
}
