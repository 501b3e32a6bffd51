//! Decoding an encoded packet gives the same packet.

use proptest::prelude::*;
use tidegate_mqtt::{FrameError, MAX_PACKET_SIZE, Packet, Version, split_frame};

use crate::check::{decode, framed};
use crate::generate::{packet, version, version_and_packet};
use crate::wire::hex;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_packet_survives((version, packet) in version_and_packet()) {
        let mut wire = Vec::new();
        prop_assert_eq!(packet.encode(version, &mut wire), Ok(()));
        prop_assert_eq!(decode(version, &wire), Ok(packet));
    }

    /// Each packet has exactly one encoding.
    #[test]
    fn encoding_again_gives_the_same_bytes((version, packet) in version_and_packet()) {
        let mut wire = Vec::new();
        packet.encode(version, &mut wire).unwrap();
        let mut again = Vec::new();
        decode(version, &wire).unwrap().encode(version, &mut again).unwrap();
        prop_assert_eq!(hex(&again), hex(&wire));
    }

    /// Every truncated body has another meaning or is invalid, and so has every longer one.
    #[test]
    fn a_body_is_neither_shorter_nor_longer(
        (version, packet) in version_and_packet(),
        cut in any::<prop::sample::Index>(),
        // Zero would be the long form of a field that the short form leaves out.
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
                let meaningless = version == Version::V31 || matches!(
                    packet,
                    Packet::Connect(connect) if connect.version == Version::V31
                );
                prop_assert!(meaningless || other != packet, "{}", hex(&wire));
            }
        }
    }
}

/// Splits and decodes a stream that arrives in chunks, and compares the packets with those sent.
fn receive(version: Version, stream: &[u8], cuts: &[usize], sent: &[Packet<'_>]) {
    let mut sent = sent.iter();
    let mut buffer = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([stream.len()]) {
        buffer.extend_from_slice(&stream[start..end]);
        start = end;
        let mut taken = 0;
        while let Some(frame) = split_frame(&buffer[taken..], MAX_PACKET_SIZE).unwrap() {
            let packet = Packet::decode(version, &frame).unwrap();
            assert_eq!(Some(&packet), sent.next());
            assert_eq!(packet.packet_type(), frame.packet_type());
            taken += frame.total_len;
        }
        buffer.drain(..taken);
    }
    assert!(buffer.is_empty() && sent.next().is_none());
}

fn conversation() -> impl Strategy<Value = (Version, Vec<Packet<'static>>)> {
    version().prop_flat_map(|version| (Just(version), prop::collection::vec(packet(version), 0..8)))
}

proptest! {
    #[test]
    fn a_stream_of_packets_arrives_however_it_is_cut(
        (version, packets) in conversation(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut stream = Vec::new();
        for packet in &packets {
            packet.encode(version, &mut stream).unwrap();
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        receive(version, &stream, &cuts, &packets);
    }

    /// A limit of exactly the packet's size changes nothing.
    #[test]
    fn a_packet_passes_a_limit_of_its_size((version, packet) in version_and_packet()) {
        let mut wire = Vec::new();
        packet.encode(version, &mut wire).unwrap();
        let len = wire.len() as u32;
        prop_assert!(split_frame(&wire, len).unwrap().is_some());
        prop_assert_eq!(split_frame(&wire, len - 1), Err(FrameError::TooLarge { len, max: len - 1 }));
    }
}
