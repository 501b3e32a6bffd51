use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use tidegate_client::{
    ConnectProperties, Disconnected, Event, MessageProperties, OpenError, Options, PayloadFormat, ProtocolError, QoS,
    ReasonCode, RequestError, ServerLimits, SubscribeRequest, SubscriptionOptions, TopicFilterBuf, Version, Will,
};

use crate::script::{ACCEPTED, ACCEPTED_V5, RESUMED, Script, options, topic};

fn connect_bytes(options: Options) -> Vec<u8> {
    let mut script = Script::new(options);
    script.client.open(script.now).unwrap();
    script.sent()
}

#[test]
fn connect_of_each_version() {
    let mut options = Options::new("ab");
    options.version = Version::V31;
    options.keep_alive = 10;
    assert_eq!(connect_bytes(options.clone()), b"\x10\x10\0\x06MQIsdp\x03\x02\0\x0a\0\x02ab");
    options.version = Version::V311;
    options.clean_start = false;
    assert_eq!(connect_bytes(options.clone()), b"\x10\x0e\0\x04MQTT\x04\0\0\x0a\0\x02ab");
    options.bridge = true;
    assert_eq!(connect_bytes(options.clone()), b"\x10\x0e\0\x04MQTT\x84\0\0\x0a\0\x02ab", "the level of a bridge");
    options.version = Version::V5;
    assert_eq!(connect_bytes(options), b"\x10\x0f\0\x04MQTT\x05\0\0\x0a\0\0\x02ab", "which 5.0 has not");
}

#[test]
fn version_and_bridge_flag_can_change_between_connections() {
    let mut script = Script::new(options(Version::V5));
    script.client.open(script.now).unwrap();
    assert_eq!(script.client.introduce(Version::V311, true), Err(OpenError::AlreadyOpen));
    script.client.handle_closed();
    script.client.introduce(Version::V311, true).unwrap();
    script.sent();
    script.client.open(script.now).unwrap();
    assert_eq!(script.sent().get(8), Some(&0x84));
}

#[test]
fn connect_with_everything() {
    let options = Options {
        version: Version::V5,
        username: Some("u".into()),
        password: Some(b"p\xff".to_vec()),
        will: Some(Will {
            topic: topic("w"),
            payload: b"bye".to_vec(),
            qos: QoS::ExactlyOnce,
            retain: true,
            delay_interval: Some(5),
            properties: MessageProperties { payload_format: Some(PayloadFormat::Utf8), ..MessageProperties::default() },
        }),
        properties: ConnectProperties {
            session_expiry_interval: Some(1),
            receive_maximum: NonZeroU16::new(2),
            maximum_packet_size: NonZeroU32::new(3),
            topic_alias_maximum: Some(4),
            user_properties: vec![("k".into(), "v".into())],
            ..ConnectProperties::default()
        },
        ..Options::new("c")
    };
    assert_eq!(
        connect_bytes(options),
        b"\x10\x3c\0\x04MQTT\x05\xf6\0\x3c\
          \x17\x11\0\0\0\x01\x21\0\x02\x27\0\0\0\x03\x22\0\x04\x26\0\x01k\0\x01v\
          \0\x01c\
          \x07\x18\0\0\0\x05\x01\x01\0\x01w\0\x03bye\
          \0\x01u\0\x02p\xff"
    );
}

#[test]
fn the_content_of_connack_is_an_event() {
    let mut script = Script::new(Options { version: Version::V5, ..Options::new("") });
    let connack = b"\x20\x32\0\0\x2f\
        \x11\0\0\0\x07\x21\0\x08\x24\x01\x25\0\x27\0\0\x01\0\x12\0\x03new\x22\0\x09\x28\0\x29\0\x2a\0\x13\0\x05\
        \x1f\0\x02hi\x26\0\x01k\0\x01v";
    let connected = script.reconnect(connack);
    assert_eq!(connected.client_id, "new");
    assert_eq!(script.client.client_id(), "new");
    assert_eq!(connected.keep_alive, 5);
    assert_eq!(connected.session_expiry_interval, Some(7));
    assert_eq!(connected.reason_string.as_deref(), Some("hi"));
    assert_eq!(connected.user_properties, [("k".into(), "v".into())]);
    let expected = ServerLimits {
        receive_maximum: 8,
        maximum_packet_size: 256,
        topic_alias_maximum: 9,
        maximum_qos: QoS::AtLeastOnce,
        retain_available: false,
        wildcard_subscription_available: false,
        subscription_identifier_available: false,
        shared_subscription_available: false,
    };
    assert_eq!(connected.limits, expected);
    // The server's Keep Alive holds.
    assert_eq!(script.client.next_deadline(), Some(script.now + Duration::from_secs(5)));
}

#[test]
fn the_assigned_client_id_is_used_again() {
    let mut script =
        Script::accepted(Options { version: Version::V5, ..Options::new("") }, b"\x20\x07\0\0\x04\x12\0\x01x");
    script.lose_connection();
    script.client.open(script.now).unwrap();
    assert!(script.sent().ends_with(b"\0\x01x"));
}

