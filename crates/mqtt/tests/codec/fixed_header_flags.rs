//! The flags in the first byte: each type, each version, all sixteen.

use tidegate_mqtt::{DecodeError, PacketType, Version};

use crate::check::{ALL, decode};
use crate::wire::bytes;

/// A packet of the type that is valid in the version.
fn valid(packet: PacketType, version: Version) -> Vec<u8> {
    let v5 = version.is_v5();
    bytes(match packet {
        PacketType::Connect => match version {
            Version::V31 => "10 0f <MQIsdp> 03 02 003c <c>",
            Version::V311 => "10 0d <MQTT> 04 02 003c <c>",
            Version::V5 => "10 0e <MQTT> 05 02 003c 00 <c>",
        },
        PacketType::ConnAck if v5 => "20 03 00 00 00",
        PacketType::ConnAck => "20 02 00 00",
        PacketType::Publish if v5 => "30 04 <t> 00",
        PacketType::Publish => "30 03 <t>",
        PacketType::PubAck => "40 02 0001",
        PacketType::PubRec => "50 02 0001",
        PacketType::PubRel => "62 02 0001",
        PacketType::PubComp => "70 02 0001",
        PacketType::Subscribe if v5 => "82 07 0001 00 <t> 00",
        PacketType::Subscribe => "82 06 0001 <t> 00",
        PacketType::SubAck if v5 => "90 04 0001 00 00",
        PacketType::SubAck => "90 03 0001 00",
        PacketType::Unsubscribe if v5 => "a2 06 0001 00 <t>",
        PacketType::Unsubscribe => "a2 05 0001 <t>",
        PacketType::UnsubAck if v5 => "b0 04 0001 00 00",
        PacketType::UnsubAck => "b0 02 0001",
        PacketType::PingReq => "c0 00",
        PacketType::PingResp => "d0 00",
        PacketType::Disconnect => "e0 00",
        PacketType::Auth => "f0 00",
    })
}

/// All types that exist in the version, but PUBLISH, whose flags vary.
fn types(version: Version) -> impl Iterator<Item = PacketType> {
    PacketType::ALL
        .into_iter()
        .filter(move |&packet| packet != PacketType::Publish && (version.is_v5() || packet != PacketType::Auth))
}

/// [MQTT-2.1.3-1], [MQTT-3.6.1-1], [MQTT-3.8.1-1], [MQTT-3.10.1-1], [MQTT-3.14.1-1], [MQTT-3.15.1-1], and
/// [MQTT-2.2.2-1], [MQTT-2.2.2-2] of 3.1.1.
#[test]
fn from_v311_on_exactly_one_value_is_right() {
    for version in [Version::V311, Version::V5] {
        for packet in types(version) {
            let mut wire = valid(packet, version);
            let required = wire[0] & 0x0F;
            assert_eq!(packet.required_flags(), Some(required), "{packet}");
            for flags in 0..16 {
                wire[0] = (packet as u8) << 4 | flags;
                let decoded = decode(version, &wire);
                if flags == required {
                    assert!(decoded.is_ok(), "{packet} in {version}: {decoded:?}");
                } else {
                    let error = DecodeError::InvalidFlags { packet, flags };
                    assert_eq!(decoded, Err(error), "{packet} in {version}");
                }
            }
        }
    }
}

/// MQTT 3.1 lets a client repeat PUBREL, SUBSCRIBE and UNSUBSCRIBE with DUP set and says of the other flags
/// that they are not used; only their QoS of 1 is fixed.
#[test]
fn v31_checks_the_qos_bits_of_three_types_only() {
    for packet in types(Version::V31) {
        let mut wire = valid(packet, Version::V31);
        let qos_1 = wire[0] & 0x0F != 0;
        for flags in 0..16 {
            wire[0] = (packet as u8) << 4 | flags;
            let right = !qos_1 || flags & 0b0110 == 0b0010;
            let decoded = decode(Version::V31, &wire);
            assert_eq!(decoded.is_ok(), right, "{packet}, {flags:04b}: {decoded:?}");
        }
    }
}

/// [MQTT-3.3.1-2], [MQTT-3.3.1-4].
#[test]
fn publish_has_ten_right_values() {
    for version in ALL {
        for flags in 0..16_u8 {
            let qos = flags >> 1 & 0b11;
            let mut wire = valid(PacketType::Publish, version);
            wire[0] |= flags;
            if qos > 0 {
                wire[1] += 2;
                wire.splice(5..5, [0, 1]);
            }
            let expected = match (qos, flags & 0b1000) {
                (3, _) => Some(DecodeError::InvalidQos { field: "QoS of PUBLISH" }),
                (0, 0b1000) => Some(DecodeError::DupWithQos0),
                _ => None,
            };
            let decoded = decode(version, &wire);
            assert_eq!(decoded.err(), expected, "{flags:04b} in {version}");
        }
    }
    assert_eq!(PacketType::Publish.required_flags(), None);
}
