//! Admission of clients, their names and terms, and the ends of connections.

use tidegate_engine::{LogEvent, Reason, TenantId};
use tidegate_mqtt::{
    Auth, ConnAck, Disconnect, Packet, PacketType, PingReq, PingResp, QoS, ReasonCode, SubscriptionOptions, Version,
};

use crate::harness::*;

const QOS1: QoS = QoS::AtLeastOnce;

#[test]
fn every_version_may_come_in() {
    everywhere(|world| {
        for connecting in [v31("a"), v311("b"), v5("c")] {
            let client = world.connect(connecting);
            client.ping();
            assert!(!client.session_present());
        }
        assert_eq!(world.counters().connects_accepted, 3);
    });
}

#[test]
fn the_first_packet_has_to_be_connect() {
    everywhere(|world| {
        let client = world.open(&v5("early"));
        client.send_bytes(&PingReq::BYTES);
        assert_eq!(client.expect_closed(), Reason::ProtocolError);
    });
}

#[test]
fn another_protocol_is_recognised_by_its_first_bytes() {
    // HTTP, SSH, TLS, a CONNECT with flags that is not of MQTT 3.1, and the type that is reserved; all would have more to
    // come.
    let starts = [
        (&b"G"[..], Reason::ProtocolError),
        (b"S", Reason::ProtocolError),
        (b"\x16\x03\x01", Reason::MalformedPacket),
        (b"\x11\x10\x00\x04", Reason::MalformedPacket),
        (b"\x00", Reason::MalformedPacket),
    ];
    everywhere(|world| {
        for (first, reason) in starts {
            let client = world.open(&v311("stranger"));
            client.send_bytes(first);
            assert_eq!(client.expect_closed(), reason, "{first:x?}");
        }
    });
}

#[test]
fn a_second_connect_ends_the_connection() {
    everywhere(|world| {
        let a = world.connect(v5("a"));
        a.send_bytes(&v5("a").encode());
        a.expect_disconnect(ReasonCode::ProtocolError);
        let b = world.connect(v311("b"));
        b.send_bytes(&v311("b").encode());
        assert_eq!(b.expect_closed(), Reason::ProtocolError);
    });
}

#[test]
fn an_unknown_protocol_level_is_refused_with_its_code() {
    let level = |level: u8| [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', level, 2, 0, 60, 0, 1, b'a'];
    everywhere(|world| {
        let old = world.open(&v311("old"));
        old.send_bytes(&level(2));
        old.expect_refused(ReasonCode::UnsupportedProtocolVersion);
        let new = world.open(&v5("new"));
        new.send_bytes(&level(6));
        new.expect_refused(ReasonCode::UnsupportedProtocolVersion);
    });
}

#[test]
fn a_malformed_connect_is_not_answered() {
    let world = World::new(1);
    let client = world.open(&v311("a"));
    client.send_bytes(&[0x10, 13, 0, 4, b'M', b'Q', b'T', b'X', 4, 2, 0, 60, 0, 1, b'a']);
    client.expect_closed();
    let reserved = world.open(&v311("b"));
    reserved.send_bytes(&[0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 3, 0, 60, 0, 1, b'a']);
    assert_eq!(reserved.expect_closed(), Reason::MalformedPacket);
}

#[test]
fn a_connection_may_be_cut_into_bytes() {
    everywhere(|world| {
        let connecting = v5("byte by byte").will(message("w", "x").user("a", "b"));
        let client = world.open(&connecting);
        for byte in connecting.encode() {
            client.expect_nothing();
            client.send_bytes(&[byte]);
        }
        client.expect(PacketType::ConnAck);
        for byte in message("t", "payload").qos1().id(9).encode(Version::V5) {
            assert!(client.answers().is_empty());
            client.send_bytes(&[byte]);
        }
        assert_eq!(client.answers(), [(PacketType::PubAck, 9, ReasonCode::NoMatchingSubscribers)]);
    });
}

#[test]
fn an_empty_client_id_is_given_a_name() {
    everywhere(|world| {
        let names: Vec<String> = (0..4)
            .map(|_| {
                let client = world.connect(v5(""));
                client.connack(|ack| ack.properties.assigned_client_identifier.unwrap().to_owned())
            })
            .collect();
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), 4, "{names:?}");
        let again = world.connect(v5(&names[0]).clean(false));
        assert!(!again.session_present());
        world.connect(v311("")).ping();
        world.connect(v5("named")).connack(|ack| assert_eq!(ack.properties.assigned_client_identifier, None));
    });
}

