use std::num::{NonZeroU16, NonZeroU32};

use tidegate_client::{
    Disconnected, Event, MessageProperties, Options, PacketId, Publish, PublishError, PublishToken, Published, QoS,
    ReasonCode, UndeliveredCause, Version,
};

use crate::script::{ACCEPTED, ACCEPTED_V5, RESUMED, RESUMED_V5, Script, accepted, message, options, topic};

fn published(token: PublishToken, packet_id: u16, reason_code: ReasonCode) -> Event {
    let packet_id = PacketId::new(packet_id);
    Event::Published(Published { token, packet_id, reason_code, reason_string: None, refused: None })
}

fn refused(token: PublishToken, packet_id: u16, reason_code: ReasonCode, publish: Publish) -> Event {
    let (packet_id, refused) = (PacketId::new(packet_id), Some(Box::new(publish)));
    Event::Published(Published { token, packet_id, reason_code, reason_string: None, refused })
}

fn success(token: PublishToken, packet_id: u16) -> Event {
    published(token, packet_id, ReasonCode::Success)
}

fn undelivered(event: Event) -> (PublishToken, Option<Publish>, UndeliveredCause) {
    match event {
        Event::Undelivered(lost) => (lost.token, lost.publish, lost.cause),
        other => panic!("{other:?}"),
    }
}

#[test]
fn qos_0_is_published_when_it_is_written() {
    let mut script = Script::connected(Version::V311);
    let token = script.publish("a/b", "xyz", QoS::AtMostOnce);
    assert_eq!(script.client.output(), b"\x30\x08\0\x03a/bxyz");
    script.client.advance_output(script.now, 9);
    assert_eq!(script.client.poll_event(), None);
    assert!(!script.client.is_idle());
    script.client.advance_output(script.now, 1);
    assert_eq!(script.event(), success(token, 0));
    assert!(script.client.is_idle());
}

#[test]
fn qos_1_waits_for_puback() {
    let mut script = Script::connected(Version::V311);
    let token = script.publish("t", "x", QoS::AtLeastOnce);
    assert_eq!(script.sent(), b"\x32\x06\0\x01t\0\x01x");
    assert_eq!(script.client.in_flight(), 1);
    script.receive(&[0x40, 2, 0, 1]);
    assert_eq!(script.event(), success(token, 1));
    assert!(script.client.is_idle());
    // An acknowledgement for an unknown message does not justify closing the connection.
    script.receive(&[0x40, 2, 0, 1]);
    script.assert_quiet();
}

#[test]
fn qos_2_takes_four_packets() {
    let mut script = Script::connected(Version::V311);
    let token = script.publish("t", "x", QoS::ExactlyOnce);
    assert_eq!(script.sent(), b"\x34\x06\0\x01t\0\x01x");
    script.receive(&[0x50, 2, 0, 1]);
    assert_eq!(script.sent(), [0x62, 2, 0, 1]);
    script.receive(&[0x50, 2, 0, 1]);
    assert_eq!(script.sent(), [0x62, 2, 0, 1], "PUBREC twice, PUBREL twice");
    assert_eq!(script.client.poll_event(), None);
    script.receive(&[0x70, 2, 0, 1]);
    assert_eq!(script.event(), success(token, 1));
    script.assert_quiet();
}

#[test]
fn a_server_may_refuse_a_message() {
    let mut script = Script::connected(Version::V5);
    let first = script.publish("t", "x", QoS::AtLeastOnce);
    let second = script.publish("t", "x", QoS::ExactlyOnce);
    script.sent();
    script.receive(&[0x40, 3, 0, 1, 0x87]);
    assert_eq!(script.event(), refused(first, 1, ReasonCode::NotAuthorized, message("t", "x", QoS::AtLeastOnce)));
    script.receive(&[0x50, 3, 0, 2, 0x97]);
    assert_eq!(script.event(), refused(second, 2, ReasonCode::QuotaExceeded, message("t", "x", QoS::ExactlyOnce)));
    script.assert_quiet();
    assert!(script.client.is_idle());
}

#[test]
fn an_unknown_pubrec_is_answered() {
    let mut script = Script::connected(Version::V5);
    script.receive(&[0x50, 2, 0, 9]);
    assert_eq!(script.sent(), [0x62, 3, 0, 9, 0x92]);
    let mut script = Script::connected(Version::V311);
    script.receive(&[0x50, 2, 0, 9]);
    assert_eq!(script.sent(), [0x62, 2, 0, 9]);
}

