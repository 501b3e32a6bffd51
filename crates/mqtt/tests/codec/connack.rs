//! CONNACK packets.

use std::num::{NonZeroU16, NonZeroU32};

use tidegate_mqtt::{
    ConnAck, ConnAckProperties, ConnectReturnCode, DecodeError, EncodeError, Packet, PacketType, QoS, ReasonCode,
    UserProperties, Version,
};

use crate::check::{BEFORE_5, decodes, encodes, packet, refuses, rejects};

fn connack(session_present: bool, reason_code: ReasonCode) -> Packet<'static> {
    Packet::ConnAck(ConnAck { session_present, reason_code, properties: ConnAckProperties::default() })
}

#[test]
fn accepted_in_every_version() {
    let accepted = connack(false, ReasonCode::Success);
    packet("accepted", Version::V31, "20 02 00 00", accepted);
    packet("accepted", Version::V311, "20 02 00 00", accepted);
    packet("accepted", Version::V5, "20 03 00 00 00", accepted);
}

#[test]
fn session_present() {
    let present = connack(true, ReasonCode::Success);
    packet("session present", Version::V311, "20 02 01 00", present);
    packet("session present", Version::V5, "20 03 01 00 00", present);
}

/// MQTT 3.1 reserves the byte and asks nothing of it.
#[test]
fn v31_has_no_session_present() {
    let absent = connack(false, ReasonCode::Success);
    encodes("session present", Version::V31, connack(true, ReasonCode::Success), "20 02 00 00");
    decodes("session present", Version::V31, "20 02 01 00", absent);
    decodes("reserved byte", Version::V31, "20 02 ff 00", absent);
}

/// [MQTT-3.2.2-1].
#[test]
fn the_other_flags_are_reserved() {
    let error = DecodeError::ReservedBits { field: "connect acknowledge flags" };
    for bit in 1..8 {
        let flags = 1 << bit;
        rejects("flags", Version::V311, &format!("20 02 {flags:02x} 00"), error);
        rejects("flags", Version::V5, &format!("20 03 {flags:02x} 00 00"), error);
    }
}

#[test]
fn every_return_code_before_5() {
    for version in BEFORE_5 {
        for byte in 0..=5 {
            let reason = ConnectReturnCode::from_byte(byte).unwrap().reason();
            let wire = format!("20 02 00 {byte:02x}");
            packet("return code", version, &wire, connack(false, reason));
        }
        for code in 6..=u8::MAX {
            let error = DecodeError::InvalidReasonCode { packet: PacketType::ConnAck, code };
            rejects("return code", version, &format!("20 02 00 {code:02x}"), error);
        }
    }
}

/// [MQTT-3.2.2-6] of 3.1.1: without a return code there is no CONNACK.
#[test]
fn before_5_some_reasons_have_no_connack() {
    for version in BEFORE_5 {
        let code = ReasonCode::MalformedPacket;
        let error = EncodeError::NoReturnCode { code };
        refuses("malformed packet", version, connack(false, code), error);
    }
}

/// [MQTT-3.2.2-8].
#[test]
fn every_reason_code_in_5() {
    let kind = PacketType::ConnAck;
    for byte in 0..=u8::MAX {
        let wire = format!("20 03 00 {byte:02x} 00");
        match ReasonCode::from_byte(byte) {
            Some(code) if code.allowed_in(kind) => {
                packet("reason code", Version::V5, &wire, connack(false, code));
            }
            code => {
                let error = DecodeError::InvalidReasonCode { packet: kind, code: byte };
                rejects("reason code", Version::V5, &wire, error);
                if let Some(code) = code {
                    let error = EncodeError::ReasonNotAllowed { packet: kind, code };
                    refuses("reason code", Version::V5, connack(false, code), error);
                }
            }
        }
    }
}

