//! Decodes any packet. An input is the version (one byte), the packet's first byte, and its body.

use tidegate_mqtt::{EncodeError, MAX_PACKET_SIZE, Packet, PublishProperties, Version, split_frame, varint};

use crate::take_version;

/// What decodes can be walked and encoded, and decodes to the same then; what does not has a reason.
///
/// # Panics
///
/// When one of these does not hold.
pub fn fuzz_one(data: &[u8]) {
    let Some((version, [first_byte, body @ ..])) = take_version(data) else {
        return;
    };
    let wire = framed(*first_byte, body);
    let Some(decoded) = decode(version, &wire) else {
        return;
    };
    match decoded {
        Ok(packet) => {
            walk(&packet);
            encode_again(version, &packet);
        }
        Err(error) => assert!(error.reason_code().is_error(), "{error}"),
    }
}

/// The bytes of a packet with this first byte and body.
pub(crate) fn framed(first_byte: u8, body: &[u8]) -> Vec<u8> {
    let mut wire = vec![first_byte];
    if let Some(len) = varint::encode(body.len() as u32) {
        wire.extend_from_slice(len.as_bytes());
    }
    wire.extend_from_slice(body);
    wire
}

/// Decodes the one packet in `wire`; `None` when its type is none.
fn decode(version: Version, wire: &[u8]) -> Option<Result<Packet<'_>, tidegate_mqtt::DecodeError>> {
    let frame = split_frame(wire, MAX_PACKET_SIZE).ok()??;
    Some(Packet::decode(version, &frame))
}

/// Reads everything that a packet reads lazily.
fn walk(packet: &Packet<'_>) {
    match packet {
        Packet::Subscribe(subscribe) => assert!(subscribe.filters().next().is_some()),
        Packet::Unsubscribe(unsubscribe) => assert!(unsubscribe.filters().next().is_some()),
        Packet::SubAck(suback) => {
            assert_eq!(suback.reason_codes.iter().count(), suback.reason_codes.len());
        }
        Packet::UnsubAck(unsuback) => {
            assert_eq!(unsuback.reason_codes.iter().count(), unsuback.reason_codes.len());
        }
        Packet::Connect(connect) => {
            if let Some(will) = connect.will {
                let mut out = Vec::new();
                will.properties.copy_forwardable(&mut out);
                assert!(PublishProperties::decode(&out).is_ok(), "a will can be published");
            }
        }
        _ => {}
    }
    assert!(!format!("{packet:?}").is_empty());
}

fn encode_again(version: Version, packet: &Packet<'_>) {
    let mut wire = Vec::new();
    match packet.encode(version, &mut wire) {
        Ok(()) if is_failure_in_v31(version, packet) => {}
        Ok(()) => {
            let again = decode(version, &wire).expect("a packet type");
            assert_eq!(again.as_ref(), Ok(packet), "what is encoded is what is decoded");
        }
        // Invalid filters are for the server to answer one by one, so they do decode.
        Err(EncodeError::InvalidTopicFilter { .. }) => assert!(wire.is_empty()),
        Err(error) => panic!("{packet:?} decodes but does not encode: {error}"),
    }
}

/// MQTT 3.1 has no failure in a SUBACK, so one that a server sends all the same is not sent on.
fn is_failure_in_v31(version: Version, packet: &Packet<'_>) -> bool {
    match packet {
        Packet::SubAck(suback) if version == Version::V31 => {
            suback.reason_codes.iter().any(tidegate_mqtt::ReasonCode::is_error)
        }
        _ => false,
    }
}
