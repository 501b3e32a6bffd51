//! Packets without an encoding.

use tidegate_mqtt::{
    Auth, ConnAck, Connect, Disconnect, EncodeError, MAX_SUBSCRIPTION_IDENTIFIER, Packet, PubAck, Publish,
    PublishProperties, QoS, ReasonCode, Subscribe, SubscriptionIdentifiers, SubscriptionOptions, Subscriptions,
    UserProperties, Version, Will, WillProperties,
};

use crate::check::{filter, id, name, refuses};
use crate::connect::plain;

const LONG: usize = 65_536;

fn too_long(field: &'static str) -> EncodeError {
    EncodeError::FieldTooLong { field, len: LONG }
}

#[test]
fn fields_over_65_535_bytes() {
    let text = "x".repeat(LONG);
    let text = text.as_str();
    let plain = plain(Version::V5);
    let will = Will {
        topic: name("t"),
        payload: text.as_bytes(),
        qos: QoS::AtMostOnce,
        retain: false,
        properties: WillProperties::default(),
    };
    let connects = [
        ("client identifier", Connect { client_id: text, ..plain }),
        ("user name", Connect { username: Some(text), ..plain }),
        ("password", Connect { password: Some(text.as_bytes()), ..plain }),
        ("will payload", Connect { will: Some(will), ..plain }),
    ];
    for (field, connect) in connects {
        refuses(field, Version::V5, Packet::Connect(connect), too_long(field));
    }
    let mut connack = ConnAck::default();
    connack.properties.assigned_client_identifier = Some(text);
    let field = "assigned client identifier";
    refuses(field, Version::V5, Packet::ConnAck(connack), too_long(field));
    let auth = Auth { authentication_method: Some(text), ..Auth::default() };
    let field = "authentication method";
    refuses(field, Version::V5, Packet::Auth(auth), too_long(field));
    let moved = Disconnect { server_reference: Some(text), ..Disconnect::new(ReasonCode::ServerMoved) };
    let field = "server reference";
    refuses(field, Version::V5, Packet::Disconnect(moved), too_long(field));
}

/// A field of exactly 65,535 bytes has an encoding.
#[test]
fn fields_of_65_535_bytes() {
    let text = "x".repeat(LONG - 1);
    let connect = Connect { client_id: &text, ..plain(Version::V311) };
    let mut out = Vec::new();
    assert_eq!(connect.encode(&mut out), Ok(()));
    assert_eq!(out.len(), 1 + 3 + 10 + 2 + 65_535);
}

/// [MQTT-1.5.4-2].
#[test]
fn the_null_character() {
    let error = |field| EncodeError::NullCharacter { field };
    let connect = Connect { client_id: "a\0b", ..plain(Version::V311) };
    refuses("client identifier", Version::V311, Packet::Connect(connect), error("client identifier"));
    let ack =
        PubAck { user_properties: UserProperties::new(&[("k", "\0")]), ..PubAck::new(id(1), ReasonCode::Success) };
    refuses("user property", Version::V5, Packet::PubAck(ack), error("user property"));
}

#[test]
fn a_subscription_identifier_over_its_range() {
    let subscriptions = [(filter("a"), SubscriptionOptions::new(QoS::AtMostOnce))];
    let subscribe = Subscribe {
        packet_id: id(1),
        subscription_identifier: Some(MAX_SUBSCRIPTION_IDENTIFIER + 1),
        user_properties: UserProperties::EMPTY,
        subscriptions: Subscriptions::new(&subscriptions),
    };
    let error = EncodeError::ValueTooLarge { field: "subscription identifier" };
    refuses("identifier", Version::V5, Packet::Subscribe(subscribe), error);
    let publish = Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic: Some(name("t")),
        packet_id: None,
        properties: PublishProperties {
            subscription_identifiers: SubscriptionIdentifiers::new(&[u32::MAX]),
            ..PublishProperties::default()
        },
        payload: b"",
    };
    refuses("identifier", Version::V5, Packet::Publish(publish), error);
}

/// A subscription identifier of 0 can be encoded, but no receiver accepts it.
#[test]
fn a_subscription_identifier_of_zero() {
    let subscriptions = [(filter("a"), SubscriptionOptions::new(QoS::AtMostOnce))];
    let subscribe = Subscribe {
        packet_id: id(1),
        subscription_identifier: Some(0),
        user_properties: UserProperties::EMPTY,
        subscriptions: Subscriptions::new(&subscriptions),
    };
    let error = EncodeError::ValueTooSmall { field: "subscription identifier" };
    refuses("zero", Version::V5, Packet::Subscribe(subscribe), error);
}
