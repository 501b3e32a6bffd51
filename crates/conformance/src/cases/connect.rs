//! CONNECT: its place, its header, its flags, and packets that are not one.

use crate::case::Case;
use crate::client::Arrival;
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::version::Version;
use crate::wire::reason_codes::{
    BAD_USER_NAME_OR_PASSWORD, MALFORMED_PACKET, NOT_AUTHORIZED, PROTOCOL_ERROR, UNSUPPORTED_PROTOCOL_VERSION,
};
use crate::wire::{Bytes, Packet, PacketType, Property, Publish, Subscribe, Will};

pub(super) const CASES: &[Case] = &[
    Case::all("connect.comes_first", comes_first)
        .proves_311(&["MQTT-3.1.0-1"])
        .proves_5(&["MQTT-3.1.0-1", "MQTT-3.14.0-1"]),
    Case::all("connect.comes_once", comes_once)
        .proves_311(&["MQTT-3.1.0-2", "MQTT-4.8.0-1"])
        .proves_5(&["MQTT-3.1.0-2"]),
    Case::both("connect.other_protocols", other_protocols)
        .proves_311(&["MQTT-3.1.0-1", "MQTT-3.2.2-6"])
        .proves_5(&["MQTT-3.1.0-1", "MQTT-3.14.0-1"]),
    Case::both("connect.wrong_protocol_name", wrong_protocol_name)
        .proves_311(&["MQTT-3.1.2-1"])
        .proves_5(&["MQTT-3.1.2-1"]),
    Case::v311("connect.unknown_level_is_refused", unknown_level_is_refused)
        .proves_311(&["MQTT-3.1.2-2", "MQTT-3.2.2-5"]),
    Case::v5("connect.unknown_version_closes", unknown_version_closes).proves_5(&["MQTT-3.1.2-2"]),
    Case::v31("connect.unknown_level_of_31_closes", unknown_level_of_31_closes),
    Case::both("connect.reserved_flag", reserved_flag)
        .proves_311(&["MQTT-3.1.2-3", "MQTT-2.2.2-1", "MQTT-3.1.4-1"])
        .proves_5(&["MQTT-3.1.2-3", "MQTT-2.1.3-1", "MQTT-3.1.4-1"]),
    Case::both("connect.header_flags", header_flags).proves_311(&["MQTT-2.2.2-2"]).proves_5(&["MQTT-2.1.3-1"]),
    Case::both("connect.will_flags", will_flags)
        .proves_311(&["MQTT-3.1.2-11", "MQTT-3.1.2-13", "MQTT-3.1.2-14", "MQTT-3.1.2-15"])
        .proves_5(&["MQTT-3.1.2-11", "MQTT-3.1.2-12", "MQTT-3.1.2-13"]),
    Case::both("connect.truncated_anywhere", truncated_anywhere)
        .proves_311(&["MQTT-3.1.3-1", "MQTT-3.1.3-3", "MQTT-3.1.4-1", "MQTT-3.2.2-6"])
        .proves_5(&["MQTT-3.1.3-1", "MQTT-3.1.3-3", "MQTT-3.1.4-1"]),
    Case::both("connect.remaining_length_of_five_bytes", remaining_length_of_five_bytes)
        .proves_311(&["MQTT-4.8.0-1"])
        .proves_5(&["MQTT-4.13.1-1"]),
    Case::v5("connect.overlong_integers", overlong_integers).proves_5(&["MQTT-1.5.5-1"]),
    Case::all("connect.byte_by_byte", byte_by_byte).proves_5(&["MQTT-4.2-1"]).needs(&[Feature::Qos1]),
    Case::all("connect.pipelined", pipelined)
        .proves_311(&["MQTT-3.2.0-1"])
        .proves_5(&["MQTT-3.2.0-1"])
        .needs(&[Feature::Qos1]),
    Case::both("connect.nothing_counts_after_a_refusal", nothing_counts_after_a_refusal)
        .proves_311(&["MQTT-3.1.4-5"])
        .proves_5(&["MQTT-3.1.4-6"]),
    Case::v5("connect.malformed_properties", malformed_properties).proves_5(&["MQTT-3.1.4-1", "MQTT-4.13.1-1"]),
];

/// The answers of a strict MQTT 5 broker to an invalid CONNECT.
const BROKEN: &[u8] = &[MALFORMED_PACKET, PROTOCOL_ERROR];

fn comes_first(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let subscribe = Subscribe::new(&topic, 0).id(1).encode(s.version);
    let publish = Publish::new(&topic, "early").encode(s.version);
    for (name, bytes) in
        [("ping", vec![0xc0, 0]), ("subscribe", subscribe), ("publish", publish), ("disconnect", vec![0xe0, 0])]
    {
        let mut client = s.open(name)?;
        client.send(&bytes)?;
        client.expect_refusal(&[])?;
    }
    Ok(())
}