#[test]
fn the_window_is_the_smaller_of_both_sides() {
    let mut own = options(Version::V5);
    own.max_in_flight = NonZeroU16::new(3).unwrap();
    let mut script = Script::accepted(own, b"\x20\x06\0\0\x03\x21\0\x02");
    let tokens: Vec<_> = ["a", "b", "c"].map(|payload| script.publish("t", payload, QoS::AtLeastOnce)).into();
    // Behind messages that wait, even QoS 0 waits: the order is kept.
    let last = script.publish("t", "d", QoS::AtMostOnce);
    assert_eq!(script.sent(), b"\x32\x07\0\x01t\0\x01\0a\x32\x07\0\x01t\0\x02\0b");
    script.receive(&[0x40, 2, 0, 2]);
    assert_eq!(script.sent(), b"\x32\x07\0\x01t\0\x03\0c\x30\x05\0\x01t\0d");
    assert_eq!(script.event(), success(tokens[1], 2));
    assert_eq!(script.event(), success(last, 0));
    script.receive(&[0x40, 2, 0, 1, 0x40, 2, 0, 3]);
    assert_eq!(script.event(), success(tokens[0], 1));
    assert_eq!(script.event(), success(tokens[2], 3));
    script.assert_quiet();
}

#[test]
fn a_new_connection_repeats_all_messages_in_order_with_dup() {
    let mut script = Script::connected(Version::V311);
    let tokens: Vec<_> =
        [QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::ExactlyOnce].map(|qos| script.publish("t", "x", qos)).into();
    script.sent();
    script.receive(&[0x50, 2, 0, 2]);
    assert_eq!(script.sent(), [0x62, 2, 0, 2]);
    script.lose_connection();
    // Offline: it waits, after the messages to be repeated.
    let late = script.publish("t", "y", QoS::AtLeastOnce);
    assert!(script.reconnect(RESUMED).session_present);
    assert_eq!(script.sent(), b"\x3a\x06\0\x01t\0\x01x\x62\x02\0\x02\x3c\x06\0\x01t\0\x03x\x32\x06\0\x01t\0\x04y");
    script.receive(&[0x70, 2, 0, 2, 0x40, 2, 0, 1, 0x50, 2, 0, 3, 0x40, 2, 0, 4]);
    assert_eq!(script.sent(), [0x62, 2, 0, 3]);
    script.receive(&[0x70, 2, 0, 3]);
    assert_eq!(script.event(), success(tokens[1], 2));
    assert_eq!(script.event(), success(tokens[0], 1));
    assert_eq!(script.event(), success(late, 4));
    assert_eq!(script.event(), success(tokens[2], 3));
    script.assert_quiet();
}

#[test]
fn sending_again_keeps_to_the_new_receive_maximum() {
    let mut script = Script::connected(Version::V5);
    for payload in ["a", "b", "c"] {
        script.publish("t", payload, QoS::AtLeastOnce);
    }
    script.sent();
    script.lose_connection();
    script.reconnect(b"\x20\x06\x01\0\x03\x21\0\x02");
    assert_eq!(script.sent(), b"\x3a\x07\0\x01t\0\x01\0a\x3a\x07\0\x01t\0\x02\0b");
    script.receive(&[0x40, 2, 0, 1]);
    assert_eq!(script.sent(), b"\x3a\x07\0\x01t\0\x03\0c");
}

#[test]
fn identifiers_in_flight_are_skipped_after_resuming() {
    let mut script = Script::connected(Version::V311);
    script.publish("t", "x", QoS::AtLeastOnce);
    script.sent();
    script.lose_connection();
    script.reconnect(RESUMED);
    script.publish("t", "y", QoS::AtLeastOnce);
    assert!(script.sent().ends_with(b"\x32\x06\0\x01t\0\x02y"));
}

/// PUBREL packets of MQTT 3.1.1 for the identifiers.
fn releases(identifiers: std::ops::RangeInclusive<u16>) -> Vec<u8> {
    identifiers.flat_map(|id| [0x62, 2, (id >> 8) as u8, id as u8]).collect()
}

/// PUBCOMP packets of MQTT 3.1.1 for the identifiers.
fn completions(identifiers: std::ops::RangeInclusive<u16>) -> Vec<u8> {
    identifiers.flat_map(|id| [0x70, 2, (id >> 8) as u8, id as u8]).collect()
}

