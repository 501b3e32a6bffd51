//! What is encoded is what is decoded.

use proptest::prelude::*;
use tidegate_mqtt::{MAX_PACKET_SIZE, Packet, split_frame};

use crate::check::{decode, framed};
use crate::generate::version_and_packet;
use crate::wire::hex;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_packet_survives((version, packet) in version_and_packet()) {
        let mut wire = Vec::new();
        prop_assert_eq!(packet.encode(version, &mut wire), Ok(()));
        prop_assert_eq!(decode(version, &wire), Ok(packet));
    }

    /// Bytes have one meaning, and a meaning has one encoding.
    #[test]
    fn encoding_again_gives_the_same_bytes((version, packet) in version_and_packet()) {
        let mut wire = Vec::new();
        packet.encode(version, &mut wire).unwrap();
        let mut again = Vec::new();
        decode(version, &wire).unwrap().encode(version, &mut again).unwrap();
        prop_assert_eq!(hex(&again), hex(&wire));
    }

    /// No shorter body says the same, and a longer one says more or is none.
    #[test]
    fn a_body_is_neither_shorter_nor_longer(
        (version, packet) in version_and_packet(),
        cut in any::<prop::sample::Index>(),
        // Zero would be the long form of what is left out when short.
        more in 1..=u8::MAX,
    ) {
        let mut wire = Vec::new();
        packet.encode(version, &mut wire).unwrap();
        let frame = split_frame(&wire, MAX_PACKET_SIZE).unwrap().unwrap();
        let mut body = frame.body.to_vec();
        body.push(more);
        let longer = framed(frame.first_byte, &body);
        prop_assert_ne!(decode(version, &longer), Ok(packet));
        if !frame.body.is_empty() {
            body.truncate(cut.index(frame.body.len()));
            let shorter = framed(frame.first_byte, &body);
            prop_assert_ne!(decode(version, &shorter), Ok(packet));
        }
    }

    #[test]
    fn a_changed_byte_is_an_error_or_another_packet(
        (version, packet) in version_and_packet(),
        place in any::<prop::sample::Index>(),
        change in 1..=u8::MAX,
    ) {
        let mut wire = Vec::new();
        packet.encode(version, &mut wire).unwrap();
        let place = place.index(wire.len());
        wire[place] ^= change;
        if let Ok(Some(frame)) = split_frame(&wire, MAX_PACKET_SIZE) {
            // Packets of MQTT 3.1 have bits without a meaning; elsewhere every bit counts.
            if let (Ok(other), true) = (Packet::decode(version, &frame), frame.total_len == wire.len()) {
                let meaningless = version == tidegate_mqtt::Version::V31 || matches!(
                    packet,
                    Packet::Connect(connect) if connect.version == tidegate_mqtt::Version::V31
                );
                prop_assert!(meaningless || other != packet, "{}", hex(&wire));
            }
        }
    }
}