#[test]
fn a_refusal_is_an_event_and_closes_the_transport() {
    for (version, connack, reason) in [
        (Version::V311, &b"\x20\x02\0\x05"[..], ReasonCode::NotAuthorized),
        (Version::V31, b"\x20\x02\0\x02", ReasonCode::ClientIdentifierNotValid),
        (Version::V5, b"\x20\x03\0\x8a\0", ReasonCode::Banned),
    ] {
        let mut script = Script::new(options(version));
        script.client.open(script.now).unwrap();
        script.sent();
        script.receive(connack);
        match script.disconnected() {
            Disconnected::Refused(dismissal) => assert_eq!(dismissal.reason_code, reason),
            other => panic!("{other:?}"),
        }
        assert!(script.client.wants_close());
        assert_eq!(script.client.next_deadline(), None);
        script.client.handle_closed();
        script.assert_quiet();
        script.reconnect(crate::script::accepted(version));
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let mut script = Script::new(Options { connect_timeout: Duration::from_secs(7), ..options(Version::V311) });
    script.client.open(script.now).unwrap();
    script.sent();
    assert_eq!(script.client.next_deadline(), Some(script.now + Duration::from_secs(7)));
    script.pass(6);
    script.assert_quiet();
    script.pass(1);
    assert_eq!(script.disconnected(), Disconnected::ConnectTimeout);
    assert!(script.client.wants_close());
}

#[test]
fn one_connection_at_a_time() {
    let mut script = Script::connected(Version::V311);
    let again = script.client.open(script.now);
    assert_eq!(again, Err(OpenError::AlreadyOpen));
}

#[test]
fn a_session_that_was_not_asked_for_ends_the_connection() {
    let mut script = Script::new(Options::new("c"));
    script.client.open(script.now).unwrap();
    script.sent();
    script.receive(RESUMED);
    let why = script.disconnected();
    assert_eq!(why, Disconnected::Protocol(ProtocolError::SessionNotAskedFor));
}

#[test]
fn pings_when_silent_and_gives_up_without_an_answer() {
    let mut script = Script::connected(Version::V311);
    script.pass(59);
    script.assert_quiet();
    script.pass(1);
    assert_eq!(script.sent(), [0xc0, 0]);
    script.receive(&[0xd0, 0]);
    script.pass(59);
    script.publish("t", "", QoS::AtMostOnce);
    script.sent();
    assert!(matches!(script.event(), Event::Published(_)));
    script.pass(59);
    script.assert_quiet();
    script.pass(1);
    assert_eq!(script.sent(), [0xc0, 0]);
    script.pass(60);
    assert_eq!(script.disconnected(), Disconnected::KeepAliveTimeout);
}

#[test]
fn packets_may_be_cut_anywhere() {
    let mut script = Script::new(options(Version::V5));
    script.client.open(script.now).unwrap();
    script.sent();
    let stream = [ACCEPTED_V5, b"\x30\x07\0\x02ab\0xy", b"\x30\x05\0\x01c\0z"].concat();
    for byte in stream {
        script.receive(&[byte]);
    }
    assert!(matches!(script.event(), Event::Connected(_)));
    assert_eq!(script.message().payload, b"xy");
    assert_eq!(script.message().payload, b"z");
    script.assert_quiet();
}

#[test]
fn nothing_is_asked_before_the_server_accepts() {
    let mut script = Script::new(options(Version::V311));
    let filter = TopicFilterBuf::new("a").unwrap();
    let request = SubscribeRequest {
        subscriptions: vec![(filter, SubscriptionOptions::default())],
        ..SubscribeRequest::default()
    };
    let early = script.client.subscribe(script.now, &request);
    assert_eq!(early, Err(RequestError::NotConnected));
    script.client.open(script.now).unwrap();
    let early = script.client.subscribe(script.now, &request);
    assert_eq!(early, Err(RequestError::NotConnected));
    script.sent();
    script.receive(ACCEPTED);
    assert!(script.client.subscribe(script.now, &request).is_ok());
}

#[test]
fn an_authentication_exchange() {
    let mut script = Script::new(Options {
        properties: ConnectProperties {
            authentication_method: Some("m".into()),
            authentication_data: Some(b"1".to_vec()),
            ..ConnectProperties::default()
        },
        ..options(Version::V5)
    });
    script.client.open(script.now).unwrap();
    script.sent();
    script.receive(b"\xf0\x0a\x18\x08\x15\0\x01m\x16\0\x012");
    match script.event() {
        Event::Authentication(step) => {
            assert_eq!(step.reason_code, ReasonCode::ContinueAuthentication);
            assert_eq!(step.data.as_deref(), Some(&b"2"[..]));
        }
        other => panic!("{other:?}"),
    }
    script.client.authenticate(script.now, b"3").unwrap();
    assert_eq!(script.sent(), b"\xf0\x0a\x18\x08\x15\0\x01m\x16\0\x013");
    script.receive(b"\x20\x07\0\0\x04\x15\0\x01m");
    assert!(matches!(script.event(), Event::Connected(_)));
    script.client.authenticate_again(script.now, b"4").unwrap();
    assert_eq!(script.sent(), b"\xf0\x0a\x19\x08\x15\0\x01m\x16\0\x014");
    // Another method than the client's is a protocol error.
    script.receive(b"\xf0\x06\x18\x04\x15\0\x01n");
    assert!(matches!(script.disconnected(), Disconnected::Protocol(_)));
}