fn comes_once(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send(&s.connection("c").encode())?;
    client.expect_error_close(&[PROTOCOL_ERROR])
}

/// Clients of other protocols: a browser, a TLS client, zeros. Each sends at least as many bytes as the MQTT packet that
/// its first bytes announce.
fn other_protocols(s: &Scenario<'_>) -> Outcome {
    let accept = "a".repeat(200);
    let browser = format!("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
    let hello = [&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3][..], &[0; 64]].concat();
    for bytes in [browser.as_bytes(), &hello, &[0; 64], &[0xff; 64]] {
        let mut client = s.open("stranger")?;
        client.send(bytes)?;
        client.expect_refusal(&[])?;
    }
    Ok(())
}

fn wrong_protocol_name(s: &Scenario<'_>) -> Outcome {
    for name in ["MQTX", "mqtt", "MQT", "MQTTT", ""] {
        let connect = s.connection("c");
        let body = Bytes::new().text(name).byte(s.version.level()).byte(connect.flags()).two(60);
        let body = if s.is_v5() { body.byte(0) } else { body };
        let mut client = s.open("c")?;
        client.send(&body.raw(&connect.payload()).packet(0x10))?;
        client.expect_refusal(&[])?;
    }
    Ok(())
}

/// A CONNECT of this version with another level byte.
fn with_level(s: &Scenario<'_>, level: u8) -> Vec<u8> {
    let name = s.version.protocol_name();
    let mut bytes = s.connection("c").encode();
    // The level follows the fixed header of two bytes and the protocol name with its length.
    if let Some(byte) = bytes.get_mut(4 + name.len()) {
        *byte = level;
    }
    bytes
}

fn unknown_level_is_refused(s: &Scenario<'_>) -> Outcome {
    let mut client = s.open("c")?;
    client.send(&with_level(s, 2))?;
    let told = client.expect_refusal(&[0x01])?;
    ensure!(told.is_some(), "MQTT-3.1.2-2: closed without CONNACK 0x01 for protocol level 2");
    Ok(())
}

fn unknown_version_closes(s: &Scenario<'_>) -> Outcome {
    for level in [6, 99] {
        let mut client = s.open("c")?;
        client.send(&with_level(s, level))?;
        client.expect_refusal(&[0x01, UNSUPPORTED_PROTOCOL_VERSION])?;
    }
    Ok(())
}

fn unknown_level_of_31_closes(s: &Scenario<'_>) -> Outcome {
    // The level does not exist, so the answer may have the form and the code of any version.
    let mut client = s.open_as(Version::V5, "c")?;
    client.send(&with_level(s, 9))?;
    client.expect_refusal(&[0x01, UNSUPPORTED_PROTOCOL_VERSION])?;
    Ok(())
}

fn reserved_flag(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("c");
    refused(s, &connect.encode_with_flags(connect.flags() | 0x01), BROKEN)
}

fn header_flags(s: &Scenario<'_>) -> Outcome {
    for flags in [0x01, 0x02, 0x04, 0x08] {
        let mut bytes = s.connection("c").encode();
        bytes.iter_mut().take(1).for_each(|first| *first |= flags);
        refused(s, &bytes, BROKEN)?;
    }
    Ok(())
}

fn will_flags(s: &Scenario<'_>) -> Outcome {
    let plain = s.connection("c");
    // Will QoS 1 and 2, and Will Retain, each without the Will Flag and the fields.
    for flags in [0x08, 0x10, 0x20] {
        refused(s, &plain.encode_with_flags(plain.flags() | flags), BROKEN)?;
    }
    let topic = s.topic("will");
    let willing = plain.clone().will(Will::new(&topic, "will"));
    refused(s, &willing.encode_with_flags(willing.flags() | 0x18), BROKEN)?;
    // The fields of a will that the flags do not announce are bytes too many.
    refused(s, &willing.encode_with_flags(plain.flags()), BROKEN)
}

fn truncated_anywhere(s: &Scenario<'_>) -> Outcome {
    let mut connect = s.connection("c").will(Will::new(&s.topic("w"), "x"));
    connect.user_name = Some("user".to_owned());
    connect.password = Some(b"password".to_vec());
    let body = connect.head(connect.flags()).raw(&connect.payload()).into_vec();
    for length in 0..body.len() {
        let cut = body.get(..length).unwrap_or_default();
        refused(s, &Bytes::new().raw(cut).packet(0x10), BROKEN)?;
    }
    // The whole packet is in order; only the credentials may be wrong.
    let mut client = s.open("whole")?;
    client.send_connect(&connect)?;
    match client.arrival()? {
        Arrival::Packet(Packet::Connack { code: 0 | 4 | 5 | BAD_USER_NAME_OR_PASSWORD | NOT_AUTHORIZED, .. }) => Ok(()),
        other => failed(format!("a CONNECT with all fields is answered with {other:?}")),
    }
}

