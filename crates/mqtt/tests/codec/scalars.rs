//! The small types: versions, QoS, Packet Identifiers, packet types.

use tidegate_mqtt::{DecodeError, PacketId, PacketType, QoS, Version};

use crate::check::ALL;

#[test]
fn versions_and_their_protocols() {
    for version in ALL {
        let name = version.protocol_name().as_bytes();
        assert_eq!(Version::from_protocol(name, version.protocol_level()), Ok(version));
    }
    let text: Vec<String> = ALL.iter().map(ToString::to_string).collect();
    assert_eq!(text, ["3.1", "3.1.1", "5.0"]);
    assert_eq!(ALL.map(Version::is_v5), [false, false, true]);
    assert_eq!(Version::from_protocol(b"", 4), Err(DecodeError::InvalidProtocolName));
}

/// [MQTT-3.3.1-4].
#[test]
fn qos_is_0_to_2() {
    for (bits, qos) in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce].into_iter().enumerate() {
        assert_eq!(QoS::from_bits(bits as u8), Some(qos));
        assert_eq!(usize::from(qos.bits()), bits);
    }
    assert!((3..=u8::MAX).all(|bits| QoS::from_bits(bits).is_none()));
    assert!(QoS::AtMostOnce < QoS::AtLeastOnce && QoS::AtLeastOnce < QoS::ExactlyOnce);
    assert_eq!(QoS::default(), QoS::AtMostOnce);
}

/// [MQTT-2.2.1-3], [MQTT-2.2.1-4].
#[test]
fn a_packet_identifier_is_not_zero() {
    assert_eq!(PacketId::new(0), None);
    assert_eq!(PacketId::new(1), Some(PacketId::MIN));
    assert_eq!(PacketId::new(65_535), Some(PacketId::MAX));
    assert_eq!(PacketId::new(7).unwrap().get(), 7);
    assert_eq!(PacketId::new(7).unwrap().to_string(), "7");
}

#[test]
fn packet_identifiers_come_round() {
    assert_eq!(PacketId::MIN.next().get(), 2);
    assert_eq!(PacketId::MAX.next(), PacketId::MIN);
    let size = size_of::<Option<PacketId>>();
    assert_eq!(size, 2, "an absent one takes no room");
}

#[test]
fn packet_types_are_the_upper_four_bits() {
    for (number, packet) in (1..).zip(PacketType::ALL) {
        assert_eq!(packet as u8, number);
        for flags in 0..16 {
            assert_eq!(PacketType::from_first_byte(number << 4 | flags), Some(packet));
        }
    }
    assert!((0..16).all(|byte| PacketType::from_first_byte(byte).is_none()));
    assert_eq!(PacketType::PubAck.to_string(), "PUBACK");
}