#[test]
fn identifiers_of_an_earlier_client_are_released_first() {
    let mut script = Script::accepted(options(Version::V311), RESUMED);
    let token = script.publish("t", "x", QoS::ExactlyOnce);
    // The server may take identifier 1 for a message that it has. Each message that it has comes before new ones.
    assert!(script.sent() == releases(1..=u16::MAX));
    script.receive(&[0x70, 2, 0, 2]);
    assert_eq!(script.sent(), b"");
    script.receive(&[0x70, 2, 0, 1]);
    assert_eq!(script.sent(), b"\x34\x06\0\x01t\0\x01x");
    script.receive(&[0x50, 2, 0, 1]);
    assert_eq!(script.sent(), releases(1..=1));
    script.receive(&[0x70, 2, 0, 1]);
    assert_eq!(script.event(), success(token, 1));
    script.publish("t", "y", QoS::ExactlyOnce);
    assert_eq!(script.sent(), b"\x34\x06\0\x01t\0\x02y", "identifier 2 is free already");
}

#[test]
fn identifiers_beyond_the_own_range_are_released_too() {
    // An earlier client with a larger window may have left a message with identifier 1000, which this client never uses.
    let own = Options { max_in_flight: 1.try_into().unwrap(), ..options(Version::V311) };
    let mut script = Script::accepted(own, RESUMED);
    let token = script.publish("t", "x", QoS::ExactlyOnce);
    let sent = script.sent();
    assert!(sent.chunks(4).any(|packet| packet == releases(1_000..=1_000)));
    script.receive(&completions(1..=999));
    assert_eq!(script.sent(), b"\x34\x06\0\x01t\0\x01x");
    script.receive(&completions(1_001..=u16::MAX));
    script.lose_connection();
    script.reconnect(RESUMED);
    // The message is sent again first; the release follows with the next new message.
    assert_eq!(script.sent(), b"\x3c\x06\0\x01t\0\x01x");
    script.receive(&[0x50, 2, 0, 1]);
    assert_eq!(script.sent(), releases(1..=1));
    script.receive(&[0x70, 2, 0, 1]);
    assert_eq!(script.event(), success(token, 1));
    script.publish("t", "y", QoS::ExactlyOnce);
    assert_eq!(script.sent(), [releases(1_000..=1_000), b"\x34\x06\0\x01t\0\x02y".to_vec()].concat());
    script.receive(&completions(1_000..=1_000));
    script.lose_connection();
    script.reconnect(RESUMED);
    assert_eq!(script.sent(), b"\x3c\x06\0\x01t\0\x02y", "nothing is left to release");
}

#[test]
fn a_release_without_an_answer_is_sent_again() {
    let mut script = Script::accepted(options(Version::V311), RESUMED);
    script.publish("t", "x", QoS::ExactlyOnce);
    script.sent();
    script.lose_connection();
    script.reconnect(RESUMED);
    assert!(script.sent() == releases(1..=u16::MAX));
    script.lose_connection();
    script.reconnect(ACCEPTED);
    assert_eq!(script.sent(), b"\x34\x06\0\x01t\0\x01x", "the earlier session is gone");
}

#[test]
fn identifiers_of_its_own_session_need_no_release() {
    let mut script = Script::connected(Version::V311);
    script.lose_connection();
    script.reconnect(RESUMED);
    script.publish("t", "x", QoS::ExactlyOnce);
    assert_eq!(script.sent(), b"\x34\x06\0\x01t\0\x01x");
}

#[test]
fn qos_1_takes_an_identifier_that_waits_for_release() {
    let mut script = Script::accepted(options(Version::V311), RESUMED);
    script.publish("t", "x", QoS::AtLeastOnce);
    let second = script.publish("t", "y", QoS::ExactlyOnce);
    let mut expected = b"\x32\x06\0\x01t\0\x01x".to_vec();
    expected.extend(releases(1..=u16::MAX));
    assert_eq!(script.sent(), expected);
    script.receive(&[0x70, 2, 0, 2]);
    assert_eq!(script.sent(), b"\x34\x06\0\x01t\0\x02y");
    script.receive(&[0x50, 2, 0, 2]);
    script.sent();
    script.receive(&[0x70, 2, 0, 2]);
    assert_eq!(script.event(), success(second, 2));
}

