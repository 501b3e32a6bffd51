//! UNSUBACK packets.

use tidegate_mqtt::{DecodeError, EncodeError, Packet, PacketType, ReasonCode, UnsubAck, UserProperties, Version};

use crate::check::{ALL, BEFORE_5, encodes, id, packet, refuses, rejects};

const CODES: [ReasonCode; 2] = [ReasonCode::Success, ReasonCode::NoSubscriptionExisted];

fn unsuback(codes: &[ReasonCode]) -> Packet<'_> {
    Packet::UnsubAck(UnsubAck::new(id(0x0102), codes))
}

#[test]
fn before_5_there_are_no_codes() {
    for version in BEFORE_5 {
        packet("no codes", version, "b0 02 0102", unsuback(&[]));
        encodes("codes", version, unsuback(&CODES), "b0 02 0102");
        let error = DecodeError::TrailingBytes { packet: PacketType::UnsubAck, count: 1 };
        rejects("codes", version, "b0 03 0102 00", error);
    }
}

/// [MQTT-3.11.3-1].
#[test]
fn v5_codes_keep_their_order() {
    packet("codes", Version::V5, "b0 05 0102 00 00 11", unsuback(&CODES));
}

/// [MQTT-3.11.3-2].
#[test]
fn v5_every_code() {
    let kind = PacketType::UnsubAck;
    for byte in 0..=u8::MAX {
        let wire = format!("b0 04 0102 00 {byte:02x}");
        match ReasonCode::from_byte(byte) {
            Some(code) if code.allowed_in(kind) => {
                packet("code", Version::V5, &wire, unsuback(&[code]));
            }
            code => {
                let error = DecodeError::InvalidReasonCode { packet: kind, code: byte };
                rejects("code", Version::V5, &wire, error);
                if let Some(code) = code {
                    let error = EncodeError::ReasonNotAllowed { packet: kind, code };
                    for version in ALL {
                        refuses("code", version, unsuback(&[code]), error);
                    }
                }
            }
        }
    }
}

#[test]
fn v5_properties() {
    let explained = UnsubAck {
        reason_string: Some("why"),
        user_properties: UserProperties::new(&[("k", "v")]),
        ..UnsubAck::new(id(0x0102), &CODES)
    };
    let wire = "b0 12 0102 0d | 1f <why> | 26 <k> <v> | 00 11";
    packet("properties", Version::V5, wire, Packet::UnsubAck(explained));
}

#[test]
fn lengths() {
    for version in ALL {
        let field = "packet identifier";
        rejects("half", version, "b0 01 01", DecodeError::Truncated { field });
        let zero = DecodeError::ZeroPacketId { packet: PacketType::UnsubAck };
        rejects("identifier 0", version, "b0 04 0000 00 00", zero);
    }
    let field = "property length";
    rejects("no properties", Version::V5, "b0 02 0102", DecodeError::Truncated { field });
}
