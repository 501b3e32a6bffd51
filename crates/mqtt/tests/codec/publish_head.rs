//! Everything of a PUBLISH packet but the payload.

use std::num::NonZeroU16;

use proptest::prelude::*;
use tidegate_mqtt::{
    MAX_PACKET_SIZE, MAX_SUBSCRIPTION_IDENTIFIER, Packet, Publish, PublishHead, PublishProperties, QoS,
    SubscriptionIdentifiers, Version,
};

use crate::check::{ALL, decode, id, name};
use crate::generate;
use crate::wire::{bytes, hex};

fn head(version: Version, qos: QoS) -> PublishHead<'static> {
    PublishHead {
        version,
        dup: false,
        qos,
        retain: false,
        topic: "a/b",
        packet_id: 0x0102,
        forwarded_properties: &[],
        message_expiry: None,
        topic_alias: None,
        subscription_identifiers: &[],
    }
}

/// The head encodes to `wire` before a payload of `payload_len` bytes, with the identifier at `offset`.
fn check(case: &str, head: &PublishHead<'_>, payload_len: usize, wire: &str, offset: Option<usize>) {
    let mut out = b"before".to_vec();
    assert_eq!(head.encode(payload_len, &mut out), offset, "{case}");
    let encoded = out.strip_prefix(b"before").unwrap();
    assert_eq!(hex(encoded), hex(&bytes(wire)), "{case}");
    assert_eq!(head.encoded_len(payload_len), encoded.len() + payload_len, "{case}");
    if let Some(offset) = offset {
        assert_eq!(encoded[offset..offset + 2], [1, 2], "{case}");
    }
}

#[test]
fn every_qos_in_every_version() {
    for version in [Version::V31, Version::V311] {
        let head = |qos| head(version, qos);
        check("QoS 0", &head(QoS::AtMostOnce), 2, "30 07 <a/b>", None);
        check("QoS 1", &head(QoS::AtLeastOnce), 2, "32 09 <a/b> 0102", Some(7));
        check("QoS 2", &head(QoS::ExactlyOnce), 2, "34 09 <a/b> 0102", Some(7));
    }
    let head = |qos| head(Version::V5, qos);
    check("QoS 0", &head(QoS::AtMostOnce), 2, "30 08 <a/b> 00", None);
    check("QoS 1", &head(QoS::AtLeastOnce), 2, "32 0a <a/b> 0102 00", Some(7));
    check("QoS 2", &head(QoS::ExactlyOnce), 2, "34 0a <a/b> 0102 00", Some(7));
}

#[test]
fn the_offset_moves_with_the_remaining_length() {
    let head = head(Version::V311, QoS::AtLeastOnce);
    let cases = [
        (120, "32 7f", 7),
        (121, "32 80 01", 8),
        (16_376, "32 ff 7f", 8),
        (16_377, "32 80 80 01", 9),
        (2_097_144, "32 ff ff 7f", 9),
        (2_097_145, "32 80 80 80 01", 10),
    ];
    for (payload_len, header, offset) in cases {
        check("long", &head, payload_len, &format!("{header} <a/b> 0102"), Some(offset));
    }
}

/// [MQTT-3.3.1-2].
#[test]
fn flags() {
    for version in ALL {
        let dup = PublishHead { dup: true, retain: true, ..head(version, QoS::AtMostOnce) };
        let mut out = Vec::new();
        dup.encode(0, &mut out);
        assert_eq!(out[0], 0x31, "no DUP with QoS 0");
        let dup = PublishHead { qos: QoS::ExactlyOnce, ..dup };
        let mut out = Vec::new();
        dup.encode(0, &mut out);
        assert_eq!(out[0], 0x3D);
    }
}

#[test]
fn own_properties_precede_forwarded_ones() {
    let forwarded = bytes("26 <k> <v> | 01 01");
    let head = PublishHead {
        forwarded_properties: &forwarded,
        message_expiry: Some(9),
        topic_alias: Some(7),
        subscription_identifiers: &[1, 128],
        ..head(Version::V5, QoS::AtLeastOnce)
    };
    let wire = "32 1e <a/b> 0102 16 | 02 00000009 | 23 0007 | 0b 01 | 0b 8001 | 26 <k> <v> | 01 01";
    check("properties", &head, 0, wire, Some(7));
    let old = PublishHead { version: Version::V311, ..head };
    check("before 5", &old, 0, "32 07 <a/b> 0102", Some(7));
}