#[test]
fn a_lost_session_gives_unacknowledged_messages_back() {
    let mut script = Script::connected(Version::V5);
    let released = script.publish("t", "a", QoS::ExactlyOnce);
    let unknown = script.publish("t", "b", QoS::ExactlyOnce);
    let lost = script.publish("t", "c", QoS::AtLeastOnce);
    script.sent();
    script.receive(&[0x50, 2, 0, 1]);
    script.sent();
    script.lose_connection();
    let waiting = script.publish("t", "d", QoS::AtLeastOnce);
    script.reconnect(ACCEPTED_V5);
    assert_eq!(script.event(), success(released, 1), "the server had taken it over");
    let cause = UndeliveredCause::SessionLost;
    let second = Some(message("t", "b", QoS::ExactlyOnce));
    assert_eq!(undelivered(script.event()), (unknown, second, cause));
    let third = Some(message("t", "c", QoS::AtLeastOnce));
    assert_eq!(undelivered(script.event()), (lost, third, cause));
    assert_eq!(script.sent(), b"\x32\x07\0\x01t\0\x04\0d");
    script.receive(&[0x40, 2, 0, 4]);
    assert_eq!(script.event(), success(waiting, 4));
    assert!(script.client.is_idle());
}

#[test]
fn an_unwritten_qos_0_message_is_reported() {
    let mut script = Script::connected(Version::V311);
    let token = script.publish("t", "x", QoS::AtMostOnce);
    script.client.advance_output(script.now, 3);
    script.lose_connection();
    let cause = UndeliveredCause::ConnectionLost;
    assert_eq!(undelivered(script.event()), (token, None, cause));
    script.client.open(script.now).unwrap();
    assert_eq!(script.sent()[0], 0x10, "half a packet is not left over");
}

#[test]
fn a_message_beyond_the_limits_of_the_server_is_refused() {
    let connack = b"\x20\x0a\0\0\x07\x24\x01\x25\0\x22\0\x01";
    let mut script = Script::accepted(options(Version::V5), connack);
    let now = script.now;
    let mut publish = |publish: Publish| script.client.publish(now, publish).err();
    let maximum = QoS::AtLeastOnce;
    let too_strong = publish(message("t", "", QoS::ExactlyOnce));
    assert_eq!(too_strong, Some(PublishError::QosNotSupported { maximum }));
    let retained = publish(message("t", "", QoS::AtMostOnce).with_retain(true));
    assert_eq!(retained, Some(PublishError::RetainNotSupported));
    let mut aliased = message("t", "", QoS::AtMostOnce);
    aliased.topic_alias = NonZeroU16::new(2);
    let aliased = publish(aliased);
    let (alias, maximum) = (2, 1);
    assert_eq!(aliased, Some(PublishError::TopicAliasTooGreat { alias, maximum }));
}

#[test]
fn an_offline_message_that_cannot_be_sent_is_returned() {
    let mut script = Script::new(options(Version::V5));
    let retained = script.client.publish(script.now, message("t", "", QoS::AtLeastOnce).with_retain(true));
    let large = script.publish("t", &"x".repeat(100), QoS::AtLeastOnce);
    let small = script.publish("t", "x", QoS::AtLeastOnce);
    script.reconnect(b"\x20\x0a\0\0\x07\x25\0\x27\0\0\0\x20");
    let (token, _, cause) = undelivered(script.event());
    assert_eq!(token, retained.unwrap());
    assert_eq!(cause, PublishError::RetainNotSupported.into());
    let (token, publish, cause) = undelivered(script.event());
    assert_eq!(token, large);
    assert_eq!(publish.unwrap().payload.len(), 100);
    assert!(matches!(cause, UndeliveredCause::NotSendable(PublishError::Encode(_))));
    // The identifiers of unsent messages are free, and the next message is not delayed.
    assert_eq!(script.sent(), b"\x32\x07\0\x01t\0\x03\0x");
    script.receive(&[0x40, 2, 0, 3]);
    assert_eq!(script.event(), success(small, 3));
}

#[test]
fn a_message_too_large_for_the_next_connection_is_given_back() {
    let mut script = Script::connected(Version::V5);
    let token = script.publish("t", &"x".repeat(100), QoS::AtLeastOnce);
    script.sent();
    script.lose_connection();
    script.reconnect(b"\x20\x08\x01\0\x05\x27\0\0\0\x20");
    assert_eq!(undelivered(script.event()).0, token);
    assert!(script.client.is_idle());
}

