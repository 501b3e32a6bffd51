//! The codec as a client sees it: bytes of a connection in, bytes of a connection out.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// A frame as a client sends it.
fn frame(first: u8, mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            bytes.push(0xfe);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0xff);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

fn binary(payload: &[u8]) -> Vec<u8> {
    frame(0x82, [0x11, 0x22, 0x33, 0x44], payload)
}

/// The result of an endpoint for a connection whose bytes arrive in the given pieces.
fn run(bytes: &[u8], cuts: &[usize]) -> (Vec<u8>, Option<Ended>, Vec<u8>) {
    let mut endpoint = Endpoint::new(Arc::new(Site::new("/mqtt", &[])));
    let (mut payload, mut ended) = (Vec::new(), None);
    let mut cuts = cuts.to_vec();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        let mut piece = bytes[pair[0]..pair[1]].to_vec();
        let received = endpoint.receive(&mut piece);
        payload.extend_from_slice(&piece[received.payload]);
        if received.ended.is_some() {
            assert_eq!(ended, None, "an end is reported once");
            ended = received.ended;
        }
    }
    endpoint.outgoing().prepare(0);
    let sent = endpoint.outgoing().prefix().to_vec();
    (payload, ended, sent)
}

/// The same for frames after a handshake; returns only the bytes after the handshake's response.
fn run_frames(frames: &[u8], cuts: &[usize]) -> (Vec<u8>, Option<Ended>, Vec<u8>) {
    let bytes = [REQUEST.as_bytes(), frames].concat();
    let cuts: Vec<usize> = cuts.iter().map(|cut| cut + REQUEST.len()).collect();
    let (payload, ended, sent) = run(&bytes, &cuts);
    let response = sent.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (payload, ended, sent[response + 4..].to_vec())
}