#[test]
fn an_assigned_client_id_names_a_session_to_return_to() {
    everywhere(|world| {
        let first = world.connect(v5("").clean(false).expiry(60));
        let name = first.connack(|ack| ack.properties.assigned_client_identifier.unwrap().to_owned());
        first.subscribe("t", QOS1);
        first.lose();
        assert!(world.connect(v5(&name).clean(false).expiry(60)).session_present());
    });
}

#[test]
fn empty_client_id_without_clean_session_has_exact_codes() {
    everywhere(|world| {
        world.try_connect(v311("").clean(false)).expect_refused(ReasonCode::ClientIdentifierNotValid);
        world.try_connect(v31("")).expect_refused(ReasonCode::ClientIdentifierNotValid);
    });
    everywhere_with(
        |settings| settings.listeners[0].allow_empty_client_id = false,
        |world| {
            world.try_connect(v5("")).expect_refused(ReasonCode::ClientIdentifierNotValid);
            world.try_connect(v5("").clean(false)).expect_refused(ReasonCode::ClientIdentifierNotValid);
            world.try_connect(v311("")).expect_refused(ReasonCode::ClientIdentifierNotValid);
        },
    );
}

#[test]
fn a_client_id_beyond_the_limit_is_refused() {
    everywhere_with(
        |settings| settings.listeners[0].max_client_id_len = 5,
        |world| {
            world.connect(v5("12345"));
            world.try_connect(v5("123456")).expect_refused(ReasonCode::ClientIdentifierNotValid);
        },
    );
}

#[test]
fn packets_pipelined_behind_connect_follow_it() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("t", QOS1);
        for shard in 0..world.shards() {
            let name = world.name_on(shard, "pipelined");
            let connecting = v5(&name).accept_on(0);
            let client = world.open(&connecting);
            let mut bytes = connecting.encode();
            bytes.extend(message("t", &name).qos1().id(3).encode(Version::V5));
            bytes.extend(PingReq::BYTES);
            client.send_bytes(&bytes);
            client.expect(PacketType::ConnAck);
            client.expect(PacketType::PingResp);
            assert_eq!(client.answers(), [(PacketType::PubAck, 3, ReasonCode::Success)]);
            watcher.expect_publish("t", &name);
            assert_eq!(client.shard(), Some(shard));
        }
    });
}

#[test]
fn a_silent_connection_is_given_up() {
    everywhere(|world| {
        let silent = world.open(&v5("silent"));
        let half = world.open(&v5("half"));
        half.send_bytes(&v5("half").encode()[..10]);
        world.advance(seconds(10) - 1);
        silent.expect_open();
        half.expect_open();
        world.advance(1);
        assert_eq!(silent.expect_closed(), Reason::ConnectTimeout);
        assert_eq!(half.expect_closed(), Reason::ConnectTimeout);
        assert_eq!(world.gauges().connections, 0);
        assert_eq!(world.gauges().input_bytes, 0);
    });
}

#[test]
fn the_connect_timeout_ends_with_connect() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        world.advance(minutes(60));
        client.ping();
    });
}

#[test]
fn nothing_is_taken_after_disconnect() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("t", QOS1);
        let client = world.connect(v5("client"));
        let mut bytes = vec![0xE0, 0];
        bytes.extend(message("t", "late").encode(Version::V5));
        client.send_bytes(&bytes);
        assert_eq!(client.expect_closed(), Reason::NormalDisconnect);
        watcher.expect_nothing();
    });
}