fn remaining_length_of_five_bytes(s: &Scenario<'_>) -> Outcome {
    let mut client = s.open("c")?;
    client.send_anyway(&[0x10, 0xff, 0xff, 0xff, 0xff, 0x01]);
    client.expect_refusal(&[])?;
    let mut connected = s.connect("connected")?;
    connected.send_anyway(&[0x30, 0xff, 0xff, 0xff, 0xff, 0x01]);
    connected.expect_error_close(BROKEN)
}

/// Zero in two bytes, as a remaining length and as a property length. The sender must not write it; this project's
/// broker takes it for malformed, others may read it.
fn overlong_integers(s: &Scenario<'_>) -> Outcome {
    if !s.is_strict() {
        return skipped("a broker may read integers that are longer than needed");
    }
    let overlong_properties = Bytes::new().text(&s.topic("t")).raw(&[0x80, 0x00]).packet(0x30);
    for packet in [vec![0xc0, 0x80, 0x00], overlong_properties] {
        let mut client = s.connect("c")?;
        client.send(&packet)?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn byte_by_byte(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.open("c")?;
    let connect = s.connection("c");
    for byte in connect.encode() {
        client.send(&[byte])?;
    }
    client.expect_connack()?;
    for byte in Subscribe::new(&topic, 1).id(1).encode(s.version) {
        client.send(&[byte])?;
    }
    client.expect_success(PacketType::Suback, 1)?;
    for byte in Publish::new(&topic, "slowly").qos(1).id(2).encode(s.version) {
        client.send(&[byte])?;
    }
    client.expect_success(PacketType::Puback, 2)?;
    client.take_with("slowly")?;
    client.expect_nothing()
}

fn pipelined(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut bytes = s.connection("c").encode();
    bytes.extend(Subscribe::new(&topic, 1).id(1).encode(s.version));
    bytes.extend(Publish::new(&topic, "at once").qos(1).id(2).encode(s.version));
    bytes.extend([0xc0, 0]);
    let mut client = s.open("c")?;
    client.send(&bytes)?;
    // The client's checks fail on any packet before CONNACK.
    client.expect_connack()?;
    client.expect_success(PacketType::Suback, 1)?;
    client.expect_success(PacketType::Puback, 2)?;
    client.expect(PacketType::Pingresp)?;
    client.take_with("at once")?;
    Ok(())
}

fn nothing_counts_after_a_refusal(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut observer, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    let refused = if s.is_v5() {
        s.connection("c").with(Property::AuthenticationMethod("conformance-unknown".to_owned()))
    } else {
        let mut connect = s.connection("c").clean(false);
        connect.client_id.clear();
        connect
    };
    let mut bytes = refused.encode();
    bytes.extend(Publish::new(&topic, "from the refused").encode(s.version));
    let mut client = s.open("refused")?;
    client.send(&bytes)?;
    client.expect_refusal(&[])?;
    s.fence(&mut publisher, &mut observer)
}

fn malformed_properties(s: &Scenario<'_>) -> Outcome {
    let twice = vec![Property::ReceiveMaximum(9), Property::ReceiveMaximum(9)];
    let broken = [
        ("twice", twice),
        ("receive maximum 0", vec![Property::ReceiveMaximum(0)]),
        ("maximum packet size 0", vec![Property::MaximumPacketSize(0)]),
        ("request problem information 2", vec![Property::RequestProblemInformation(2)]),
        ("request response information 2", vec![Property::RequestResponseInformation(2)]),
        ("authentication data alone", vec![Property::AuthenticationData(vec![1])]),
        ("of another packet", vec![Property::TopicAlias(1)]),
        ("of a will", vec![Property::WillDelayInterval(1)]),
    ];
    for (name, properties) in broken {
        let mut connect = s.connection("c");
        connect.properties = properties;
        let mut client = s.open(name)?;
        client.send(&connect.encode())?;
        client.expect_malformed_connect(BROKEN)?;
    }
    // An identifier that does not exist, a length that ends within a value, a length beyond the packet.
    for properties in [&[2, 0x7f, 0][..], &[2, 0x21, 0], &[0x7f, 0x21, 0, 9]] {
        let connect = s.connection("c");
        let head = Bytes::new().text("MQTT").byte(Version::V5.level()).byte(connect.flags()).two(60);
        refused(s, &head.raw(properties).raw(&connect.payload()).packet(0x10), BROKEN)?;
    }
    Ok(())
}

/// Sends a malformed CONNECT on its own connection and expects the refusal that the version prescribes.
fn refused(s: &Scenario<'_>, bytes: &[u8], codes: &[u8]) -> Outcome {
    let mut client = s.open("c")?;
    client.send_anyway(bytes);
    client.expect_malformed_connect(codes)
}
