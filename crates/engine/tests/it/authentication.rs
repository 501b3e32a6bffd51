//! CONNECT waits for external authentication.

use tidegate_engine::{Accepted, AuthOutcome, Authentication, Reason, Settings};
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::{PacketType, PingReq, ReasonCode, Version};

use crate::harness::*;

fn external(settings: &mut Settings) {
    settings.authentication = Authentication::External;
    settings.limits.pipelined_bytes = 200;
}

#[test]
fn a_connect_waits_for_its_authentication() {
    everywhere_with(external, |world| {
        let connecting = v5("a").user("name", "secret");
        let mut client = world.open(&connecting);
        client.send_bytes(&connecting.encode());
        client.expect_nothing();
        let asked = world.asked();
        assert_eq!((asked.client_id.as_str(), asked.user_name.as_deref()), ("a", Some("name")));
        assert_eq!(asked.password.as_deref(), Some(&b"secret"[..]));
        assert!(!format!("{asked:?}").contains("secret"), "passwords stay out of logs");
        world.decide(AuthOutcome::Accept(Accepted::default()));
        client.expect_accepted();
        client.ping();
    });
}

#[test]
fn a_refusal_carries_its_reason() {
    everywhere_with(external, |world| {
        for (reason, code) in [
            (Reason::BadCredentials, ReasonCode::BadUserNameOrPassword),
            (Reason::NotAuthorized, ReasonCode::NotAuthorized),
        ] {
            for connecting in [v5("a"), v311("a")] {
                let client = world.try_connect(connecting);
                world.decide(AuthOutcome::Refuse(reason));
                client.expect_refused(code);
            }
            assert_eq!(world.counters().connects_refused[reason.number()], 2);
        }
        assert_eq!(world.gauges().connections, 0);
    });
}

#[test]
fn pipelined_packets_wait_with_the_connect() {
    everywhere_with(external, |world| {
        let connecting = v5("a");
        let client = world.open(&connecting);
        let mut bytes = connecting.encode();
        bytes.extend(message("t", "x").qos1().id(1).encode(Version::V5));
        bytes.extend(PingReq::BYTES);
        client.send_bytes(&bytes);
        client.expect_nothing();
        assert!(client.answers().is_empty());
        world.decide(AuthOutcome::Accept(Accepted::default()));
        client.expect(PacketType::ConnAck);
        client.expect(PacketType::PingResp);
        assert_eq!(client.answers().len(), 1);
        assert_eq!(world.gauges().input_bytes, 0);
    });
}

#[test]
fn bytes_behind_an_unanswered_connect_are_capped() {
    everywhere_with(external, |world| {
        let connecting = v5("a");
        let client = world.open(&connecting);
        client.send_bytes(&connecting.encode());
        client.send_bytes(&PingReq::BYTES.repeat(100));
        client.expect_open();
        client.send_bytes(&PingReq::BYTES);
        assert_eq!(client.expect_closed(), Reason::PipelinedTooMuch);
        assert_eq!(world.gauges().input_bytes, 0);
        world.decide(AuthOutcome::Accept(Accepted::default()));
        assert_eq!(world.gauges().sessions_connected, 0, "an outcome for a connection that is gone");
    });
}

#[test]
fn a_refused_clients_pipelined_packets_do_nothing() {
    everywhere_with(external, |world| {
        let watcher = world.try_connect(v5("watcher"));
        world.decide(AuthOutcome::Accept(Accepted::default()));
        watcher.expect(PacketType::ConnAck);
        watcher.subscribe("t", AtLeastOnce);
        let connecting = v5("a").will(message("t", "will"));
        let client = world.open(&connecting);
        let mut bytes = connecting.encode();
        bytes.extend(message("t", "x").qos1().id(1).encode(Version::V5));
        client.send_bytes(&bytes);
        world.run();
        world.decide(AuthOutcome::Refuse(Reason::NotAuthorized));
        client.expect_refused(ReasonCode::NotAuthorized);
        watcher.expect_nothing();
    });
}

#[test]
fn an_authentication_that_times_out_ends_the_connection() {
    everywhere_with(external, |world| {
        let client = world.try_connect(v5("a"));
        world.advance(seconds(10));
        assert_eq!(client.expect_closed(), Reason::ConnectTimeout);
        world.decide(AuthOutcome::Accept(Accepted::default()));
        assert_eq!(world.counters().connects_accepted, 0);
    });
}

#[test]
fn authentications_may_end_in_any_order() {
    everywhere_with(external, |world| {
        let mut clients: Vec<Client> = (0..4).map(|number| world.try_connect(v5(&format!("c{number}")))).collect();
        assert_eq!(world.waiting_for_authentication(), 4);
        for _ in 0..4 {
            let name = world.asked().client_id;
            world.decide(AuthOutcome::Accept(Accepted::default()));
            clients.iter_mut().find(|client| client.id() == name).unwrap().expect_accepted();
        }
    });
}

#[test]
fn an_assigned_client_id_is_known_before_authentication() {
    everywhere_with(external, |world| {
        let mut client = world.try_connect(v5(""));
        let name = world.asked().client_id;
        assert!(!name.is_empty());
        world.decide(AuthOutcome::Accept(Accepted::default()));
        client.expect_accepted();
        client.connack(|ack| assert_eq!(ack.properties.assigned_client_identifier, Some(name.as_str())));
    });
}

#[test]
fn an_accepted_connect_takes_over_and_unblocks_publishers() {
    everywhere_with(
        |settings| {
            external(settings);
            settings.queue.overflow = tidegate_engine::OverflowPolicy::Block;
            settings.queue.max_messages = 2;
        },
        |world| {
            let join = |connecting: Connecting| {
                let client = world.try_connect(connecting);
                world.decide(AuthOutcome::Accept(Accepted::default()));
                client.expect(PacketType::ConnAck);
                client
            };
            let slow = join(v5("slow").receive_maximum(1).manual());
            slow.subscribe("t", AtLeastOnce);
            let publisher = join(v5("p"));
            for number in 0..6 {
                publisher.send_publish(message("t", number.to_string()).qos1());
                world.run();
            }
            assert!(publisher.answers().len() < 6);
            let _new = join(v5("slow"));
            assert!(!publisher.answers().is_empty(), "the old queue is gone, and with it the wait");
            publisher.ping();
        },
    );
}