#[test]
fn properties_need_mqtt_5() {
    let mut script = Script::connected(Version::V311);
    let mut publish = message("t", "", QoS::AtMostOnce);
    publish.properties.content_type = Some("text/plain".into());
    let refused = script.client.publish(script.now, publish);
    assert_eq!(refused, Err(PublishError::NeedsV5));
}

#[test]
fn properties_are_sent() {
    let mut script = Script::connected(Version::V5);
    let publish = Publish {
        properties: MessageProperties {
            payload_format: Some(tidegate_client::PayloadFormat::Utf8),
            message_expiry: Some(9),
            content_type: Some("c".into()),
            response_topic: Some(topic("r")),
            correlation_data: Some(b"d".to_vec()),
            user_properties: vec![("k".into(), "v".into()), ("k".into(), "w".into())],
        },
        ..message("t", "x", QoS::AtMostOnce)
    };
    script.client.publish(script.now, publish).unwrap();
    assert_eq!(
        script.sent(),
        b"\x30\x26\0\x01t\x21\x01\x01\x02\0\0\0\x09\x08\0\x01r\x09\0\x01d\x03\0\x01c\
          \x26\0\x01k\0\x01v\x26\0\x01k\0\x01wx"
    );
}

#[test]
fn an_alias_is_set_once_per_connection_and_never_repeated() {
    let mut script = Script::accepted(options(Version::V5), b"\x20\x06\0\0\x03\x22\0\x05");
    let aliased = Publish { topic_alias: NonZeroU16::new(5), ..message("abc", "x", QoS::AtLeastOnce) };
    for _ in 0..2 {
        script.client.publish(script.now, aliased.clone()).unwrap();
    }
    assert_eq!(script.sent(), b"\x32\x0c\0\x03abc\0\x01\x03\x23\0\x05x\x32\x09\0\0\0\x02\x03\x23\0\x05x");
    script.lose_connection();
    script.reconnect(RESUMED_V5);
    assert_eq!(script.sent(), b"\x3a\x09\0\x03abc\0\x01\0x\x3a\x09\0\x03abc\0\x02\0x");
}

#[test]
fn the_queue_is_bounded_by_number_and_by_bytes() {
    let mut script = Script::new(Options { max_queued_messages: 2, max_queued_bytes: 10, ..options(Version::V311) });
    script.publish("t", "x", QoS::AtMostOnce);
    script.publish("t", "x", QoS::AtMostOnce);
    let third = script.client.publish(script.now, message("t", "x", QoS::AtMostOnce));
    assert_eq!(third, Err(PublishError::QueueFull));
    assert!(!script.client.has_room());
    script.reconnect(ACCEPTED);
    script.sent();
    script.lose_connection_after_events();
    script.publish("t", "123456789", QoS::AtMostOnce);
    let second = script.client.publish(script.now, message("t", "x", QoS::AtMostOnce));
    assert_eq!(second, Err(PublishError::QueueFull));
}

#[test]
fn unsent_messages_can_be_withdrawn() {
    let mut script =
        Script::new(Options { max_in_flight: 1.try_into().unwrap(), max_queued_bytes: 10, ..options(Version::V311) });
    script.reconnect(ACCEPTED);
    script.sent();
    let tokens = ["1", "2", "3"].map(|payload| script.publish("t", payload, QoS::AtLeastOnce));
    assert_eq!(script.sent(), b"\x32\x06\0\x01t\0\x011");
    let mut asked = Vec::new();
    script.client.withdraw(|token| {
        asked.push(token);
        token == tokens[1]
    });
    assert_eq!(asked, tokens[1..], "one is on its way");
    script.receive(&[0x40, 2, 0, 1]);
    assert_eq!(script.sent(), b"\x32\x06\0\x01t\0\x023");
    assert!(script.client.has_room(), "its bytes are free again");
}

#[test]
fn a_blocked_transport_fills_the_queue_not_the_buffer() {
    let mut script =
        Script::new(Options { max_queued_messages: 100, max_queued_bytes: 1 << 30, ..options(Version::V311) });
    script.reconnect(ACCEPTED);
    let payload = "x".repeat(100_000);
    let mut accepted = 0;
    while script.client.has_room() {
        script.publish("t", &payload, QoS::AtMostOnce);
        accepted += 1;
    }
    assert_eq!(accepted, 103);
    assert!(script.client.output().len() < 400_000);
    while !script.client.is_idle() {
        let some = script.client.output().len().min(70_000);
        script.client.advance_output(script.now, some);
    }
    let mut published = 0;
    while let Some(event) = script.client.poll_event() {
        assert!(matches!(event, Event::Published(_)));
        published += 1;
    }
    assert_eq!(published, accepted);
}

