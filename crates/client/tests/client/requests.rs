use std::num::NonZeroU32;

use tidegate_client::{
    Disconnected, Event, ProtocolError, QoS, ReasonCode, RequestError, RequestToken, RetainHandling, SubscribeRequest,
    SubscriptionOptions, TopicError, TopicFilterBuf, UnsubscribeRequest, Version,
};

use crate::script::{ACCEPTED, Script, options};

fn filter(text: &str) -> TopicFilterBuf {
    TopicFilterBuf::new(text).unwrap()
}

fn filters(texts: &[&str]) -> SubscribeRequest {
    let options = SubscriptionOptions::new(QoS::AtLeastOnce);
    let subscriptions = texts.iter().map(|text| (filter(text), options));
    SubscribeRequest { subscriptions: subscriptions.collect(), ..SubscribeRequest::default() }
}

fn subscribe(script: &mut Script, texts: &[&str]) -> RequestToken {
    let request = filters(texts);
    script.client.subscribe(script.now, &request).unwrap()
}

#[test]
fn subscribe_and_its_answer() {
    let mut script = Script::connected(Version::V311);
    let token = subscribe(&mut script, &["a/#", "b"]);
    assert_eq!(script.sent(), b"\x82\x0c\0\x01\0\x03a/#\x01\0\x01b\x01");
    script.receive(&[0x90, 4, 0, 1, 1, 0x80]);
    match script.event() {
        Event::Subscribed(answer) => {
            assert_eq!(answer.token, token);
            let codes = [ReasonCode::GrantedQos1, ReasonCode::UnspecifiedError];
            assert_eq!(answer.reason_codes, codes);
        }
        other => panic!("{other:?}"),
    }
    script.assert_quiet();
}

#[test]
fn subscribe_with_options_and_properties() {
    let mut script = Script::connected(Version::V5);
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    };
    let request = SubscribeRequest {
        subscriptions: vec![(filter("a"), options)],
        subscription_identifier: NonZeroU32::new(300),
        user_properties: vec![("k".into(), "v".into())],
    };
    script.client.subscribe(script.now, &request).unwrap();
    assert_eq!(script.sent(), b"\x82\x11\0\x01\x0a\x0b\xac\x02\x26\0\x01k\0\x01v\0\x01a\x2e");
    script.receive(b"\x90\x0a\0\x01\x06\x1f\0\x03why\x87");
    match script.event() {
        Event::Subscribed(answer) => {
            assert_eq!(answer.reason_codes, [ReasonCode::NotAuthorized]);
            assert_eq!(answer.reason_string.as_deref(), Some("why"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unsubscribe_and_its_answer() {
    for (version, answer) in [(Version::V311, &[0xb0, 2, 0, 1][..]), (Version::V5, &[0xb0, 5, 0, 1, 0, 0, 0x11])] {
        let mut script = Script::connected(version);
        let request = UnsubscribeRequest { filters: vec![filter("a"), filter("b")], ..UnsubscribeRequest::default() };
        script.client.unsubscribe(script.now, &request).unwrap();
        assert_eq!(script.sent()[0], 0xa2);
        script.receive(answer);
        match script.event() {
            Event::Unsubscribed(answer) => assert_eq!(answer.reason_codes.len(), 2),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_subscription_that_the_server_lacks_is_refused() {
    let connack = b"\x20\x09\0\0\x06\x28\0\x29\0\x2a\0";
    let mut script = Script::accepted(options(Version::V5), connack);
    let mut refusal = |request: &SubscribeRequest| script.client.subscribe(script.now, request);
    assert_eq!(
        refusal(&filters(&["a/+"])),
        Err(RequestError::NotSupported(ReasonCode::WildcardSubscriptionsNotSupported))
    );
    assert_eq!(
        refusal(&filters(&["$share/g/a"])),
        Err(RequestError::NotSupported(ReasonCode::SharedSubscriptionsNotSupported))
    );
    let numbered = SubscribeRequest { subscription_identifier: NonZeroU32::new(1), ..filters(&["a"]) };
    assert_eq!(refusal(&numbered), Err(RequestError::NotSupported(ReasonCode::SubscriptionIdentifiersNotSupported)));
    script.assert_quiet();
}

#[test]
fn features_of_mqtt_5_are_refused_in_older_versions() {
    let mut script = Script::connected(Version::V311);
    let mut request = filters(&["a"]);
    request.subscriptions[0].1.no_local = true;
    let refused = script.client.subscribe(script.now, &request);
    assert!(matches!(refused, Err(RequestError::NeedsV5 { .. })));
    let request = UnsubscribeRequest { filters: vec![filter("a")], user_properties: vec![("k".into(), "v".into())] };
    let refused = script.client.unsubscribe(script.now, &request);
    assert!(matches!(refused, Err(RequestError::NeedsV5 { .. })));
}

#[test]
fn a_request_without_filters_uses_up_no_identifier() {
    let mut script = Script::connected(Version::V311);
    let empty = SubscribeRequest::default();
    let refused = script.client.subscribe(script.now, &empty);
    assert!(matches!(refused, Err(RequestError::Encode(_))));
    for _ in 0..70_000 {
        script.client.subscribe(script.now, &empty).unwrap_err();
    }
    subscribe(&mut script, &["a"]);
}

#[test]
fn lost_requests_free_their_identifiers() {
    let mut script = Script::connected(Version::V311);
    let token = subscribe(&mut script, &["a"]);
    script.client.handle_closed();
    assert_eq!(script.event(), Event::RequestLost(token));
    assert_eq!(script.disconnected(), Disconnected::TransportClosed);
    script.reconnect(ACCEPTED);
    for _ in 0..u16::MAX {
        subscribe(&mut script, &["a"]);
    }
    let refused = script.client.subscribe(script.now, &filters(&["a"]));
    assert_eq!(refused, Err(RequestError::NoPacketId));
}

#[test]
fn an_answer_that_does_not_fit_ends_the_connection() {
    let mut script = Script::connected(Version::V311);
    subscribe(&mut script, &["a", "b"]);
    script.receive(&[0x90, 3, 0, 1, 1]);
    let count = ProtocolError::ReasonCodeCount { packet: tidegate_client::PacketType::SubAck, expected: 2, found: 1 };
    assert!(matches!(script.disconnected_after_requests(), Disconnected::Protocol(error) if error == count));

    let mut script = Script::connected(Version::V311);
    subscribe(&mut script, &["a"]);
    script.receive(&[0xb0, 2, 0, 1]);
    assert!(matches!(
        script.disconnected_after_requests(),
        Disconnected::Protocol(ProtocolError::WrongAcknowledgement { .. })
    ));
}

#[test]
fn an_answer_to_nothing_is_ignored() {
    let mut script = Script::connected(Version::V311);
    script.receive(&[0x90, 3, 0, 1, 1, 0xb0, 2, 0, 1]);
    script.assert_quiet();
}

#[test]
fn filters_and_names_are_checked_where_they_are_made() {
    assert_eq!(TopicFilterBuf::new("a/#/b"), Err(TopicError::MisplacedMultiLevelWildcard));
    assert!(filter("a/+").matches(&crate::script::topic("a/b")));
    assert!(!filter("#").matches(&crate::script::topic("$SYS/x")));
    assert!(filter("$share/g/a/#").matches(&crate::script::topic("a")));
}
