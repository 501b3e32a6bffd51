//! PUBLISH packets as a whole.

use std::num::NonZeroU16;

use tidegate_mqtt::{
    DecodeError, EncodeError, Packet, PacketType, PayloadFormat, Publish, PublishProperties, QoS, RawPublish,
    StringError, SubscriptionIdentifiers, TopicError, UserProperties, Version,
};

use crate::check::{ALL, BEFORE_5, decode, encodes, id, name, packet, refuses, rejects};
use crate::wire::bytes;

fn publish(qos: QoS) -> Publish<'static> {
    Publish {
        dup: false,
        qos,
        retain: false,
        topic: Some(name("a/b")),
        packet_id: (qos > QoS::AtMostOnce).then(|| id(0x0102)),
        properties: PublishProperties::default(),
        payload: b"hi",
    }
}

#[test]
fn every_qos_in_every_version() {
    for version in BEFORE_5 {
        let at = |qos| Packet::Publish(publish(qos));
        packet("QoS 0", version, "30 07 <a/b> 'hi'", at(QoS::AtMostOnce));
        packet("QoS 1", version, "32 09 <a/b> 0102 'hi'", at(QoS::AtLeastOnce));
        packet("QoS 2", version, "34 09 <a/b> 0102 'hi'", at(QoS::ExactlyOnce));
    }
    let at = |qos| Packet::Publish(publish(qos));
    packet("QoS 0", Version::V5, "30 08 <a/b> 00 'hi'", at(QoS::AtMostOnce));
    packet("QoS 1", Version::V5, "32 0a <a/b> 0102 00 'hi'", at(QoS::AtLeastOnce));
    packet("QoS 2", Version::V5, "34 0a <a/b> 0102 00 'hi'", at(QoS::ExactlyOnce));
}

#[test]
fn dup_and_retain() {
    let retained = Publish { retain: true, ..publish(QoS::AtMostOnce) };
    packet("retain", Version::V311, "31 07 <a/b> 'hi'", Packet::Publish(retained));
    let again = Publish { dup: true, ..publish(QoS::AtLeastOnce) };
    packet("dup", Version::V311, "3a 09 <a/b> 0102 'hi'", Packet::Publish(again));
    let both = Publish { dup: true, retain: true, ..publish(QoS::ExactlyOnce) };
    packet("dup and retain", Version::V5, "3d 0a <a/b> 0102 00 'hi'", Packet::Publish(both));
}

/// [MQTT-3.3.1-2], [MQTT-4.3.1-1].
#[test]
fn dup_is_never_set_with_qos_0() {
    let again = Publish { dup: true, ..publish(QoS::AtMostOnce) };
    for version in ALL {
        let wire = if version.is_v5() { "30 08 <a/b> 00 'hi'" } else { "30 07 <a/b> 'hi'" };
        encodes("dup", version, Packet::Publish(again), wire);
        let wire = wire.replacen("30", "38", 1);
        rejects("dup", version, &wire, DecodeError::DupWithQos0);
    }
}

#[test]
fn the_payload_may_be_empty() {
    let empty = Publish { payload: b"", ..publish(QoS::AtMostOnce) };
    packet("empty", Version::V311, "30 05 <a/b>", Packet::Publish(empty));
    packet("empty", Version::V5, "30 06 <a/b> 00", Packet::Publish(empty));
}

/// [MQTT-2.2.1-2], [MQTT-2.3.1-5] of 3.1.1.
#[test]
fn qos_0_has_no_packet_identifier() {
    let with = Publish { packet_id: Some(id(1)), ..publish(QoS::AtMostOnce) };
    encodes("identifier", Version::V311, Packet::Publish(with), "30 07 <a/b> 'hi'");
}

/// [MQTT-2.2.1-3], [MQTT-2.3.1-1] of 3.1.1.
#[test]
fn qos_1_and_2_need_a_packet_identifier() {
    for version in ALL {
        let zero = DecodeError::ZeroPacketId { packet: PacketType::Publish };
        rejects("zero", version, "32 07 <a/b> 0000", zero);
        rejects("zero", version, "34 07 <a/b> 0000", zero);
        let field = "packet identifier";
        rejects("missing", version, "32 05 <a/b>", DecodeError::Truncated { field });
        rejects("half", version, "32 06 <a/b> 01", DecodeError::Truncated { field });
        let none = Publish { packet_id: None, ..publish(QoS::AtLeastOnce) };
        let error = EncodeError::MissingField { packet: PacketType::Publish, field };
        refuses("missing", version, Packet::Publish(none), error);
    }
}

/// [MQTT-3.3.1-4].
#[test]
fn qos_3_is_malformed() {
    for version in ALL {
        let error = DecodeError::InvalidQos { field: "QoS of PUBLISH" };
        rejects("QoS 3", version, "36 07 <a/b> 0001", error);
        rejects("QoS 3", version, "3e 07 <a/b> 0001", error);
    }
}

/// [MQTT-3.3.2-1], [MQTT-3.3.2-2].
#[test]
fn the_topic_is_a_topic_name() {
    let field = "topic name";
    let string = |error| DecodeError::InvalidString { field, error };
    let wildcard = DecodeError::InvalidTopicName { field, error: TopicError::Wildcard };
    let cases = [
        ("<+>", wildcard),
        ("<#>", wildcard),
        ("0001 ff", string(StringError::IllFormed)),
        ("0001 00", string(StringError::Null)),
    ];
    for (topic, error) in cases {
        for version in BEFORE_5 {
            rejects(topic, version, &format!("30 03 {topic}"), error);
        }
        rejects(topic, Version::V5, &format!("30 04 {topic} 00"), error);
    }
    for version in ALL {
        let error = DecodeError::Truncated { field };
        rejects("empty body", version, "30 00", error);
        rejects("half a length", version, "30 01 00", error);
        rejects("cut short", version, "30 03 0002 'a'", error);
    }
}