#[test]
fn an_acknowledgement_of_the_other_kind_ends_the_connection() {
    for (qos, packet) in [
        (QoS::ExactlyOnce, [0x40, 2, 0, 1]),
        (QoS::AtLeastOnce, [0x50, 2, 0, 1]),
        (QoS::AtLeastOnce, [0x70, 2, 0, 1]),
        (QoS::ExactlyOnce, [0x70, 2, 0, 1]),
    ] {
        let mut script = Script::connected(Version::V5);
        script.publish("t", "x", qos);
        script.sent();
        script.receive(&packet);
        assert_eq!(script.sent(), [0xe0, 1, 0x82]);
        let why = script.disconnected();
        assert!(matches!(why, tidegate_client::Disconnected::Protocol(_)));
        assert_eq!(script.client.in_flight(), 1, "the message is still owed");
    }
}

#[test]
fn a_large_server_limit_leaves_the_client_its_own() {
    let mut own = options(Version::V5);
    own.properties.maximum_packet_size = NonZeroU32::new(20);
    let mut script = Script::accepted(own, ACCEPTED_V5);
    script.publish("t", &"x".repeat(100), QoS::AtMostOnce);
    assert_eq!(script.sent().len(), 2 + 3 + 1 + 100, "its own limit is for received packets");
}

#[test]
fn a_pubrel_without_an_answer_ends_the_connection() {
    for (version, resumed) in [(Version::V311, RESUMED), (Version::V5, RESUMED_V5)] {
        let mut script = Script::accepted(Options { keep_alive: 0, ..options(version) }, accepted(version));
        let token = script.publish("t", "x", QoS::ExactlyOnce);
        script.sent();
        script.pass(1_000);
        script.assert_quiet();
        script.receive(&[0x50, 2, 0, 1]);
        assert_eq!(script.sent(), [0x62, 2, 0, 1]);
        script.pass(59);
        script.assert_quiet();
        script.pass(1);
        let packet_id = PacketId::new(1).unwrap();
        assert_eq!(script.disconnected(), Disconnected::ReleaseTimeout { packet_id });
        script.client.handle_closed();
        script.reconnect(resumed);
        assert_eq!(script.sent(), [0x62, 2, 0, 1], "it is sent again");
        script.receive(&[0x70, 2, 0, 1]);
        assert_eq!(script.event(), success(token, 1));
        script.pass(1_000);
        script.assert_quiet();
    }
}

#[test]
fn the_time_for_a_pubcomp_begins_when_the_pubrel_is_written() {
    let mut script = Script::accepted(Options { keep_alive: 0, ..options(Version::V311) }, ACCEPTED);
    for payload in ["a", "b"] {
        script.publish("t", payload, QoS::ExactlyOnce);
    }
    script.sent();
    script.receive(&[0x50, 2, 0, 1, 0x50, 2, 0, 2]);
    script.pass(1_000);
    assert_eq!(script.client.poll_event(), None);
    // The first PUBREL is written, the second not yet.
    script.client.advance_output(script.now, 4);
    script.pass(59);
    script.receive(&[0x70, 2, 0, 1]);
    script.event();
    script.pass(1_000);
    assert_eq!(script.client.poll_event(), None);
    assert_eq!(script.sent(), releases(2..=2));
    script.pass(59);
    script.assert_quiet();
    script.pass(1);
    let packet_id = PacketId::new(2).unwrap();
    assert_eq!(script.disconnected(), Disconnected::ReleaseTimeout { packet_id });
}

#[test]
fn each_pubcomp_gives_the_others_their_time_again() {
    let mut script = Script::accepted(Options { keep_alive: 0, ..options(Version::V311) }, ACCEPTED);
    let tokens = ["a", "b"].map(|payload| script.publish("t", payload, QoS::ExactlyOnce));
    script.receive(&[0x50, 2, 0, 1, 0x50, 2, 0, 2]);
    script.sent();
    script.pass(50);
    script.receive(&[0x70, 2, 0, 2]);
    assert_eq!(script.event(), success(tokens[1], 2));
    script.pass(59);
    script.assert_quiet();
    script.receive(&[0x70, 2, 0, 1]);
    assert_eq!(script.event(), success(tokens[0], 1));
}
