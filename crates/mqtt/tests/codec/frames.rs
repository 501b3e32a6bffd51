//! Ends of packets in a stream of bytes.

use proptest::prelude::*;
use tidegate_mqtt::{FrameError, MAX_PACKET_SIZE, PacketType, ReasonCode, frame_len, split_frame};

use crate::check::framed;
use crate::wire::bytes;

/// The parts of a frame: first byte, body, size.
type Parts = (u8, Vec<u8>, usize);

fn split(buf: &[u8], max: u32) -> Result<Option<Parts>, FrameError> {
    let frame = split_frame(buf, max)?;
    Ok(frame.map(|frame| (frame.first_byte, frame.body.to_vec(), frame.total_len)))
}

#[test]
fn a_frame_is_header_and_body() {
    let cases = [("c0 00", 0xC0, "", 2), ("40 02 0001", 0x40, "0001", 4), ("40 02 0001 | c0 00", 0x40, "0001", 4)];
    for (buf, first_byte, body, total_len) in cases {
        let expected = (first_byte, bytes(body), total_len);
        assert_eq!(split(&bytes(buf), MAX_PACKET_SIZE), Ok(Some(expected)), "{buf}");
    }
}

#[test]
fn type_and_flags() {
    let buf = bytes("6a 02 0001");
    let frame = split_frame(&buf, MAX_PACKET_SIZE).unwrap().unwrap();
    assert_eq!(frame.packet_type(), PacketType::PubRel);
    assert_eq!(frame.flags(), 0b1010);
}

#[test]
fn an_incomplete_frame_waits() {
    for buf in ["", "c0", "40 02", "40 02 00", "30 80", "30 ff ff ff", "30 80 01 00"] {
        assert_eq!(split(&bytes(buf), MAX_PACKET_SIZE), Ok(None), "{buf}");
    }
}

#[test]
fn the_length_is_known_as_soon_as_the_header_is() {
    let cases = [
        ("", None),
        ("10", None),
        ("c0 00", Some(2)),
        ("40 02", Some(4)),
        ("30 7f", Some(129)),
        ("30 80", None),
        ("30 80 01", Some(131)),
        ("30 ff 7f", Some(3 + 16_383)),
        ("30 80 80 01", Some(4 + 16_384)),
        ("30 ff ff 7f", Some(4 + 2_097_151)),
        ("30 80 80 80 01", Some(5 + 2_097_152)),
        ("30 ff ff ff 7f", Some(MAX_PACKET_SIZE as usize)),
    ];
    for (buf, len) in cases {
        assert_eq!(frame_len(&bytes(buf)), Ok(len), "{buf}");
    }
}

#[test]
fn type_0_is_reserved() {
    for flags in 0..16 {
        assert_eq!(frame_len(&[flags]), Err(FrameError::Malformed));
        assert_eq!(split(&[flags, 0], MAX_PACKET_SIZE), Err(FrameError::Malformed));
    }
}

/// [MQTT-1.5.5-1].
#[test]
fn the_remaining_length_is_at_most_four_bytes_and_the_fewest() {
    for buf in [
        "30 80 00",
        "30 ff 00",
        "30 80 80 00",
        "30 80 80 80 00",
        "30 80 80 80 80",
        "30 ff ff ff ff",
        "30 ff ff ff ff 7f",
    ] {
        assert_eq!(frame_len(&bytes(buf)), Err(FrameError::Malformed), "{buf}");
        assert_eq!(split(&bytes(buf), MAX_PACKET_SIZE), Err(FrameError::Malformed), "{buf}");
    }
}

/// [MQTT-3.1.2-24], [MQTT-3.2.2-15]: the limit is about the whole packet, and is noticed before the body
/// has come.
#[test]
fn a_frame_over_the_limit_is_an_error_at_once() {
    let cases = [
        ("c0 00", 1, Err((2, 1))),
        ("c0 00", 2, Ok(true)),
        ("40 02", 3, Err((4, 3))),
        ("40 02", 4, Ok(false)),
        ("30 80 01", 130, Err((131, 130))),
        ("30 80 01", 131, Ok(false)),
        ("30 80", 0, Ok(false)),
        ("30 ff ff ff 7f", MAX_PACKET_SIZE - 1, Err((MAX_PACKET_SIZE, MAX_PACKET_SIZE - 1))),
        ("30 ff ff ff 7f", MAX_PACKET_SIZE, Ok(false)),
    ];
    for (buf, max, expected) in cases {
        let whole = split(&bytes(buf), max).map(|frame| frame.is_some());
        let expected = expected.map_err(|(len, max)| FrameError::TooLarge { len, max });
        assert_eq!(whole, expected, "{buf}, at most {max}");
    }
}

#[test]
fn errors_have_reason_codes_and_words() {
    let malformed = FrameError::Malformed;
    assert_eq!(malformed.reason_code(), ReasonCode::MalformedPacket);
    assert_eq!(malformed.to_string(), "the fixed header of a packet is malformed");
    let too_large = FrameError::TooLarge { len: 131, max: 130 };
    assert_eq!(too_large.reason_code(), ReasonCode::PacketTooLarge);
    assert_eq!(too_large.to_string(), "a packet of 131 bytes is larger than the maximum packet size of 130");
}

/// Splits a stream that arrives in chunks, as a connection does.
fn split_chunks(stream: &[u8], cuts: &[usize], max: u32) -> Result<Vec<Parts>, FrameError> {
    let mut frames = Vec::new();
    let mut buffer = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([stream.len()]) {
        buffer.extend_from_slice(&stream[start..end]);
        start = end;
        while let Some(frame) = split(&buffer, max)? {
            buffer.drain(..frame.2);
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let body = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 120..300),
        1 => prop::collection::vec(any::<u8>(), 16_380..16_390),
    ];
    let packet = (0x10..=0xFF_u8, body).prop_map(|(first, body)| framed(first, &body));
    prop::collection::vec(packet, 0..6).prop_map(|packets| packets.concat())
}

proptest! {
    #[test]
    fn a_stream_split_anywhere_gives_the_same_frames(
        stream in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = split_chunks(&stream, &[], MAX_PACKET_SIZE).unwrap();
        let size: usize = whole.iter().map(|frame| frame.2).sum();
        prop_assert_eq!(size, stream.len());
        prop_assert_eq!(split_chunks(&stream, &cuts, MAX_PACKET_SIZE).unwrap(), whole);
    }

    #[test]
    fn arbitrary_bytes_end_the_same_way_however_they_come(
        stream in prop::collection::vec(any::<u8>(), 0..64),
        max in 0..100_u32,
    ) {
        let each: Vec<usize> = (0..stream.len()).collect();
        prop_assert_eq!(split_chunks(&stream, &each, max), split_chunks(&stream, &[], max));
    }

    #[test]
    fn more_bytes_never_change_the_answer(
        stream in prop::collection::vec(any::<u8>(), 0..16),
        more in prop::collection::vec(any::<u8>(), 0..16),
    ) {
        let longer = [stream.as_slice(), &more].concat();
        if let Some(answer) = frame_len(&stream).transpose() {
            prop_assert_eq!(frame_len(&longer).transpose(), Some(answer));
        }
    }
}
