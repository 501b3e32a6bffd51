//! CONNECT packets as a whole; flags and wills have modules of their own.

use std::num::{NonZeroU16, NonZeroU32};

use tidegate_mqtt::{
    Connect, ConnectProperties, DecodeError, EncodeError, Packet, PacketType, PropertyId, StringError, UserProperties,
    Version,
};

use crate::check::{ALL, BEFORE_5, decode, decodes, packet, refuses, rejects};
use crate::wire::bytes;

/// A client `c` without anything optional, keep alive 60.
pub(crate) fn plain(version: Version) -> Connect<'static> {
    Connect {
        version,
        bridge: false,
        clean_start: true,
        keep_alive: 60,
        client_id: "c",
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties::default(),
    }
}

#[test]
fn plain_in_every_version() {
    let cases = [
        (Version::V31, "10 0f <MQIsdp> 03 02 003c <c>"),
        (Version::V311, "10 0d <MQTT> 04 02 003c <c>"),
        (Version::V5, "10 0e <MQTT> 05 02 003c 00 <c>"),
    ];
    for (version, wire) in cases {
        packet("plain", version, wire, Packet::Connect(plain(version)));
    }
}

#[test]
fn the_version_of_the_connection_does_not_matter() {
    for version in ALL {
        let connect = Packet::Connect(plain(Version::V5));
        packet("plain", version, "10 0e <MQTT> 05 02 003c 00 <c>", connect);
    }
}

#[test]
fn an_empty_client_identifier_is_for_the_server_to_judge() {
    for clean_start in [false, true] {
        let connect = Connect { client_id: "", clean_start, ..plain(Version::V311) };
        let flags = if clean_start { "02" } else { "00" };
        let wire = format!("10 0c <MQTT> 04 {flags} 003c <>");
        packet("empty client id", Version::V311, &wire, Packet::Connect(connect));
    }
}

#[test]
fn user_name_and_password() {
    let connect =
        |version| Packet::Connect(Connect { username: Some("user"), password: Some(b"\x00\xff"), ..plain(version) });
    let cases = [
        (Version::V31, "10 19 <MQIsdp> 03 c2 003c <c> <user> 0002 00ff"),
        (Version::V311, "10 17 <MQTT> 04 c2 003c <c> <user> 0002 00ff"),
        (Version::V5, "10 18 <MQTT> 05 c2 003c 00 <c> <user> 0002 00ff"),
    ];
    for (version, wire) in cases {
        packet("user name and password", version, wire, connect(version));
    }
}

#[test]
fn user_name_alone() {
    let connect = Connect { username: Some(""), ..plain(Version::V311) };
    let wire = "10 0f <MQTT> 04 82 003c <c> <>";
    packet("user name", Version::V311, wire, Packet::Connect(connect));
}

#[test]
fn v5_allows_a_password_without_a_user_name() {
    let connect = Connect { password: Some(b"token"), ..plain(Version::V5) };
    let wire = "10 15 <MQTT> 05 42 003c 00 <c> <token>";
    packet("password", Version::V5, wire, Packet::Connect(connect));
}

/// [MQTT-3.1.2-22] of 3.1.1.
#[test]
fn before_5_a_password_needs_a_user_name() {
    let error = DecodeError::PasswordWithoutUserName;
    rejects("password", Version::V31, "10 12 <MQIsdp> 03 42 003c <c> <p>", error);
    rejects("password", Version::V311, "10 10 <MQTT> 04 42 003c <c> <p>", error);
    for version in BEFORE_5 {
        let connect = Connect { password: Some(b"p"), ..plain(version) };
        let error = EncodeError::MissingField { packet: PacketType::Connect, field: "user name" };
        refuses("password", version, Packet::Connect(connect), error);
    }
}

/// In MQTT 3.1 the Remaining Length has the last word over the flags.
#[test]
fn v31_accepts_flags_for_an_absent_user_name_and_password() {
    let none = Packet::Connect(plain(Version::V31));
    decodes("no user name", Version::V31, "10 0f <MQIsdp> 03 c2 003c <c>", none);
    let user = Packet::Connect(Connect { username: Some("u"), ..plain(Version::V31) });
    decodes("no password", Version::V31, "10 12 <MQIsdp> 03 c2 003c <c> <u>", user);
}