#[test]
fn without_a_topic_name_there_is_an_alias() {
    let aliased = Publish {
        topic: None,
        properties: PublishProperties { topic_alias: NonZeroU16::new(7), ..PublishProperties::default() },
        ..publish(QoS::AtMostOnce)
    };
    packet("alias alone", Version::V5, "30 08 <> 03 23 0007 'hi'", Packet::Publish(aliased));
    let both = Publish { topic: Some(name("a/b")), ..aliased };
    packet("alias and topic", Version::V5, "30 0b <a/b> 03 23 0007 'hi'", Packet::Publish(both));
    for version in BEFORE_5 {
        rejects("empty", version, "30 02 <>", DecodeError::MissingTopic);
        let error = EncodeError::MissingField { packet: PacketType::Publish, field: "topic name" };
        refuses("alias", version, Packet::Publish(aliased), error);
    }
    rejects("empty", Version::V5, "30 03 <> 00", DecodeError::MissingTopic);
}

#[test]
fn all_properties() {
    let properties = PublishProperties {
        payload_format: Some(PayloadFormat::Utf8),
        message_expiry: Some(0x0102_0304),
        topic_alias: NonZeroU16::new(0x0506),
        response_topic: Some(name("r/s")),
        correlation_data: Some(b"\x00\xff"),
        content_type: Some("ct"),
        subscription_identifiers: SubscriptionIdentifiers::new(&[1, 128, 268_435_455]),
        user_properties: UserProperties::new(&[("b", "1"), ("a", "2"), ("b", "1")]),
        raw: &[],
    };
    let all = Publish { properties, ..publish(QoS::AtLeastOnce) };
    let wire = "32 43 <a/b> 0102 39 | 01 01 | 02 01020304 | 23 0506 | 08 <r/s> | 09 0002 00ff | 03 <ct>
        | 0b 01 | 0b 8001 | 0b ffffff7f | 26 <b> <1> | 26 <a> <2> | 26 <b> <1> | 'hi'";
    packet("all properties", Version::V5, wire, Packet::Publish(all));
    for version in BEFORE_5 {
        encodes("properties", version, Packet::Publish(all), "32 09 <a/b> 0102 'hi'");
    }
}

#[test]
fn before_mqtt_5_property_bytes_are_payload() {
    let payload = Publish { payload: b"\x03\x23\x00\x07", ..publish(QoS::AtMostOnce) };
    for version in BEFORE_5 {
        packet("payload", version, "30 09 <a/b> 03 23 0007", Packet::Publish(payload));
    }
}

#[test]
fn a_payload_over_each_edge_of_the_remaining_length() {
    for len in [122, 123, 16_378, 16_379, 2_097_146, 2_097_147] {
        let payload = vec![0xA5; len];
        let publish = Publish { payload: &payload, ..publish(QoS::AtMostOnce) };
        let mut wire = Vec::new();
        publish.encode(Version::V311, &mut wire).unwrap();
        assert_eq!(decode(Version::V311, &wire), Ok(Packet::Publish(publish)), "{len}");
    }
}

/// The hot path splits and does not look.
#[test]
fn raw_splits_without_checking() {
    let body = bytes("<+/#> 0102 02 ffff 'payload'");
    let raw = RawPublish::decode(Version::V5, 0x3B, &body).unwrap();
    assert_eq!(
        raw,
        RawPublish {
            dup: true,
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: b"+/#",
            packet_id: Some(id(0x0102)),
            properties: b"\xff\xff",
            payload: b"payload",
        }
    );
    let body = bytes("0001 ff 00");
    let raw = RawPublish::decode(Version::V311, 0x30, &body).unwrap();
    assert_eq!((raw.topic, raw.payload), (&b"\xff"[..], &b"\x00"[..]));
    assert_eq!((raw.packet_id, raw.properties), (None, &b""[..]));
}

#[test]
fn raw_checks_the_documented_rules() {
    let decode = |first, body: &str| {
        let body = bytes(body);
        RawPublish::decode(Version::V5, first, &body).map(|_| ())
    };
    let truncated = |field| Err(DecodeError::Truncated { field });
    assert_eq!(decode(0x30, "0002 'a'"), truncated("topic name"));
    assert_eq!(decode(0x32, "<a>"), truncated("packet identifier"));
    assert_eq!(decode(0x30, "<a>"), truncated("property length"));
    assert_eq!(decode(0x30, "<a> 02 00"), truncated("properties"));
    assert_eq!(decode(0x38, "<a> 00"), Err(DecodeError::DupWithQos0));
    assert_eq!(decode(0x30, "<> 00"), Ok(()));
}

#[test]
fn decoding_borrows() {
    let wire = bytes("32 0e <a/b> 0102 04 03 0001 'x' 'hi'");
    let range = wire.as_ptr_range();
    let Ok(Packet::Publish(publish)) = decode(Version::V5, &wire) else {
        panic!("a PUBLISH packet");
    };
    assert!(range.contains(&publish.payload.as_ptr()));
    assert!(range.contains(&publish.topic.unwrap().as_str().as_ptr()));
    assert!(range.contains(&publish.properties.content_type.unwrap().as_ptr()));
    assert!(range.contains(&publish.properties.raw.as_ptr()));
}
