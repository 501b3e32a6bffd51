//! AUTH packets.

use tidegate_mqtt::{
    Auth, DecodeError, EncodeError, Packet, PacketType, PropertyId, ReasonCode, UserProperties, Version,
};

use crate::check::{BEFORE_5, packet, refuses, rejects};

fn with_method(reason_code: ReasonCode) -> Auth<'static> {
    Auth { reason_code, authentication_method: Some("m"), ..Auth::default() }
}

#[test]
fn the_short_form_is_success() {
    packet("short", Version::V5, "f0 00", Packet::Auth(Auth::default()));
}

/// [MQTT-3.15.2-1].
#[test]
fn every_reason_code() {
    let kind = PacketType::Auth;
    for byte in 0..=u8::MAX {
        let wire = format!("f0 06 {byte:02x} 04 | 15 <m>");
        match ReasonCode::from_byte(byte) {
            Some(code) if code.allowed_in(kind) => {
                packet("reason", Version::V5, &wire, Packet::Auth(with_method(code)));
            }
            code => {
                let error = DecodeError::InvalidReasonCode { packet: kind, code: byte };
                rejects("reason", Version::V5, &wire, error);
                if let Some(code) = code {
                    let error = EncodeError::ReasonNotAllowed { packet: kind, code };
                    refuses("reason", Version::V5, Packet::Auth(with_method(code)), error);
                }
            }
        }
    }
    let codes = ReasonCode::ALL.iter().filter(|code| code.allowed_in(kind));
    assert_eq!(codes.count(), 3);
}

#[test]
fn all_properties() {
    let auth = Auth {
        authentication_data: Some(b"\x00\xff"),
        reason_string: Some("why"),
        user_properties: UserProperties::new(&[("k", "v")]),
        ..with_method(ReasonCode::ContinueAuthentication)
    };
    let wire = "f0 18 18 16 | 15 <m> | 16 0002 00ff | 1f <why> | 26 <k> <v>";
    packet("all properties", Version::V5, wire, Packet::Auth(auth));
}

#[test]
fn the_method_is_missed() {
    let kind = PacketType::Auth;
    let error = DecodeError::MissingProperty { packet: kind, property: PropertyId::AuthenticationMethod };
    for wire in ["f0 02 18 00", "f0 02 00 00", "f0 06 18 04 | 16 0001 00"] {
        rejects("no method", Version::V5, wire, error);
    }
    let error = EncodeError::MissingField { packet: kind, field: "authentication method" };
    let cases = [
        Auth { authentication_method: None, ..with_method(ReasonCode::ContinueAuthentication) },
        Auth { authentication_data: Some(b""), ..Auth::default() },
        Auth { reason_string: Some(""), ..Auth::default() },
        Auth { user_properties: UserProperties::new(&[("", "")]), ..Auth::default() },
    ];
    for auth in cases {
        refuses("no method", Version::V5, Packet::Auth(auth), error);
    }
}

#[test]
fn it_does_not_exist_before_5() {
    for version in BEFORE_5 {
        let error = DecodeError::NotInVersion { packet: PacketType::Auth, version };
        rejects("AUTH", version, "f0 00", error);
        rejects("AUTH", version, "f0 06 18 04 | 15 <m>", error);
        let error = EncodeError::NotInVersion { element: "AUTH", version };
        refuses("AUTH", version, Packet::Auth(Auth::default()), error);
    }
}

#[test]
fn lengths() {
    let error = DecodeError::Truncated { field: "property length" };
    rejects("reason alone", Version::V5, "f0 01 18", error);
    let error = DecodeError::TrailingBytes { packet: PacketType::Auth, count: 1 };
    rejects("long", Version::V5, "f0 07 18 04 | 15 <m> | 00", error);
}