/// [MQTT-3.2.2-6], [MQTT-3.2.2-4] of 3.1.1.
#[test]
fn a_refusal_reports_no_session() {
    let refused = connack(true, ReasonCode::NotAuthorized);
    encodes("refused", Version::V311, refused, "20 02 00 05");
    encodes("refused", Version::V5, refused, "20 03 00 87 00");
    let error = DecodeError::SessionPresentWithError;
    rejects("refused", Version::V311, "20 02 01 05", error);
    rejects("refused", Version::V5, "20 03 01 87 00", error);
}

fn all_properties() -> ConnAckProperties<'static> {
    ConnAckProperties {
        session_expiry_interval: Some(0x0102_0304),
        receive_maximum: NonZeroU16::new(0x1011),
        maximum_qos: Some(QoS::AtLeastOnce),
        retain_available: Some(false),
        maximum_packet_size: NonZeroU32::new(0x2021_2223),
        assigned_client_identifier: Some("id"),
        topic_alias_maximum: Some(0x3031),
        reason_string: Some("why"),
        user_properties: UserProperties::new(&[("k", "v")]),
        wildcard_subscription_available: Some(true),
        subscription_identifier_available: Some(false),
        shared_subscription_available: Some(true),
        server_keep_alive: Some(0x4041),
        response_information: Some("ri"),
        server_reference: Some("sr"),
        authentication_method: Some("m"),
        authentication_data: Some(b"\xff"),
    }
}

#[test]
fn all_properties_in_5() {
    let wire =
        "20 44 01 00 41 | 11 01020304 | 21 1011 | 24 01 | 25 00 | 27 20212223 | 12 <id> | 22 3031 | 28 01 | 29 00
        | 2a 01 | 13 4041 | 1a <ri> | 1c <sr> | 15 <m> | 16 0001 ff | 1f <why> | 26 <k> <v>";
    let connack = ConnAck { session_present: true, reason_code: ReasonCode::Success, properties: all_properties() };
    packet("all properties", Version::V5, wire, Packet::ConnAck(connack));
}

#[test]
fn before_5_properties_are_left_out() {
    let connack = ConnAck { session_present: false, reason_code: ReasonCode::Success, properties: all_properties() };
    for version in BEFORE_5 {
        encodes("properties", version, Packet::ConnAck(connack), "20 02 00 00");
    }
}

/// Maximum QoS can be 0 or 1; its absence says 2 ([MQTT-3.2.2-9]).
#[test]
fn a_maximum_qos_of_2_is_left_out() {
    let mut connack = ConnAck::default();
    connack.properties.maximum_qos = Some(QoS::ExactlyOnce);
    encodes("maximum QoS", Version::V5, Packet::ConnAck(connack), "20 03 00 00 00");
    connack.properties.maximum_qos = Some(QoS::AtMostOnce);
    let wire = "20 05 00 00 02 24 00";
    packet("maximum QoS", Version::V5, wire, Packet::ConnAck(connack));
}

#[test]
fn lengths() {
    let trailing = DecodeError::TrailingBytes { packet: PacketType::ConnAck, count: 1 };
    rejects("long", Version::V31, "20 03 00 00 00", trailing);
    rejects("long", Version::V311, "20 03 00 00 00", trailing);
    rejects("long", Version::V5, "20 04 00 00 00 00", trailing);
    let field = "connect return code";
    rejects("short", Version::V311, "20 01 00", DecodeError::Truncated { field });
    let field = "property length";
    rejects("short", Version::V5, "20 02 00 00", DecodeError::Truncated { field });
    let field = "connect acknowledge flags";
    rejects("empty", Version::V5, "20 00", DecodeError::Truncated { field });
}

#[test]
fn refused_is_a_refusal() {
    let refused = ConnAck::refused(ReasonCode::ServerBusy);
    packet("refused", Version::V5, "20 03 00 89 00", Packet::ConnAck(refused));
    encodes("refused", Version::V311, Packet::ConnAck(refused), "20 02 00 03");
}
