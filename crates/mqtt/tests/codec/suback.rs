//! SUBACK packets.

use tidegate_mqtt::{DecodeError, EncodeError, Packet, PacketType, ReasonCode, SubAck, UserProperties, Version};

use crate::check::{ALL, BEFORE_5, encodes, id, packet, refuses, rejects};

const GRANTED: [ReasonCode; 3] = [ReasonCode::GRANTED_QOS_0, ReasonCode::GrantedQos1, ReasonCode::GrantedQos2];

fn suback(codes: &[ReasonCode]) -> Packet<'_> {
    Packet::SubAck(SubAck::new(id(0x0102), codes))
}

/// [MQTT-3.8.4-6], [MQTT-3.9.3-1].
#[test]
fn granted_in_every_version() {
    for version in BEFORE_5 {
        packet("granted", version, "90 05 0102 00 01 02", suback(&GRANTED));
    }
    packet("granted", Version::V5, "90 06 0102 00 00 01 02", suback(&GRANTED));
}

#[test]
fn one_failure_among_others() {
    let codes = [ReasonCode::GrantedQos1, ReasonCode::UnspecifiedError];
    packet("failure", Version::V311, "90 04 0102 01 80", suback(&codes));
    packet("failure", Version::V5, "90 05 0102 00 01 80", suback(&codes));
}

#[test]
fn v311_has_one_code_for_every_failure() {
    for &code in ReasonCode::ALL {
        if code.is_error() && code.allowed_in(PacketType::SubAck) {
            encodes("failure", Version::V311, suback(&[code]), "90 03 0102 80");
        }
    }
}

/// MQTT 3.1 gives the server no way to tell the client that a subscription failed.
#[test]
fn v31_cannot_tell_a_failure() {
    encodes("failure", Version::V31, suback(&[ReasonCode::NotAuthorized]), "90 03 0102 00");
}

#[test]
fn every_code_before_5() {
    for version in BEFORE_5 {
        for code in 3..=u8::MAX {
            if code != 0x80 {
                let error = DecodeError::InvalidReasonCode { packet: PacketType::SubAck, code };
                rejects("code", version, &format!("90 03 0102 {code:02x}"), error);
            }
        }
    }
}

/// [MQTT-3.9.3-2].
#[test]
fn v5_every_code() {
    let kind = PacketType::SubAck;
    for byte in 0..=u8::MAX {
        let wire = format!("90 04 0102 00 {byte:02x}");
        match ReasonCode::from_byte(byte) {
            Some(code) if code.allowed_in(kind) => {
                packet("code", Version::V5, &wire, suback(&[code]));
            }
            code => {
                let error = DecodeError::InvalidReasonCode { packet: kind, code: byte };
                rejects("code", Version::V5, &wire, error);
                if let Some(code) = code {
                    let error = EncodeError::ReasonNotAllowed { packet: kind, code };
                    for version in ALL {
                        refuses("code", version, suback(&[code]), error);
                    }
                }
            }
        }
    }
}

#[test]
fn v5_properties() {
    let explained = SubAck {
        reason_string: Some("why"),
        user_properties: UserProperties::new(&[("k", "v")]),
        ..SubAck::new(id(0x0102), &GRANTED)
    };
    let wire = "90 13 0102 0d | 1f <why> | 26 <k> <v> | 00 01 02";
    packet("properties", Version::V5, wire, Packet::SubAck(explained));
    for version in BEFORE_5 {
        let wire = "90 05 0102 00 01 02";
        encodes("properties", version, Packet::SubAck(explained), wire);
    }
}

#[test]
fn lengths() {
    for version in ALL {
        let field = "packet identifier";
        rejects("empty", version, "90 00", DecodeError::Truncated { field });
        let zero = DecodeError::ZeroPacketId { packet: PacketType::SubAck };
        rejects("identifier 0", version, "90 04 0000 00 00", zero);
    }
    let field = "property length";
    rejects("no properties", Version::V5, "90 02 0102", DecodeError::Truncated { field });
}