#[test]
fn the_examples_of_the_standard_are_understood() {
    // Section 5.7: "Hello", masked; here in binary frames, whole, in fragments, and with a ping between fragments.
    let whole = [0x82, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(run_frames(&whole, &[]), (b"Hello".to_vec(), None, vec![]));
    let key = [0x37, 0xfa, 0x21, 0x3d];
    let split = [frame(0x02, key, b"Hel"), frame(0x80, key, b"lo")].concat();
    assert_eq!(run_frames(&split, &[]), (b"Hello".to_vec(), None, vec![]));
    let ping = [0x89, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    let between = [frame(0x02, key, b"Hel"), ping.to_vec(), frame(0x80, key, b"lo")].concat();
    let answer = [0x8a, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
    assert_eq!(run_frames(&between, &[]), (b"Hello".to_vec(), None, answer.to_vec()));
}

#[test]
fn long_frames_use_the_extended_lengths() {
    for length in [126_u32, 256, 0xffff, 0x1_0000, 70_000] {
        let payload: Vec<u8> = (0..length).map(|i| i as u8).collect();
        assert_eq!(run_frames(&binary(&payload), &[1, 2, 9, 100]), (payload, None, vec![]));
    }
}

/// [MQTT-6.0.0-1]
#[test]
fn a_text_frame_closes_with_unsupported_data() {
    let bytes = [binary(b"ab"), frame(0x81, [1, 2, 3, 4], b"cd"), binary(b"ef")].concat();
    let expected = Some(Ended::Violation(Violation::TextFrame));
    assert_eq!(run_frames(&bytes, &[]), (b"ab".to_vec(), expected, vec![0x88, 2, 0x03, 0xeb]));
}

#[test]
fn each_broken_rule_ends_the_connection_with_its_code() {
    let key = [9, 8, 7, 6];
    let cases = [
        (vec![0x82, 0x05, 1, 2, 3, 4, 5], Violation::NotMasked, 0xea),
        (frame(0xa2, key, b""), Violation::ReservedBits, 0xea),
        (frame(0x83, key, b""), Violation::UnknownOpcode, 0xea),
        (frame(0x80, key, b"x"), Violation::NothingToContinue, 0xea),
        (frame(0x09, key, b""), Violation::ControlFrame, 0xea),
        (frame(0x89, key, &[0; 126]), Violation::ControlFrame, 0xea),
        ([frame(0x02, key, b""), frame(0x82, key, b"")].concat(), Violation::UnfinishedMessage, 0xea),
        (frame(0x88, key, b"x"), Violation::CloseFrame, 0xea),
        (frame(0x88, key, &1005u16.to_be_bytes()), Violation::CloseFrame, 0xea),
        (frame(0x88, key, b"\x03\xe8\xff"), Violation::CloseReason, 0xef),
        (vec![0x82, 0xff, 0, 0, 0, 0, 0x10, 0, 0, 5, 0, 0, 0, 0], Violation::FrameTooLong, 0xf1),
        (vec![0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0], Violation::LengthSign, 0xea),
    ];
    for (bytes, violation, low) in cases {
        let expected = (vec![], Some(Ended::Violation(violation)), vec![0x88, 2, 0x03, low]);
        assert_eq!(run_frames(&bytes, &[]), expected, "{violation}");
        let everywhere: Vec<usize> = (0..=bytes.len()).collect();
        assert_eq!(run_frames(&bytes, &everywhere), expected, "{violation}, byte by byte");
    }
}

#[test]
fn a_close_frame_is_answered_with_its_code_and_ends_the_input() {
    let close = |payload: &[u8]| frame(0x88, [1, 2, 3, 4], payload);
    let bytes = [binary(b"ab"), close(b"\x03\xe8bye"), binary(b"cd")].concat();
    let expected = (b"ab".to_vec(), Some(Ended::Closed), vec![0x88, 2, 0x03, 0xe8]);
    assert_eq!(run_frames(&bytes, &[]), expected);
    assert_eq!(run_frames(&close(b""), &[]), (vec![], Some(Ended::Closed), vec![0x88, 0]));
}

#[test]
fn a_pong_is_ignored_and_an_empty_frame_carries_nothing() {
    let bytes = [frame(0x8a, [0; 4], b"x"), binary(b""), frame(0x02, [0; 4], b""), frame(0x80, [0; 4], b"z")];
    assert_eq!(run_frames(&bytes.concat(), &[]), (b"z".to_vec(), None, vec![]));
}

#[test]
fn the_handshake_and_the_first_packet_may_be_split_anywhere() {
    let bytes = [REQUEST.as_bytes(), &binary(b"CONNECT")].concat();
    for cut in 0..bytes.len() {
        let (payload, ended, _) = run(&bytes, &[cut]);
        assert_eq!((payload.as_slice(), ended), (&b"CONNECT"[..], None), "split at {cut}");
    }
}

#[test]
fn a_refused_handshake_sends_its_response_and_no_close_frame() {
    let mut endpoint = Endpoint::new(Arc::new(Site::new("/mqtt", &[])));
    let mut request = REQUEST.replace("mqtt\r\n", "amqp\r\n").into_bytes();
    let received = endpoint.receive(&mut request);
    assert_eq!(received.ended, Some(Ended::Refused(Refusal::Subprotocol)));
    endpoint.close(CloseCode::NORMAL);
    endpoint.outgoing().prepare(0);
    assert!(endpoint.outgoing().prefix().ends_with(b"Sec-WebSocket-Protocol: mqtt\n"));
    assert_eq!(endpoint.receive(&mut binary(b"x")).payload, 0..0);
}

#[derive(Clone, Debug)]
enum Piece {
    Data(Vec<Vec<u8>>, [u8; 4]),
    Ping(Vec<u8>),
    Pong,
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let bytes = |max| prop::collection::vec(any::<u8>(), 0..max);
    let piece = prop_oneof![
        3 => (prop::collection::vec(bytes(300), 1..4), any::<[u8; 4]>())
            .prop_map(|(parts, key)| Piece::Data(parts, key)),
        1 => bytes(126).prop_map(Piece::Ping),
        1 => Just(Piece::Pong),
    ];
    prop::collection::vec(piece, 0..8)
}

proptest! {
    #[test]
    fn payload_survives_any_framing_and_any_split(
        pieces in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let (mut wire, mut expected, mut last_ping) = (Vec::new(), Vec::new(), None);
        for piece in &pieces {
            match piece {
                Piece::Data(parts, key) => {
                    for (number, part) in parts.iter().enumerate() {
                        let opcode = if number == 0 { 0x02 } else { 0x00 };
                        let last = if number + 1 == parts.len() { 0x80 } else { 0 };
                        wire.extend(frame(last | opcode, *key, part));
                        expected.extend_from_slice(part);
                    }
                }
                Piece::Ping(body) => {
                    wire.extend(frame(0x89, [5, 6, 7, 8], body));
                    last_ping = Some(body);
                }
                Piece::Pong => wire.extend(frame(0x8a, [5, 6, 7, 8], b"")),
            }
        }
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
        let (payload, ended, sent) = run_frames(&wire, &cuts);
        prop_assert_eq!(payload, expected);
        prop_assert_eq!(ended, None);
        match last_ping {
            None => prop_assert!(sent.is_empty()),
            Some(body) => prop_assert_eq!(&sent[2..], &body[..]),
        }
    }

    #[test]
    fn no_bytes_make_the_endpoint_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        upgraded in any::<bool>(),
    ) {
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        if upgraded {
            run_frames(&bytes, &cuts);
        } else {
            run(&bytes, &cuts);
        }
    }
}
