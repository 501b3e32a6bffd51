//! Sessions of the hub: their client ids, and the origin that they get with each message.

use tidegate_engine::{
    Accepted, AuthOutcome, HUB_CLIENT_PREFIX, ListenerSettings, ORIGIN_PROPERTY, Settings, TenantId,
};
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

/// The listener of the hub is the second one.
fn with_hub(settings: &mut Settings) {
    settings.hub_filters = vec![(TenantId::DEFAULT, "plant/+/temp".to_owned())];
    settings.listeners.push(ListenerSettings { name: "hub".into(), for_hub: true, ..ListenerSettings::default() });
}

fn session() -> String {
    format!("{HUB_CLIENT_PREFIX}hot")
}

/// A pipeline's session with its subscriptions.
fn pipeline(world: &World) -> Client {
    let mut client = world.try_connect(v5(&session()).lasting().through(1).accept_on(world.home_of(&session())));
    world.decide(AuthOutcome::Accept(Accepted::default()));
    client.expect_accepted();
    if !client.session_present() {
        client.subscribe("#", AtLeastOnce);
    }
    client
}

/// Id, time and publisher of a message, if it says so.
fn origin(delivered: &Delivered) -> Option<(String, String, String)> {
    let (name, value) = delivered.user_properties.first()?;
    let mut parts = value.splitn(3, ' ').map(str::to_owned);
    (name == ORIGIN_PROPERTY).then(|| (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap()))
}

#[test]
fn only_the_hub_gets_the_publisher_of_a_message() {
    everywhere_with(with_hub, |world| {
        let hub = pipeline(world);
        let other = world.connect(v5("other"));
        other.subscribe("#", AtLeastOnce);
        let old = world.connect(v311("old"));
        old.subscribe("#", AtLeastOnce);
        for publisher in [world.connect(v5("pump 7")), world.connect(v311("pump 8"))] {
            let sent = message("plant/a/temp", "31").qos1();
            publisher.publish(if publisher.is_v5() { sent.user("k", "v") } else { sent });
            let (id, time, client_id) = origin(&hub.expect_message()).unwrap();
            assert_eq!((client_id.as_str(), time), (publisher.id(), world.now().unix.to_string()));
            assert!(!id.is_empty());
            let pairs = other.expect_message().user_properties;
            assert_eq!(pairs.len(), usize::from(publisher.is_v5()), "{pairs:?}");
            old.expect_publish("plant/a/temp", "31");
            publisher.publish(message("elsewhere", "x").qos1());
            assert_eq!(origin(&hub.expect_message()), None, "no pipeline has this topic");
            other.expect_message();
            old.expect_message();
        }
    });
}

#[test]
fn an_origin_that_a_publisher_makes_up_is_left_out() {
    everywhere_with(with_hub, |world| {
        let hub = pipeline(world);
        let publisher = world.connect(v5("thief"));
        publisher.publish(message("plant/a/temp", "1").qos1().user(ORIGIN_PROPERTY, "id 1 other"));
        let delivered = hub.expect_message();
        assert_eq!((origin(&delivered).unwrap().2.as_str(), delivered.user_properties.len()), ("thief", 1));
    });
}

#[test]
fn a_message_that_is_sent_again_says_its_origin() {
    everywhere_with(with_hub, |world| {
        let hub = pipeline(world);
        hub.stop_reading();
        let publisher = world.connect(v5("p"));
        publisher.publish(message("plant/a/temp", "1").qos1());
        hub.lose();
        publisher.publish(message("plant/a/temp", "2").qos1());
        let hub = pipeline(world);
        let (again, waited) = (hub.expect_message(), hub.expect_message());
        assert_eq!((again.text().as_str(), waited.text().as_str()), ("1", "2"));
        let (again, waited) = (origin(&again).unwrap(), origin(&waited).unwrap());
        assert_eq!((again.2.as_str(), waited.2.as_str()), ("p", "p"));
        assert_ne!(again.0, waited.0, "each has an id of its own");
    });
}

#[test]
fn a_retained_message_says_its_origin_to_the_hub_alone() {
    everywhere_with(with_hub, |world| {
        let publisher = world.connect(v311("p"));
        publisher.publish(message("plant/a/temp", "1").qos1().retain());
        let hub = pipeline(world);
        assert_eq!(origin(&hub.expect_message()).unwrap().2, "p");
        let other = world.connect(v5("other"));
        other.subscribe("plant/#", AtLeastOnce);
        assert!(other.expect_message().user_properties.is_empty());
    });
}

#[test]
fn client_ids_of_the_hub_are_reserved() {
    everywhere_with(with_hub, |world| {
        for connecting in [v5(&session()), v311(&session()), v5("other").through(1)] {
            world.try_connect(connecting).expect_refused(ReasonCode::ClientIdentifierNotValid);
        }
        let asked = world.try_connect(v5(&session()).through(1).accept_on(world.home_of(&session())));
        asked.expect_nothing();
        assert_eq!(world.asked().client_id, session(), "it waits for its authentication although other clients do not");
    });
}

/// Another node does not know its password.
#[test]
fn a_pipeline_is_refused_away_from_its_home() {
    let world = World::cluster(3, 1, with_hub);
    for node in (0..3).filter(|node| *node != world.home_of(&session())) {
        let away = world.try_connect(v5(&session()).through(1).accept_on(node));
        away.expect_refused(ReasonCode::ServerUnavailable);
    }
}

#[test]
fn an_origin_in_a_will_is_left_out() {
    everywhere_with(with_hub, |world| {
        let hub = pipeline(world);
        let will = message("plant/a/temp", "gone").user(ORIGIN_PROPERTY, "id 1 other");
        world.connect(v5("thief").will(will)).lose();
        assert_eq!(hub.expect_message().user_properties, []);
    });
}

#[test]
fn an_origin_is_left_out_where_no_pipeline_has_the_topic_yet() {
    everywhere_with(with_hub, |world| {
        let hub = pipeline(world);
        let publisher = world.connect(v5("thief"));
        publisher.publish(message("elsewhere", "1").qos1().user(ORIGIN_PROPERTY, "id 1 other"));
        assert_eq!(hub.expect_message().user_properties, []);
    });
}
