//! Terms of a connection at its new home: the client's proof, the rights there, and the terms of its CONNACK.

use std::sync::Arc;

use tidegate_engine::{Accepted, Access, AuthOutcome, Authentication, Identity, NotContinued, Proof, Reason, Subject};
use tidegate_mqtt::{Auth, Packet, QoS, ReasonCode};

use super::*;

/// Lets a connection leave for a world with these settings.
fn moved(here: &World, client: &Client, change: impl FnOnce(&mut Settings)) -> (World, Result<Client, NotContinued>) {
    here.run();
    let left = client.leave().expect("a connection at rest");
    let there = elsewhere_with(here, 1, millis(30), change);
    move_all(here, &there);
    let client = client.continue_at(&there, left);
    (there, client)
}

/// Narrower terms than a default listener has.
fn narrow(settings: &mut Settings) {
    let listener = &mut settings.listeners[0];
    (listener.receive_maximum, listener.topic_alias_maximum) = (1, 1);
    (listener.max_packet_size, listener.maximum_qos) = (100, QoS::AtMostOnce);
}

#[test]
fn a_continued_connection_keeps_the_terms_of_its_connack() {
    let here = World::new(1);
    let client = here.connect(v5("a").manual());
    let (there, client) = moved(&here, &client, narrow);
    let client = client.unwrap();
    let long = "x".repeat(500);
    for number in 1..=3 {
        client.open_exchange(message("a/topic", &long).qos2().alias(30).id(number));
    }
    for wrong in [message("t", "x").alias(2), message("t", &long), message("t", "x").qos1().id(1)] {
        let other = there.connect(v5("b").manual());
        other.send_publish(wrong);
        other.expect(PacketType::Disconnect);
    }
    // The terms go along with the next move, too.
    for number in 1..=3 {
        client.end_exchange(id(number));
    }
    let (_, client) = moved(&there, &client, narrow);
    let client = client.unwrap();
    client.open_exchange(message("", &long).qos2().alias(30).id(9));
    client.send_publish(message("t", "x").alias(33));
    client.expect_disconnect(ReasonCode::TopicAliasInvalid);
}

#[test]
fn a_connection_whose_terms_cannot_be_kept_is_refused() {
    let refused = Some(NotContinued::Refused(Reason::UseAnotherServer));
    let unretained: fn(&mut Settings) = |settings| settings.retained.available = false;
    let unshared: fn(&mut Settings) = |settings| settings.shared.available = false;
    for change in [unretained, unshared] {
        let here = World::new(1);
        let client = here.connect(v5("a").lasting());
        let (_, client) = moved(&here, &client, change);
        assert_eq!(client.map(drop).err(), refused);
    }
}

/// Ann may use her own topics only.
#[derive(Debug)]
struct OwnTopics;

impl Access for OwnTopics {
    fn may_publish(&self, subject: Subject<'_>, topic: &str, _: QoS, _: bool) -> bool {
        !is_ann(subject) || topic.starts_with("ann")
    }

    fn may_subscribe(&self, subject: Subject<'_>, filter: &str, _: QoS, _: bool) -> bool {
        !is_ann(subject) || filter.starts_with("ann")
    }
}

fn is_ann(subject: Subject<'_>) -> bool {
    subject.identity.is_some_and(|identity| identity.user_name.as_deref() == Some("ann"))
}

/// An authenticated client in a world that asks for identities.
fn proven(expires_at: Option<u64>, connecting: Connecting) -> (World, Client) {
    let here = World::with(1, |settings| settings.authentication = Authentication::External);
    let mut client = here.try_connect(connecting);
    let proof = Some(Proof { provider: "users".into(), mark: [5; Proof::MARK_BYTES] });
    let identity = Identity { user_name: Some("ann".into()), expires_at, proof, ..Identity::default() };
    here.decide(AuthOutcome::Accept(Accepted { identity: Some(Arc::new(identity)), data: None }));
    client.expect_accepted();
    (here, client)
}

#[test]
fn a_continued_client_has_the_rights_of_its_new_home() {
    let (here, client) = proven(None, v5("a"));
    client.subscribe("ann/#", QoS::AtMostOnce);
    client.subscribe("all/#", QoS::AtMostOnce);
    here.run();
    let left = client.leave().unwrap();
    let there = elsewhere(&here, 1, millis(30));
    there.engine(0, |engine, _| engine.control().set_access(Some(Box::new(OwnTopics))));
    move_all(&here, &there);
    let client = client.continue_at(&there, left).unwrap();
    let publisher = there.connect(v5("p"));
    for topic in ["all/x", "ann/x"] {
        publisher.publish(message(topic, topic));
    }
    client.expect_publish("ann/x", "ann/x");
    client.expect_nothing();
    assert_eq!(client.publish(message("all/y", "y").qos1()), ReasonCode::NotAuthorized);
}

#[test]
fn a_proof_goes_along_with_a_connection_and_ends_in_time() {
    let (here, client) = proven(Some(World::new(1).now().unix + seconds(60)), v5("a").keep_alive(0));
    here.run();
    let left = client.leave().unwrap();
    let there = elsewhere(&here, 1, millis(30));
    let is_of = |world: &World| world.engine(0, |engine, now| engine.homes().is_of_here(now, &left.0.image));
    assert!(is_of(&here), "its move may be called off");
    move_all(&here, &there);
    assert!(!is_of(&here) && !is_of(&there));
    let found = there.engine(0, |engine, now| engine.homes().identity_of(now, &left.0.image)).unwrap().unwrap();
    let proof = found.proof.as_ref().map(|proof| (&*proof.provider, proof.mark));
    assert_eq!((found.user_name.as_deref(), proof), (Some("ann"), Some(("users", [5; Proof::MARK_BYTES]))));
    let client = client.continue_at(&there, left).unwrap();
    there.advance(seconds(59));
    client.ping();
    there.advance(seconds(2));
    client.expect_disconnect(Reason::ProofExpired.code());
}

#[test]
fn a_continued_client_can_authenticate_again() {
    let method = "SCRAM-SHA-256";
    let (here, client) = proven(None, v5("a").authentication_method(method));
    let (there, client) = moved(&here, &client, |settings| settings.authentication = Authentication::External);
    let client = client.unwrap();
    client.send(&Packet::Auth(Auth {
        reason_code: ReasonCode::ReAuthenticate,
        authentication_method: Some(method),
        authentication_data: Some(b"again"),
        ..Auth::default()
    }));
    there.run();
    let asked = there.asked();
    assert_eq!((asked.again, asked.user_name.as_deref()), (true, Some("ann")));
    there.decide(AuthOutcome::Refuse(Reason::NotAuthorized));
    client.expect_disconnect(ReasonCode::NotAuthorized);
}

#[test]
fn events_of_clients_say_that_a_connection_moves() {
    let here = World::new(1);
    let client = here.connect(v5("a"));
    let watching = |world: &World| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("$SYS/brokers/tidegate/clients/a/#", QoS::AtMostOnce);
        watcher
    };
    let before = watching(&here);
    here.run();
    let left = client.leave().unwrap();
    assert_eq!(before.expect_message().topic, "$SYS/brokers/tidegate/clients/a/moved");
    before.lose();
    let there = elsewhere(&here, 1, millis(30));
    move_all(&here, &there);
    let after = watching(&there);
    client.continue_at(&there, left).unwrap();
    assert_eq!(after.expect_message().topic, "$SYS/brokers/tidegate/clients/a/continued");
    assert_eq!(there.counters().connects_accepted, 1, "only the watcher has connected");
}