/// [MQTT-3.1.2-17], [MQTT-3.1.2-19]; [MQTT-3.1.2-19], [MQTT-3.1.2-21] of 3.1.1.
#[test]
fn a_flag_announces_a_field() {
    let user = DecodeError::Truncated { field: "user name" };
    let password = DecodeError::Truncated { field: "password" };
    let v5 = Version::V5;
    rejects("user name", Version::V311, "10 0d <MQTT> 04 82 003c <c>", user);
    rejects("user name", v5, "10 0e <MQTT> 05 82 003c 00 <c>", user);
    rejects("password", Version::V311, "10 10 <MQTT> 04 c2 003c <c> <u>", password);
    rejects("password", v5, "10 0e <MQTT> 05 42 003c 00 <c>", password);
}

/// [MQTT-3.1.2-16], [MQTT-3.1.2-18]; [MQTT-3.1.2-18], [MQTT-3.1.2-20] of 3.1.1.
#[test]
fn a_field_without_its_flag_is_left_over() {
    let error = DecodeError::TrailingBytes { packet: PacketType::Connect, count: 3 };
    rejects("left over", Version::V31, "10 12 <MQIsdp> 03 02 003c <c> <u>", error);
    rejects("left over", Version::V311, "10 10 <MQTT> 04 02 003c <c> <u>", error);
    rejects("left over", Version::V5, "10 11 <MQTT> 05 02 003c 00 <c> <u>", error);
}

#[test]
fn all_properties() {
    let connect = Connect {
        properties: ConnectProperties {
            session_expiry_interval: Some(0x0102_0304),
            receive_maximum: NonZeroU16::new(0x1011),
            maximum_packet_size: NonZeroU32::new(0x1213_1415),
            topic_alias_maximum: Some(0x1617),
            request_response_information: Some(true),
            request_problem_information: Some(false),
            user_properties: UserProperties::new(&[("k", "v"), ("k", "w")]),
            authentication_method: Some("m"),
            authentication_data: Some(b"\x00\x01"),
        },
        ..plain(Version::V5)
    };
    let wire = "10 39 <MQTT> 05 02 003c 2b | 11 01020304 | 21 1011 | 27 12131415 | 22 1617 | 19 01 | 17 00
        | 15 <m> | 16 0002 0001 | 26 <k> <v> | 26 <k> <w> | <c>";
    packet("all properties", Version::V5, wire, Packet::Connect(connect));
}

#[test]
fn properties_come_in_any_order() {
    let connect = Connect {
        properties: ConnectProperties {
            receive_maximum: NonZeroU16::new(2),
            topic_alias_maximum: Some(0),
            ..ConnectProperties::default()
        },
        ..plain(Version::V5)
    };
    let wire = "10 14 <MQTT> 05 02 003c 06 | 22 0000 | 21 0002 | <c>";
    decodes("another order", Version::V5, wire, Packet::Connect(connect));
}

#[test]
fn authentication_data_needs_a_method() {
    let packet = PacketType::Connect;
    let property = PropertyId::AuthenticationMethod;
    let wire = "10 12 <MQTT> 05 02 003c 04 | 16 0001 00 | <c>";
    let error = DecodeError::MissingProperty { packet, property };
    rejects("data without method", Version::V5, wire, error);
    let connect = Connect {
        properties: ConnectProperties { authentication_data: Some(b""), ..ConnectProperties::default() },
        ..plain(Version::V5)
    };
    let error = EncodeError::MissingField { packet, field: "authentication method" };
    refuses("data without method", Version::V5, Packet::Connect(connect), error);
}

/// [MQTT-3.1.2-1], [MQTT-3.1.2-2].
#[test]
fn protocol_names_and_levels() {
    let level = |level| DecodeError::UnsupportedVersion { level };
    let cases = [
        ("a future level", "10 0d <MQTT> 06 02 003c <c>", level(6)),
        ("level 3 of MQTT", "10 0d <MQTT> 03 02 003c <c>", level(3)),
        ("level 0", "10 0d <MQTT> 00 02 003c <c>", level(0)),
        ("a bridge's level beyond what bridges agree on", "10 0d <MQTT> 85 02 003c <c>", level(0x85)),
        ("a bridge's level of the other name", "10 0d <MQTT> 83 02 003c <c>", level(0x83)),
        ("level 4 of MQIsdp", "10 0f <MQIsdp> 04 02 003c <c>", level(4)),
        ("level 5 of MQIsdp", "10 0f <MQIsdp> 05 02 003c <c>", level(5)),
        ("lower case", "10 0d <mqtt> 04 02 003c <c>", DecodeError::InvalidProtocolName),
        ("longer", "10 0e <MQTTX> 04 02 003c <c>", DecodeError::InvalidProtocolName),
        ("empty", "10 09 <> 04 02 003c <c>", DecodeError::InvalidProtocolName),
        ("ill-formed", "10 0a 0001 ff 04 02 003c <c>", DecodeError::InvalidProtocolName),
    ];
    for (case, wire, error) in cases {
        rejects(case, Version::V5, wire, error);
    }
}