#[test]
fn packets_that_only_servers_send_end_the_connection() {
    everywhere(|world| {
        let connack = Packet::ConnAck(ConnAck::default());
        for packet in [connack, Packet::PingResp(PingResp), Packet::Auth(Auth::default())] {
            let client = world.connect(v5("a"));
            client.send(&packet);
            client.expect_disconnect(ReasonCode::ProtocolError);
        }
    });
}

#[test]
fn a_malformed_packet_ends_the_connection_and_is_logged() {
    everywhere(|world| {
        let client = world.connect(v5("broken"));
        world.take_log();
        client.send_bytes(&[0x36, 0]);
        client.expect_disconnect(ReasonCode::MalformedPacket);
        let told = |event: &LogEvent| matches!(event, LogEvent::BadPacket { client_id, .. } if client_id == "broken");
        assert!(world.take_log().iter().any(told));
        assert_eq!(world.counters().disconnects[Reason::MalformedPacket.number()], 1);
    });
}

#[test]
fn a_packet_above_the_maximum_size_ends_the_connection() {
    everywhere_with(
        |settings| settings.listeners[0].max_packet_size = 100,
        |world| {
            let client = world.connect(v5("a"));
            assert_eq!(client.connack(|ack| ack.properties.maximum_packet_size.unwrap().get()), 100);
            client.publish(message("t", vec![b'x'; 92]).qos1());
            client.send_publish(message("t", vec![b'x'; 97]));
            client.expect_disconnect(ReasonCode::PacketTooLarge);
            let old = world.connect(v311("b"));
            old.send_publish(message("t", vec![b'x'; 100]));
            assert_eq!(old.expect_closed(), Reason::PacketTooLarge);
        },
    );
}

#[test]
fn enhanced_authentication_is_refused_by_name() {
    everywhere(|world| {
        let client = world.try_connect(v5("a").authentication_method("SCRAM-SHA-256"));
        client.expect_refused(ReasonCode::BadAuthenticationMethod);
    });
}

#[test]
fn a_listener_takes_no_more_connections_than_its_limit() {
    let world = World::with(1, |settings| settings.listeners[0].max_connections = 2);
    let a = world.connect(v5("a"));
    let _b = world.connect(v5("b"));
    let refused = world.open(&v5("c"));
    assert_eq!(refused.expect_closed(), Reason::TooManyConnections);
    a.disconnect();
    world.connect(v5("c")).ping();
    assert_eq!(world.counters().connects_refused[Reason::TooManyConnections.number()], 1);
}

#[test]
fn the_connection_limit_counts_handed_over_clients_at_home() {
    let world = World::with(3, |settings| settings.listeners[0].max_connections = 1);
    let name = world.name_on(2, "c");
    let first = world.connect(v5(&name).accept_on(0));
    let second = world.open(&v5("x").accept_on(0));
    second.expect_open();
    let third = world.open(&v5("y").accept_on(2));
    assert_eq!(third.expect_closed(), Reason::TooManyConnections);
    first.ping();
}

#[test]
fn sessions_have_a_limit() {
    let world = World::with(1, |settings| settings.limits.max_sessions = 1);
    let a = world.connect(v5("a").lasting());
    world.try_connect(v5("b")).expect_refused(ReasonCode::QuotaExceeded);
    world.try_connect(v311("b")).expect_refused(ReasonCode::ServerUnavailable);
    a.lose();
    assert!(world.connect(v5("a").lasting()).session_present(), "a known session is no new one");
}

#[test]
fn an_operator_may_close_a_connection() {
    everywhere(|world| {
        let a = world.connect(v5("a"));
        let home = world.home_of("a");
        let close = |name: &str| {
            let name = name.to_owned();
            let reason = Reason::AdministrativeAction;
            world.engine(home, move |engine, now| {
                engine.control().disconnect_client(now, TenantId::DEFAULT, &name, reason)
            })
        };
        assert!(!close("unknown"));
        assert!(close("a"));
        a.expect_disconnect(ReasonCode::AdministrativeAction);
    });
}

