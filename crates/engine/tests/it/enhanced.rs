//! Authentication in several steps, and once more in an open connection ([MQTT-4.12]).

use std::sync::Arc;

use tidegate_engine::{Accepted, AuthOutcome, Authentication, Identity, Reason, Settings};
use tidegate_mqtt::{Auth, Packet, PacketType, ReasonCode};

use crate::harness::*;

fn external(settings: &mut Settings) {
    settings.authentication = Authentication::External;
}

fn auth(reason_code: ReasonCode, method: &'static str, data: &'static [u8]) -> Packet<'static> {
    let (method, data) = (Some(method), Some(data));
    Packet::Auth(Auth { reason_code, authentication_method: method, authentication_data: data, ..Auth::default() })
}

fn accepted(user_name: &str, data: &[u8], expires_at: Option<u64>) -> AuthOutcome {
    let identity = Identity { user_name: Some(user_name.into()), expires_at, ..Identity::default() };
    AuthOutcome::Accept(Accepted { identity: Some(Arc::new(identity)), data: Some(data.to_vec()) })
}

/// The server's next AUTH has to be this one.
#[track_caller]
fn expect_auth(client: &Client, code: ReasonCode, data: &[u8]) {
    let arrival = client.expect(PacketType::Auth);
    let Packet::Auth(auth) = arrival.packet() else { panic!("no AUTH") };
    assert_eq!((auth.reason_code, auth.authentication_method), (code, Some("SCRAM-SHA-256")));
    assert_eq!(auth.authentication_data, Some(data));
}

/// A client that has been asked something.
fn challenged(world: &World) -> Client {
    let client = world.try_connect(v5("a").authentication_method("SCRAM-SHA-256"));
    let asked = world.asked();
    assert_eq!(asked.enhanced.map(|enhanced| enhanced.method).as_deref(), Some("SCRAM-SHA-256"));
    assert!(!asked.again);
    world.decide(AuthOutcome::Challenge(b"salt".to_vec()));
    expect_auth(&client, ReasonCode::ContinueAuthentication, b"salt");
    client
}

/// A client that has proven who it is.
fn proven(world: &World, expires_at: Option<u64>) -> Client {
    let mut client = challenged(world);
    client.send(&auth(ReasonCode::ContinueAuthentication, "SCRAM-SHA-256", b"proof"));
    world.run();
    assert_eq!(world.decide_challenge(accepted("ann", b"verified", expires_at)), b"proof");
    client.expect_accepted();
    client.connack(|connack| {
        assert_eq!(connack.properties.authentication_method, Some("SCRAM-SHA-256"));
        assert_eq!(connack.properties.authentication_data, Some(&b"verified"[..]));
    });
    client
}

#[test]
fn a_client_answers_challenges_until_the_outcome() {
    everywhere_with(external, |world| {
        let client = proven(world, None);
        client.ping();
        client.send(&auth(ReasonCode::ContinueAuthentication, "SCRAM-SHA-256", b"more"));
        client.expect_disconnect(ReasonCode::ProtocolError);
    });
}

#[test]
fn a_wrong_answer_is_refused_with_its_reason() {
    everywhere_with(external, |world| {
        let client = challenged(world);
        client.send(&auth(ReasonCode::ContinueAuthentication, "SCRAM-SHA-256", b"wrong"));
        world.run();
        world.decide_challenge(AuthOutcome::Refuse(Reason::BadCredentials));
        client.expect_refused(ReasonCode::BadUserNameOrPassword);
    });
}

#[test]
fn nothing_but_auth_is_taken_while_an_answer_is_awaited() {
    everywhere_with(external, |world| {
        for packet in [Packet::PingReq(tidegate_mqtt::PingReq), auth(ReasonCode::ContinueAuthentication, "OTHER", b"")]
        {
            let client = challenged(world);
            client.send(&packet);
            world.run();
            assert!(client.closed().is_some(), "{packet:?}");
        }
        assert_eq!(world.gauges().sessions_connected, 0);
    });
}

#[test]
fn a_silent_client_is_given_up_with_the_time_for_its_connect() {
    everywhere_with(external, |world| {
        let client = challenged(world);
        world.advance(seconds(10));
        assert_eq!(client.closed(), Some(Reason::ConnectTimeout));
    });
}

#[test]
fn a_client_reauthenticates_while_messages_flow() {
    everywhere_with(external, |world| {
        let client = proven(world, None);
        client.send(&auth(ReasonCode::ReAuthenticate, "SCRAM-SHA-256", b"again"));
        world.run();
        let asked = world.asked();
        assert!(asked.again && asked.user_name.as_deref() == Some("ann"));
        client.ping();
        world.decide(AuthOutcome::Challenge(b"salt 2".to_vec()));
        expect_auth(&client, ReasonCode::ContinueAuthentication, b"salt 2");
        client.send(&auth(ReasonCode::ContinueAuthentication, "SCRAM-SHA-256", b"proof 2"));
        world.run();
        world.decide_challenge(accepted("ann", b"verified 2", None));
        expect_auth(&client, ReasonCode::Success, b"verified 2");
        client.ping();
    });
}

#[test]
fn a_client_that_fails_to_reauthenticate_is_disconnected() {
    // DISCONNECT may not carry 0x86.
    for reason in [Reason::NotAuthorized, Reason::BadCredentials] {
        everywhere_with(external, |world| {
            let client = proven(world, None);
            client.send(&auth(ReasonCode::ReAuthenticate, "SCRAM-SHA-256", b"again"));
            world.run();
            world.decide(AuthOutcome::Refuse(reason));
            client.expect_disconnect(ReasonCode::NotAuthorized);
        });
    }
}

#[test]
fn another_user_does_not_take_a_connection_over() {
    let metered = |settings: &mut Settings| {
        external(settings);
        settings.usage_by_user = true;
    };
    everywhere_with(metered, |world| {
        let client = proven(world, None);
        client.send(&auth(ReasonCode::ReAuthenticate, "SCRAM-SHA-256", b"again"));
        world.run();
        world.decide(accepted("eve", b"verified 2", None));
        client.expect_disconnect(ReasonCode::NotAuthorized);
        let usage = world.engine(0, |engine, now| engine.questions().usage_by_user(now));
        let others: Vec<&str> = usage.iter().map(|(_, user, _)| &**user).filter(|user| *user == "eve").collect();
        assert!(others.is_empty(), "{usage:?}");
    });
}

#[test]
fn a_connection_lasts_no_longer_than_its_proof() {
    everywhere_with(external, |world| {
        let client = proven(world, Some(world.now().unix + seconds(30)));
        world.advance(seconds(29));
        client.ping();
        world.advance(seconds(2));
        client.expect_disconnect(ReasonCode::NotAuthorized);
        assert_eq!(client.closed(), Some(Reason::ProofExpired));
    });
}
