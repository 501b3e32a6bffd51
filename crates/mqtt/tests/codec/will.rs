//! The will of a CONNECT packet.

use tidegate_mqtt::{
    Connect, DecodeError, Packet, PayloadFormat, PropertyId, PropertyOwner, QoS, StringError, TopicError,
    UserProperties, Version, Will, WillProperties,
};

use crate::check::{decode, name, packet, rejects};
use crate::connect::plain;
use crate::wire::{bytes, hex};

fn with_will(version: Version, will: Will<'_>) -> Packet<'_> {
    Packet::Connect(Connect { will: Some(will), ..plain(version) })
}

fn will(qos: QoS, retain: bool) -> Will<'static> {
    Will { topic: name("t"), payload: b"bye", qos, retain, properties: WillProperties::default() }
}

#[test]
fn in_every_version() {
    let cases = [
        (Version::V31, "10 17 <MQIsdp> 03 06 003c <c> <t> <bye>"),
        (Version::V311, "10 15 <MQTT> 04 06 003c <c> <t> <bye>"),
        (Version::V5, "10 17 <MQTT> 05 06 003c 00 <c> 00 <t> <bye>"),
    ];
    for (version, wire) in cases {
        let connect = with_will(version, will(QoS::AtMostOnce, false));
        packet("will", version, wire, connect);
    }
}

#[test]
fn qos_and_retain() {
    let v311 = Version::V311;
    let cases = [
        ("0e", QoS::AtLeastOnce, false),
        ("16", QoS::ExactlyOnce, false),
        ("26", QoS::AtMostOnce, true),
        ("36", QoS::ExactlyOnce, true),
    ];
    for (flags, qos, retain) in cases {
        let wire = format!("10 15 <MQTT> 04 {flags} 003c <c> <t> <bye>");
        packet("will", v311, &wire, with_will(v311, will(qos, retain)));
    }
}

#[test]
fn the_payload_may_be_empty_or_binary() {
    let empty = Will { payload: b"", ..will(QoS::AtMostOnce, false) };
    let wire = "10 12 <MQTT> 04 06 003c <c> <t> <>";
    packet("empty", Version::V311, wire, with_will(Version::V311, empty));
    let binary = Will { payload: b"\x00\xff", ..will(QoS::AtMostOnce, false) };
    let wire = "10 14 <MQTT> 04 06 003c <c> <t> 0002 00ff";
    packet("binary", Version::V311, wire, with_will(Version::V311, binary));
}

#[test]
fn all_properties() {
    let properties = WillProperties {
        delay_interval: Some(5),
        payload_format: Some(PayloadFormat::Utf8),
        message_expiry: Some(0x0102_0304),
        content_type: Some("x"),
        response_topic: Some(name("r/s")),
        correlation_data: Some(b"\x00"),
        user_properties: UserProperties::new(&[("b", "1"), ("a", "2")]),
        raw: &[],
    };
    let will = Will { properties, ..will(QoS::AtMostOnce, false) };
    let wire = "10 3f <MQTT> 05 06 003c 00 <c> 28 | 18 00000005 | 01 01 | 02 01020304 | 03 <x> | 08 <r/s>
        | 09 0001 00 | 26 <b> <1> | 26 <a> <2> | <t> <bye>";
    packet("all properties", Version::V5, wire, with_will(Version::V5, will));
}

/// The server uses the delay and reduces the expiry; it forwards the other properties unaltered, in their order
/// ([MQTT-3.1.3-10]).
#[test]
fn message_properties_are_copied() {
    let wire = bytes(
        "10 31 <MQTT> 05 06 003c 00 <c> 1a | 26 <b> <1> | 02 00000009 | 01 00 | 18 00000005 | 26 <a> <2> | <t> <bye>",
    );
    let Ok(Packet::Connect(Connect { will: Some(will), .. })) = decode(Version::V5, &wire) else {
        panic!("a CONNECT packet with a will: {:?}", decode(Version::V5, &wire));
    };
    let mut copied = b"before".to_vec();
    will.properties.copy_forwardable(&mut copied);
    let expected = bytes("'before' 26 <b> <1> | 01 00 | 26 <a> <2>");
    assert_eq!(hex(&copied), hex(&expected));
}

/// [MQTT-3.1.3-11], [MQTT-3.3.2-2].
#[test]
fn the_topic_is_a_topic_name() {
    let string = |error| DecodeError::InvalidString { field: "will topic", error };
    let topic = |error| DecodeError::InvalidTopicName { field: "will topic", error };
    let cases = [
        ("<>", topic(TopicError::Empty)),
        ("<+>", topic(TopicError::Wildcard)),
        ("<#>", topic(TopicError::Wildcard)),
        ("0001 ff", string(StringError::IllFormed)),
        ("0001 00", string(StringError::Null)),
    ];
    for (text, error) in cases {
        let len = if text == "<>" { "11" } else { "12" };
        let wire = format!("10 {len} <MQTT> 04 06 003c <c> {text} <>");
        rejects(text, Version::V311, &wire, error);
    }
}

/// [MQTT-3.1.2-9].
#[test]
fn the_flag_announces_topic_and_payload() {
    let missing = |field| DecodeError::Truncated { field };
    let v311 = Version::V311;
    rejects("no topic", v311, "10 0d <MQTT> 04 06 003c <c>", missing("will topic"));
    rejects("no payload", v311, "10 10 <MQTT> 04 06 003c <c> <t>", missing("will payload"));
    rejects("no properties", Version::V5, "10 0e <MQTT> 05 06 003c 00 <c>", missing("property length"));
}

#[test]
fn the_properties_of_the_packet_do_not_belong_to_the_will() {
    let error =
        DecodeError::PropertyNotAllowed { property: PropertyId::SessionExpiryInterval, owner: PropertyOwner::Will };
    let wire = "10 19 <MQTT> 05 06 003c 00 <c> 05 | 11 00000001 | <t> <>";
    rejects("session expiry", Version::V5, wire, error);
}