/// Mosquitto's bridges add 0x80 to the level unless `try_private` is false.
#[test]
fn a_bridge_says_so_by_its_level() {
    for (wire, version) in
        [("10 0d <MQTT> 84 02 003c <c>", Version::V311), ("10 0f <MQIsdp> 83 02 003c <c>", Version::V31)]
    {
        packet("bridge", version, wire, Packet::Connect(Connect { bridge: true, ..plain(version) }));
    }
}

/// [MQTT-3.1.3-4], [MQTT-3.1.3-12].
#[test]
fn strings_must_be_utf_8() {
    let error = |field, error| DecodeError::InvalidString { field, error };
    let cases = [
        ("10 0d <MQTT> 04 02 003c 0001 ff", error("client identifier", StringError::IllFormed)),
        ("10 0d <MQTT> 04 02 003c 0001 00", error("client identifier", StringError::Null)),
        ("10 10 <MQTT> 04 82 003c <c> 0001 80", error("user name", StringError::IllFormed)),
        ("10 10 <MQTT> 04 82 003c <c> 0001 00", error("user name", StringError::Null)),
    ];
    for (wire, error) in cases {
        rejects("string", Version::V311, wire, error);
    }
}

/// [MQTT-3.1.3-5], in every version: between 1 and 23 of these characters.
#[test]
fn client_identifiers_that_every_server_takes() {
    const ALPHABET: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for version in ALL {
        for len in 1..=23 {
            for start in (0..ALPHABET.len() - len).step_by(7) {
                let client_id = &ALPHABET[start..start + len];
                let connect = Connect { client_id, ..plain(version) };
                let mut wire = Vec::new();
                connect.encode(&mut wire).unwrap();
                assert_eq!(decode(version, &wire), Ok(Packet::Connect(connect)));
            }
        }
    }
}

/// The codec leaves longer ones and other characters to the server, too.
#[test]
fn client_identifiers_that_a_server_may_take() {
    for client_id in ["a client with spaces", "gr\u{FC}n/\u{1F30A}", "+/#", "x".repeat(1_000).as_str()] {
        for version in ALL {
            let connect = Connect { client_id, ..plain(version) };
            let mut wire = Vec::new();
            connect.encode(&mut wire).unwrap();
            assert_eq!(decode(version, &wire), Ok(Packet::Connect(connect)), "{client_id}");
        }
    }
}

/// [MQTT-3.1.2-20], [MQTT-3.1.2-21]: every number of seconds is carried.
#[test]
fn keep_alive_is_a_number_of_seconds() {
    for (keep_alive, encoded) in [(0, "0000"), (1, "0001"), (256, "0100"), (65_535, "ffff")] {
        let connect = Connect { keep_alive, ..plain(Version::V311) };
        let wire = format!("10 0d <MQTT> 04 02 {encoded} <c>");
        packet("keep alive", Version::V311, &wire, Packet::Connect(connect));
    }
}

/// [MQTT-3.1.3-1], [MQTT-3.1.3-3], [MQTT-3.1.4-1]: each field is there in its place, or the packet ends too early.
#[test]
fn every_field_is_missed_by_its_name() {
    let body = bytes("<MQTT> 05 c6 003c 00 <c> 00 <t> <p> <u> <w>");
    let fields = [
        (6, "protocol name"),
        (7, "protocol level"),
        (8, "connect flags"),
        (10, "keep alive"),
        (11, "property length"),
        (14, "client identifier"),
        (15, "property length"),
        (18, "will topic"),
        (21, "will payload"),
        (24, "user name"),
        (27, "password"),
    ];
    let mut start = 0;
    for (end, field) in fields {
        for len in start..end {
            let error = DecodeError::Truncated { field };
            assert_eq!(Connect::decode(0x10, &body[..len]), Err(error), "{len} bytes");
        }
        start = end;
    }
    assert_eq!(body.len(), start);
    assert!(Connect::decode(0x10, &body).is_ok());
}

#[test]
fn decoding_borrows() {
    let wire = bytes("10 17 <MQTT> 04 c2 003c <c> <user> <pw>");
    let Ok(Packet::Connect(connect)) = decode(Version::V311, &wire) else {
        panic!("a CONNECT packet");
    };
    let range = wire.as_ptr_range();
    assert!(range.contains(&connect.client_id.as_ptr()));
    assert!(range.contains(&connect.username.unwrap().as_ptr()));
    assert!(range.contains(&connect.password.unwrap().as_ptr()));
}