#[test]
fn a_server_tells_its_reasons_in_words() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.send_bytes(&v5("a").encode());
        let arrival = client.expect_disconnect(ReasonCode::ProtocolError);
        let Packet::Disconnect(disconnect) = arrival.packet() else { panic!("{arrival:?}") };
        assert_eq!(disconnect.reason_string, Some("a second CONNECT"));
    });
}

#[test]
fn a_reason_string_is_left_out_for_small_packet_limits() {
    everywhere(|world| {
        let client = world.connect(v5("a").max_packet(32));
        client.send_publish(message("t", "x").alias(40_000));
        let arrival = client.expect_disconnect(ReasonCode::TopicAliasInvalid);
        let Packet::Disconnect(disconnect) = arrival.packet() else { panic!("{arrival:?}") };
        assert_eq!(disconnect.reason_string, None);
    });
}

#[test]
fn a_refusal_has_no_reason_string_for_small_packet_limits() {
    everywhere(|world| {
        let client = world.try_connect(v5("a").max_packet(8).authentication_method("X"));
        client.expect_refused(ReasonCode::BadAuthenticationMethod);
    });
}

#[test]
fn connack_names_values_that_differ_from_the_request() {
    everywhere_with(
        |settings| {
            let listener = &mut settings.listeners[0];
            listener.receive_maximum = 7;
            listener.maximum_qos = QoS::AtLeastOnce;
            listener.topic_alias_maximum = 3;
            listener.max_packet_size = 1000;
            settings.limits.max_session_expiry_seconds = 100;
            settings.retained.available = false;
            settings.shared.available = false;
        },
        |world| {
            let client = world.connect(v5("a").expiry(1000).keep_alive(10));
            client.connack(|ack| {
                let told = &ack.properties;
                assert_eq!(told.receive_maximum.unwrap().get(), 7);
                assert_eq!(told.maximum_qos, Some(QoS::AtLeastOnce));
                assert_eq!(told.topic_alias_maximum, Some(3));
                assert_eq!(told.maximum_packet_size.unwrap().get(), 1000);
                assert_eq!(told.session_expiry_interval, Some(100));
                assert_eq!(told.retain_available, Some(false));
                assert_eq!(told.shared_subscription_available, Some(false));
                assert_eq!(told.server_keep_alive, None);
                assert_eq!(told.wildcard_subscription_available, None);
                assert_eq!(told.response_information, None);
            });
        },
    );
}

#[test]
fn response_information_is_given_on_request() {
    everywhere_with(
        |settings| settings.listeners[0].response_information = Some("answers/".into()),
        |world| {
            let asks = world.connect(v5("asks").request_response(true));
            asks.connack(|ack| assert_eq!(ack.properties.response_information, Some("answers/")));
            for connecting in [v5("does not"), v5("declines").request_response(false)] {
                world.connect(connecting).connack(|ack| assert_eq!(ack.properties.response_information, None));
            }
        },
    );
}

#[test]
fn a_session_expiry_given_at_the_end_counts() {
    everywhere(|world| {
        let client = world.connect(v5("a").clean(false).expiry(10));
        client.subscribe("t", QOS1);
        client.disconnect_with(&Disconnect { session_expiry_interval: Some(100), ..Disconnect::default() });
        world.advance(seconds(99));
        let again = world.connect(v5("a").clean(false).expiry(10));
        assert!(again.session_present());
        again.disconnect_with(&Disconnect { session_expiry_interval: Some(0), ..Disconnect::default() });
        assert!(!world.connect(v5("a").clean(false)).session_present());
    });
}

