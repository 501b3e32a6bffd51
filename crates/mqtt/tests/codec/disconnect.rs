//! DISCONNECT packets.

use tidegate_mqtt::{DecodeError, Disconnect, EncodeError, Packet, PacketType, ReasonCode, UserProperties, Version};

use crate::check::{BEFORE_5, decodes, encodes, packet, refuses, rejects};

fn disconnect(reason_code: ReasonCode) -> Packet<'static> {
    Packet::Disconnect(Disconnect::new(reason_code))
}

#[test]
fn normal_in_every_version() {
    let normal = disconnect(ReasonCode::NORMAL_DISCONNECTION);
    packet("normal", Version::V31, "e0 00", normal);
    packet("normal", Version::V311, "e0 00", normal);
    packet("normal", Version::V5, "e0 00", normal);
    assert_eq!(normal, Packet::Disconnect(Disconnect::default()));
}

#[test]
fn v5_longer_forms_of_normal() {
    let normal = disconnect(ReasonCode::NORMAL_DISCONNECTION);
    decodes("reason", Version::V5, "e0 01 00", normal);
    decodes("reason, no properties", Version::V5, "e0 02 00 00", normal);
}

/// [MQTT-3.14.2-1].
#[test]
fn v5_every_reason_code() {
    let kind = PacketType::Disconnect;
    for byte in 1..=u8::MAX {
        let wire = format!("e0 01 {byte:02x}");
        match ReasonCode::from_byte(byte) {
            Some(code) if code.allowed_in(kind) => {
                packet("reason", Version::V5, &wire, disconnect(code));
                let wire = format!("e0 02 {byte:02x} 00");
                decodes("no properties", Version::V5, &wire, disconnect(code));
            }
            code => {
                let error = DecodeError::InvalidReasonCode { packet: kind, code: byte };
                rejects("reason", Version::V5, &wire, error);
                if let Some(code) = code {
                    let error = EncodeError::ReasonNotAllowed { packet: kind, code };
                    refuses("reason", Version::V5, disconnect(code), error);
                }
            }
        }
    }
}

#[test]
fn v5_all_properties() {
    let all = Disconnect {
        reason_code: ReasonCode::UseAnotherServer,
        session_expiry_interval: Some(0x0102_0304),
        reason_string: Some("why"),
        user_properties: UserProperties::new(&[("k", "v")]),
        server_reference: Some("sr"),
    };
    let wire = "e0 19 9c 17 | 11 01020304 | 1c <sr> | 1f <why> | 26 <k> <v>";
    packet("all properties", Version::V5, wire, Packet::Disconnect(all));
    let success = Disconnect { session_expiry_interval: Some(0), ..Disconnect::default() };
    let wire = "e0 07 00 05 | 11 00000000";
    packet("normal with a property", Version::V5, wire, Packet::Disconnect(success));
}

#[test]
fn before_5_there_is_no_content() {
    let all = Disconnect { reason_string: Some("why"), ..Disconnect::new(ReasonCode::ServerShuttingDown) };
    for version in BEFORE_5 {
        encodes("content", version, Packet::Disconnect(all), "e0 00");
        let error = DecodeError::TrailingBytes { packet: PacketType::Disconnect, count: 1 };
        rejects("content", version, "e0 01 00", error);
    }
}

#[test]
fn v5_lengths() {
    let error = DecodeError::TrailingBytes { packet: PacketType::Disconnect, count: 1 };
    rejects("long", Version::V5, "e0 03 00 00 00", error);
    let error = DecodeError::Truncated { field: "properties" };
    rejects("short", Version::V5, "e0 02 00 01", error);
    let error = DecodeError::Truncated { field: "session expiry interval" };
    rejects("short", Version::V5, "e0 05 00 03 11 0000", error);
}
