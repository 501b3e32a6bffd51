//! No bytes make the codec panic, and the decoded packets are consistent.

use proptest::prelude::*;
use tidegate_mqtt::{
    ConnAckProperties, ConnectProperties, DecodeError, EncodeError, MAX_PACKET_SIZE, Packet, PacketType, Publish,
    PublishProperties, RawPublish, ReasonCode, Version, WillProperties, split_frame,
};

use crate::check::{ALL, decode, framed};
use crate::generate::version_and_packet;
use crate::wire::hex;

/// Reads everything that a packet holds lazily.
fn walk(packet: &Packet<'_>) {
    match packet {
        Packet::Subscribe(subscribe) => assert!(subscribe.filters().count() > 0),
        Packet::Unsubscribe(unsubscribe) => assert!(unsubscribe.filters().count() > 0),
        Packet::SubAck(suback) => {
            assert_eq!(suback.reason_codes.iter().count(), suback.reason_codes.len());
        }
        Packet::UnsubAck(unsuback) => {
            assert_eq!(unsuback.reason_codes.iter().count(), unsuback.reason_codes.len());
        }
        Packet::Publish(publish) => {
            let mut out = Vec::new();
            publish.properties.copy_forwardable(&mut out);
            assert!(out.len() <= publish.properties.raw.len());
            let forwarded = PublishProperties::decode(&out).expect("forwarded properties are valid");
            assert_eq!(forwarded.user_properties, publish.properties.user_properties);
            assert!(publish.properties.subscription_identifiers.iter().all(|id| id > 0));
        }
        _ => {}
    }
    assert!(!format!("{packet:?}").is_empty());
}

/// MQTT 3.1 has no failure in a SUBACK, so the encoder drops a failure that a server sent.
fn is_failure_in_v31(version: Version, packet: &Packet<'_>) -> bool {
    match packet {
        Packet::SubAck(suback) if version == Version::V31 => suback.reason_codes.iter().any(ReasonCode::is_error),
        _ => false,
    }
}

/// Whether a decoded packet may have no encoding: the server answers invalid filters one by one.
fn invalid_filter(error: EncodeError) -> bool {
    matches!(error, EncodeError::InvalidTopicFilter { .. })
}

fn check(version: Version, wire: &[u8]) {
    match decode(version, wire) {
        Ok(packet) => {
            walk(&packet);
            if is_failure_in_v31(version, &packet) {
                return;
            }
            let mut again = Vec::new();
            match packet.encode(version, &mut again) {
                Ok(()) => {
                    let encoded = decode(version, &again);
                    assert_eq!(encoded, Ok(packet), "{} and {}", hex(wire), hex(&again));
                }
                Err(error) => assert!(invalid_filter(error), "{}: {error}", hex(wire)),
            }
        }
        Err(error) => {
            assert!(error.reason_code().is_error(), "{error}");
            let text = error.to_string();
            assert!(!text.ends_with('.') && !text.is_empty(), "{text}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn arbitrary_bodies(first_byte in 0x10..=u8::MAX, body in prop::collection::vec(any::<u8>(), 0..48)) {
        for version in ALL {
            check(version, &framed(first_byte, &body));
        }
    }

    /// Bytes that are likely to mean something: small numbers, identifiers of properties, wildcards.
    #[test]
    fn plausible_bodies(
        first_byte in 0x10..=u8::MAX,
        body in prop::collection::vec(prop_oneof![
            3 => 0..4_u8,
            2 => 0..0x2C_u8,
            1 => prop::sample::select(b"a/+#$MQT".to_vec()),
            1 => any::<u8>(),
        ], 0..32),
    ) {
        for version in ALL {
            check(version, &framed(first_byte, &body));
        }
    }

    #[test]
    fn packets_with_changes(
        (version, packet) in version_and_packet(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut wire = Vec::new();
        packet.encode(version, &mut wire).unwrap();
        let frame = split_frame(&wire, MAX_PACKET_SIZE).unwrap().unwrap();
        let (first_byte, mut body) = (frame.first_byte, frame.body.to_vec());
        for (place, byte) in changes {
            if !body.is_empty() {
                let place = place.index(body.len());
                body[place] = byte;
            }
        }
        for version in ALL {
            check(version, &framed(first_byte, &body));
        }
    }

    #[test]
    fn property_blocks(block in prop::collection::vec(0..0x30_u8, 0..24)) {
        let _ = PublishProperties::decode(&block).map(|properties| {
            let mut out = Vec::new();
            properties.copy_forwardable(&mut out);
            assert_eq!(PublishProperties::decode(&out).map(|_| ()), Ok(()));
        });
        let _ = WillProperties::decode(&block).map(|properties| {
            let mut out = Vec::new();
            properties.copy_forwardable(&mut out);
            assert_eq!(PublishProperties::decode(&out).map(|_| ()), Ok(()));
        });
        let _ = ConnectProperties::decode(&block);
        let _ = ConnAckProperties::decode(&block);
    }

    #[test]
    fn the_raw_view_of_a_publish_agrees(flags in 0..16_u8, body in prop::collection::vec(any::<u8>(), 0..32)) {
        for version in ALL {
            let first_byte = (PacketType::Publish as u8) << 4 | flags;
            let raw = RawPublish::decode(version, first_byte, &body);
            let whole = Publish::decode(version, first_byte, &body);
            match (raw, whole) {
                (Err(raw), whole) => prop_assert_eq!(whole, Err(raw)),
                (Ok(raw), Ok(whole)) => {
                    prop_assert_eq!(raw.payload, whole.payload);
                    prop_assert_eq!(raw.topic, whole.topic.map_or(&b""[..], |topic| topic.as_str().as_bytes()));
                    prop_assert_eq!(raw.packet_id, whole.packet_id);
                    prop_assert_eq!(raw.properties, whole.properties.raw);
                }
                (Ok(_), Err(_)) => {}
            }
        }
    }
}

/// Every body of up to two bytes, for every first byte, in every version.
#[test]
fn all_short_bodies() {
    for version in ALL {
        for first_byte in 0x10..=u8::MAX {
            check(version, &framed(first_byte, &[]));
            for one in 0..=u8::MAX {
                check(version, &framed(first_byte, &[one]));
                for two in [0, 1, 2, 0x26, 0x7F, 0x80, 0xFF] {
                    check(version, &framed(first_byte, &[one, two]));
                }
            }
        }
    }
}

/// The codec allocates for received bytes only, never for an announced length.
#[test]
fn lengths_that_promise_too_much() {
    for version in ALL {
        for first_byte in 0x10..=u8::MAX {
            for body in [
                &[0xFF; 8][..],
                b"\x00\x01\xff\xff\xff\x7f",
                b"\x00\x01\x00\xff\xff\xff\x7f",
                b"\x00\x04MQTT\x05\x02\x00\x3c\xff\xff\xff\x7f",
                b"\x00\x04MQTT\x05\x02\x00\x3c\x00\xff\xff",
            ] {
                check(version, &framed(first_byte, body));
            }
        }
    }
    let body = b"\x00\x04MQTT\x05\x02\x00\x3c\x00\xff\xff";
    let error = decode(Version::V5, &framed(0x10, body)).expect_err("too short");
    let field = "client identifier";
    assert_eq!(error, DecodeError::Truncated { field });
    assert_eq!(error.reason_code(), ReasonCode::MalformedPacket);
}