#[test]
fn a_session_expiry_given_at_the_end_only_is_a_protocol_error() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        let disconnect = Disconnect { session_expiry_interval: Some(100), ..Disconnect::default() };
        client.send(&Packet::Disconnect(disconnect));
        client.expect_disconnect(ReasonCode::ProtocolError);
    });
}

#[test]
fn connects_and_disconnects_are_logged_once() {
    everywhere(|world| {
        let name = world.name_on(world.shards() - 1, "told");
        let client = world.connect(v5(&name).accept_on(0).lasting());
        client.lose();
        let log = world.take_log();
        let named = |event: &&LogEvent| match event {
            LogEvent::Connected { client_id, session_present: false, version: Version::V5, .. }
            | LogEvent::Disconnected { client_id, reason: Reason::ConnectionLost, .. } => *client_id == name,
            _ => false,
        };
        assert_eq!(log.iter().filter(named).count(), 2, "{log:?}");
        assert_eq!(log.len(), 2, "{log:?}");
    });
}

#[test]
fn a_connection_that_was_handed_over_is_counted_once() {
    let world = World::new(3);
    let name = world.name_on(2, "moved");
    let client = world.connect(v5(&name).accept_on(0));
    client.ping();
    let counters = world.counters();
    assert_eq!(counters.sockets_opened, 1);
    assert_eq!(counters.packets_in[PacketType::Connect as usize], 1);
    let sent = v5(&name).encode().len() as u64 + 2;
    assert_eq!(counters.bytes_in, sent);
    assert_eq!(world.gauges().connections, 1);
}

#[test]
fn a_connection_that_ends_before_connect_leaves_nothing() {
    everywhere(|world| {
        let client = world.open(&v5("a"));
        client.send_bytes(&v5("a").encode()[..8]);
        client.lose();
        assert_eq!(client.expect_closed(), Reason::ConnectionLost);
        assert_eq!((world.gauges().connections, world.gauges().input_bytes), (0, 0));
    });
}

#[test]
fn a_connect_of_mqtt_31_may_have_flags() {
    everywhere(|world| {
        for flags in [0x04, 0x0f] {
            let mut bytes = v31("old").encode();
            bytes[0] |= flags;
            let mut client = world.open(&v31("old"));
            for byte in bytes {
                client.send_bytes(&[byte]);
            }
            client.expect_accepted();
            client.disconnect();
        }
        let mut bytes = v311("newer").encode();
        bytes[0] |= 0x04;
        let client = world.open(&v311("newer"));
        client.send_bytes(&bytes);
        assert_eq!(client.expect_closed(), Reason::MalformedPacket);
    });
}

#[test]
fn what_refused_a_subscription_or_connection_is_counted() {
    everywhere(|world| {
        world.try_connect(v311("").clean(false));
        assert_eq!(world.counters().connects_refused[Reason::InvalidClientId.number()], 1);
        let client = world.connect(v5("a"));
        let id = client.send_subscribe(&[("a/".repeat(200).as_str(), SubscriptionOptions::new(QOS1))], None);
        assert_eq!(client.expect_sub_ack(id), [ReasonCode::TopicFilterInvalid]);
        assert_eq!(world.counters().requests_refused[Reason::FilterTooDeep.number()], 1);
    });
}

#[test]
fn a_connack_that_the_client_cannot_take_ends_the_connection() {
    everywhere(|world| {
        let client = world.try_connect(v5("tiny").max_packet(3));
        assert_eq!(client.expect_closed(), Reason::PacketTooLarge);
        assert_eq!(world.gauges().sessions_connected + world.gauges().sessions_disconnected, 0);
    });
}

#[test]
fn connack_caps_the_packet_size_at_one_every_client_takes() {
    // Some clients refuse a CONNACK that names more than the greatest Remaining Length.
    everywhere_with(
        |settings| settings.listeners[0].max_packet_size = 256 * 1024 * 1024,
        |world| {
            let client = world.connect(v5("a"));
            client.connack(|ack| assert_eq!(ack.properties.maximum_packet_size.unwrap().get(), 268_435_455));
        },
    );
}