#[test]
fn an_alias_replaces_the_topic() {
    let head = PublishHead { topic: "", topic_alias: Some(7), ..head(Version::V5, QoS::AtMostOnce) };
    check("alias", &head, 2, "30 08 <> 03 23 0007", None);
}

#[test]
fn an_invalid_head_is_not_encoded() {
    let long = "x".repeat(65_536);
    let v5 = head(Version::V5, QoS::AtLeastOnce);
    let cases = [
        ("topic", PublishHead { topic: &long, ..v5 }, 0),
        ("identifier", PublishHead { subscription_identifiers: &[MAX_SUBSCRIPTION_IDENTIFIER + 1], ..v5 }, 0),
        ("no identifier", PublishHead { subscription_identifiers: &[1, 0], ..v5 }, 0),
        ("no alias", PublishHead { topic_alias: Some(0), ..v5 }, 0),
        ("no topic", PublishHead { topic: "", ..v5 }, 0),
        ("alias before 5", PublishHead { version: Version::V311, topic: "", topic_alias: Some(1), ..v5 }, 0),
        ("payload", v5, MAX_PACKET_SIZE as usize),
        ("overflow", v5, usize::MAX),
    ];
    for (case, head, payload_len) in cases {
        let mut out = Vec::new();
        assert_eq!(head.encode(payload_len, &mut out), None, "{case}");
        assert!(out.is_empty(), "{case}");
        assert!(head.encoded_len(payload_len) > MAX_PACKET_SIZE as usize, "{case}");
    }
}

#[test]
fn the_largest_packet() {
    let head = head(Version::V311, QoS::AtMostOnce);
    let payload_len = MAX_PACKET_SIZE as usize - 5 - 5;
    assert_eq!(head.encoded_len(payload_len), MAX_PACKET_SIZE as usize);
    let mut out = Vec::new();
    head.encode(payload_len, &mut out);
    assert_eq!(hex(&out), hex(&bytes("30 ff ff ff 7f <a/b>")));
    assert_eq!(head.encoded_len(payload_len + 1), usize::MAX);
}

proptest! {
    /// A head and its payload are a packet that says what the head says.
    #[test]
    fn a_head_and_a_payload_are_a_packet(
        received in generate::publish(Version::V5),
        version in generate::version(),
        alias in any::<Option<NonZeroU16>>(),
        expiry in any::<Option<u32>>(),
        identifiers in prop::collection::vec(1..=MAX_SUBSCRIPTION_IDENTIFIER, 0..4),
    ) {
        let topic = name("a/b");
        let received = Publish { topic: Some(topic), ..received };
        let forwarded = forwardable(received);
        let head = PublishHead {
            version,
            dup: received.dup,
            qos: received.qos,
            retain: received.retain,
            topic: topic.as_str(),
            packet_id: 0,
            forwarded_properties: &forwarded,
            message_expiry: expiry,
            topic_alias: alias.map(NonZeroU16::get),
            subscription_identifiers: &identifiers,
        };
        let mut wire = Vec::new();
        let offset = head.encode(received.payload.len(), &mut wire);
        wire.extend_from_slice(received.payload);
        prop_assert_eq!(wire.len(), head.encoded_len(received.payload.len()));
        let packet_id = offset.map(|offset| {
            wire[offset..offset + 2].copy_from_slice(&[0xAB, 0xCD]);
            id(0xABCD)
        });
        let properties = PublishProperties {
            message_expiry: expiry,
            topic_alias: alias,
            subscription_identifiers: SubscriptionIdentifiers::new(&identifiers),
            ..received.properties
        };
        let properties = if version.is_v5() { properties } else { PublishProperties::default() };
        let expected = Publish { packet_id, properties, ..received };
        prop_assert_eq!(decode(version, &wire), Ok(Packet::Publish(expected)));
    }
}

/// The properties of a received packet that a server forwards.
fn forwardable(publish: Publish<'_>) -> Vec<u8> {
    let mut wire = Vec::new();
    publish.encode(Version::V5, &mut wire).unwrap();
    let Ok(Packet::Publish(received)) = decode(Version::V5, &wire) else {
        panic!("a PUBLISH packet");
    };
    let mut out = Vec::new();
    received.properties.copy_forwardable(&mut out);
    out
}
