use tidegate_client::{
    Direction, DisconnectRequest, Disconnected, Event, Options, PacketType, ProtocolError, QoS, ReasonCode,
    RequestError, Version,
};

use crate::script::{ACCEPTED, RESUMED, Script, options};

#[test]
fn disconnect_is_sent_after_pending_output() {
    let mut script = Script::connected(Version::V311);
    script.publish("t", "x", QoS::AtMostOnce);
    let request = DisconnectRequest::default();
    script.client.disconnect(script.now, &request).unwrap();
    assert!(script.client.wants_close());
    assert_eq!(script.sent(), b"\x30\x04\0\x01tx\xe0\0");
    assert_eq!(script.disconnected(), Disconnected::Requested);
    assert!(matches!(script.event(), Event::Published(_)));
    script.receive(b"\x30\x04\0\x01tx");
    script.assert_quiet();
    script.client.handle_closed();
    script.assert_quiet();
    let again = script.client.disconnect(script.now, &request);
    assert_eq!(again, Err(RequestError::NotConnected));
}

#[test]
fn disconnect_of_mqtt_5() {
    let mut script = Script::connected(Version::V5);
    let request = DisconnectRequest {
        with_will: true,
        session_expiry_interval: Some(1),
        reason_string: Some("x".into()),
        user_properties: vec![("k".into(), "v".into())],
    };
    script.client.disconnect(script.now, &request).unwrap();
    assert_eq!(script.sent(), b"\xe0\x12\x04\x10\x11\0\0\0\x01\x1f\0\x01x\x26\0\x01k\0\x01v");
    let mut script = Script::connected(Version::V311);
    let refused = script.client.disconnect(script.now, &request);
    assert!(matches!(refused, Err(RequestError::NeedsV5 { .. })));
}

#[test]
fn unacknowledged_messages_outlive_a_disconnect() {
    let mut script = Script::connected(Version::V311);
    script.publish("t", "x", QoS::AtLeastOnce);
    script.sent();
    let request = DisconnectRequest::default();
    script.client.disconnect(script.now, &request).unwrap();
    script.sent();
    script.disconnected();
    script.client.handle_closed();
    script.reconnect(RESUMED);
    assert_eq!(script.sent(), b"\x3a\x06\0\x01t\0\x01x");
}

#[test]
fn a_server_may_close_the_connection() {
    let mut script = Script::connected(Version::V5);
    script.receive(b"\xe0\x0c\x9d\x0a\x1f\0\x02no\x1c\0\x02to");
    match script.disconnected() {
        Disconnected::ByServer(dismissal) => {
            assert_eq!(dismissal.reason_code, ReasonCode::ServerMoved);
            assert_eq!(dismissal.reason_string.as_deref(), Some("no"));
            assert_eq!(dismissal.server_reference.as_deref(), Some("to"));
        }
        other => panic!("{other:?}"),
    }
    assert!(script.client.wants_close());
    assert_eq!(script.client.output(), b"");
}

#[test]
fn a_session_expiry_interval_is_not_the_servers_to_send() {
    let mut script = Script::connected(Version::V5);
    script.receive(b"\xe0\x07\0\x05\x11\0\0\0\x01");
    assert_eq!(script.sent(), [0xe0, 1, 0x82]);
    let error = ProtocolError::SessionExpiryFromServer;
    assert_eq!(script.disconnected(), Disconnected::Protocol(error));
}

#[test]
fn packets_out_of_place_end_the_connection() {
    let packets: [(&[u8], PacketType); 5] = [
        (ACCEPTED, PacketType::ConnAck),
        (&[0xc0, 0], PacketType::PingReq),
        (b"\x82\x06\0\x01\0\x01a\0", PacketType::Subscribe),
        (b"\xa2\x05\0\x01\0\x01a", PacketType::Unsubscribe),
        (&[0xe0, 0], PacketType::Disconnect),
    ];
    for (bytes, packet) in packets {
        let mut script = Script::connected(Version::V311);
        script.receive(bytes);
        let error = ProtocolError::UnexpectedPacket { packet };
        assert_eq!(script.disconnected(), Disconnected::Protocol(error));
        script.assert_quiet();
    }
    let mut script = Script::new(options(Version::V311));
    script.client.open(script.now).unwrap();
    script.sent();
    script.receive(&[0xd0, 0]);
    assert!(matches!(script.disconnected(), Disconnected::Protocol(_)));
}

#[test]
fn a_port_of_another_protocol_is_named() {
    for (answer, speaks) in [(&b"\x15\x03\x03\0\x02\x02\x32"[..], "TLS"), (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP")]
    {
        let mut script = Script::new(options(Version::V5));
        script.client.open(script.now).unwrap();
        script.sent();
        script.receive(answer);
        assert_eq!(script.disconnected(), Disconnected::Protocol(ProtocolError::AnotherProtocol { speaks }));
    }
}

#[test]
fn packets_are_traced_when_asked_for() {
    let own = Options { trace: true, ..options(Version::V311) };
    let mut script = Script::new(own);
    script.client.open(script.now).unwrap();
    script.sent();
    script.receive(ACCEPTED);
    script.publish("t", "xyz", QoS::AtLeastOnce);
    let mut lines = Vec::new();
    while let Some(event) = script.client.poll_event() {
        if let Event::Trace(trace) = event {
            let direction = match trace.direction {
                Direction::Sent => ">",
                Direction::Received => "<",
            };
            lines.push(format!("{direction} {} {}", trace.packet, trace.detail));
        }
    }
    let expected = [
        "> CONNECT MQTT 3.1.1, client id 'c', clean start 0, keep alive 60",
        "< CONNACK success, session present 0",
        "> PUBLISH dup 0, QoS 1, retain 0, packet id 1, topic 't', 3 bytes",
    ];
    assert_eq!(lines, expected);
}
