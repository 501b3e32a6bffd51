//! PUBACK, PUBREC, PUBREL and PUBCOMP packets, which differ in their type and Reason Codes only.

use tidegate_mqtt::{
    DecodeError, EncodeError, Packet, PacketId, PacketType, PubAck, PubComp, PubRec, PubRel, ReasonCode, StringError,
    UserProperties, Version,
};

use crate::check::{ALL, BEFORE_5, decodes, encodes, id, packet, refuses, rejects};

const KINDS: [(PacketType, &str); 4] =
    [(PacketType::PubAck, "40"), (PacketType::PubRec, "50"), (PacketType::PubRel, "62"), (PacketType::PubComp, "70")];

/// A packet of the type with these contents.
fn ack<'a>(
    kind: PacketType,
    packet_id: PacketId,
    reason_code: ReasonCode,
    reason_string: Option<&'a str>,
    user_properties: UserProperties<'a>,
) -> Packet<'a> {
    macro_rules! ack {
        ($name:ident) => {
            Packet::$name($name { reason_string, user_properties, ..$name::new(packet_id, reason_code) })
        };
    }
    match kind {
        PacketType::PubAck => ack!(PubAck),
        PacketType::PubRec => ack!(PubRec),
        PacketType::PubRel => ack!(PubRel),
        PacketType::PubComp => ack!(PubComp),
        other => panic!("{other} is not one of the four"),
    }
}

fn plain(kind: PacketType, reason_code: ReasonCode) -> Packet<'static> {
    ack(kind, id(0x0102), reason_code, None, UserProperties::EMPTY)
}

/// A failure that the type may report.
fn failure(kind: PacketType) -> ReasonCode {
    match kind {
        PacketType::PubAck | PacketType::PubRec => ReasonCode::QuotaExceeded,
        _ => ReasonCode::PacketIdentifierNotFound,
    }
}

#[test]
fn success_is_short_in_every_version() {
    for (kind, first) in KINDS {
        for version in ALL {
            let wire = format!("{first} 02 0102");
            packet("success", version, &wire, plain(kind, ReasonCode::Success));
        }
    }
}

#[test]
fn v5_longer_forms_of_success() {
    for (kind, first) in KINDS {
        for tail in ["03 0102 00", "04 0102 00 00"] {
            let wire = format!("{first} {tail}");
            decodes("long", Version::V5, &wire, plain(kind, ReasonCode::Success));
        }
    }
}

#[test]
fn v5_failure_without_properties() {
    for (kind, first) in KINDS {
        let code = failure(kind);
        let wire = format!("{first} 03 0102 {:02x}", code.byte());
        packet("failure", Version::V5, &wire, plain(kind, code));
        let wire = format!("{first} 04 0102 {:02x} 00", code.byte());
        decodes("no properties", Version::V5, &wire, plain(kind, code));
    }
}

#[test]
fn v5_properties() {
    let pairs = UserProperties::new(&[("a", "1"), ("a", "2"), ("", "")]);
    for (kind, first) in KINDS {
        let code = failure(kind);
        let wire = format!("{first} 1d 0102 {:02x} 19 | 1f <why> | 26 <a> <1> | 26 <a> <2> | 26 <> <>", code.byte());
        let packet_ = ack(kind, id(0x0102), code, Some("why"), pairs);
        packet("properties", Version::V5, &wire, packet_);
        let wire = format!("{first} 0a 0102 00 06 | 1f <why>");
        let packet_ = ack(kind, id(0x0102), ReasonCode::Success, Some("why"), UserProperties::EMPTY);
        packet("success, explained", Version::V5, &wire, packet_);
    }
}

#[test]
fn before_5_only_the_packet_identifier_is_sent() {
    let pairs = UserProperties::new(&[("a", "1")]);
    for (kind, first) in KINDS {
        for version in BEFORE_5 {
            let packet = ack(kind, id(0x0102), failure(kind), Some("why"), pairs);
            encodes("failure", version, packet, &format!("{first} 02 0102"));
        }
    }
}

/// [MQTT-3.4.2-1], [MQTT-3.5.2-1], [MQTT-3.6.2-1], [MQTT-3.7.2-1].
#[test]
fn v5_every_reason_code() {
    for (kind, first) in KINDS {
        for byte in 0..=u8::MAX {
            let wire = format!("{first} 04 0102 {byte:02x} 00");
            match ReasonCode::from_byte(byte) {
                Some(code) if code.allowed_in(kind) => {
                    decodes("reason code", Version::V5, &wire, plain(kind, code));
                }
                code => {
                    let error = DecodeError::InvalidReasonCode { packet: kind, code: byte };
                    rejects("reason code", Version::V5, &wire, error);
                    if let Some(code) = code {
                        let error = EncodeError::ReasonNotAllowed { packet: kind, code };
                        refuses("reason code", Version::V5, plain(kind, code), error);
                    }
                }
            }
        }
    }
}

#[test]
fn the_packet_identifier_is_not_zero() {
    for (kind, first) in KINDS {
        for version in ALL {
            let error = DecodeError::ZeroPacketId { packet: kind };
            rejects("zero", version, &format!("{first} 02 0000"), error);
        }
    }
}

#[test]
fn every_packet_identifier_is_carried() {
    for number in [1, 2, 0x00FF, 0x0100, 0x7FFF, 0x8000, 0xFFFF] {
        let ack = Packet::PubAck(PubAck::new(id(number), ReasonCode::Success));
        for version in ALL {
            packet("identifier", version, &format!("40 02 {number:04x}"), ack);
        }
    }
}

#[test]
fn lengths() {
    for (kind, first) in KINDS {
        for version in ALL {
            let error = DecodeError::Truncated { field: "packet identifier" };
            rejects("empty", version, &format!("{first} 00"), error);
            rejects("half", version, &format!("{first} 01 01"), error);
        }
        for version in BEFORE_5 {
            let error = DecodeError::TrailingBytes { packet: kind, count: 1 };
            rejects("long", version, &format!("{first} 03 0102 00"), error);
        }
        let error = DecodeError::TrailingBytes { packet: kind, count: 2 };
        let wire = format!("{first} 06 0102 00 00 ffff");
        rejects("long", Version::V5, &wire, error);
        let error = DecodeError::Truncated { field: "properties" };
        let wire = format!("{first} 04 0102 00 01");
        rejects("properties", Version::V5, &wire, error);
    }
}

/// [MQTT-1.5.7-1], [MQTT-1.5.4-2].
#[test]
fn v5_strings_are_checked() {
    let invalid = |field, error| DecodeError::InvalidString { field, error };
    let ill = StringError::IllFormed;
    let cases = [
        ("08 0102 00 04 1f 0001 ff", "reason string", ill),
        ("0a 0102 00 06 26 0001 ff <>", "user property name", ill),
        ("0a 0102 00 06 26 <> 0001 ff", "user property value", ill),
        ("0a 0102 00 06 26 <> 0001 00", "user property value", StringError::Null),
    ];
    for (_, first) in KINDS {
        for (tail, field, error) in cases {
            let wire = format!("{first} {tail}");
            rejects(field, Version::V5, &wire, invalid(field, error));
        }
    }
}
