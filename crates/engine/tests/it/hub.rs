//! Sessions of the hub: their client ids, and the origin that they get with each message.

use std::sync::Arc;

use tidegate_engine::{
    Accepted, AuthOutcome, Authentication, HOPS_PROPERTY, HUB_CLIENT_PREFIX, HubFilter, Identity, ListenerSettings,
    ORIGIN_PROPERTY, OverflowPolicy, OverflowRule, PayloadCheck, Reason, Settings, TenantId,
};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

mod pace;

/// The listener of the hub is the second one.
fn with_hub(settings: &mut Settings) {
    settings.hub_filters = vec![HubFilter::unchecked(TenantId::DEFAULT, "plant/+/temp")];
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
fn the_hub_gets_host_and_user_of_a_publisher() {
    everywhere_with(with_hub, |world| {
        let hub = pipeline(world);
        let other = world.connect(v5("other"));
        other.subscribe("#", AtLeastOnce);
        let cases = [
            (v5("a"), " a"),
            (v5("b").at_host("192.0.2.7"), "@192.0.2.7 b"),
            (v311("c d").at_host("2001:db8::7").user("ann b", "x"), "@2001:db8::7/5 ann b c d"),
            (v5("e").user("", "x"), "@/0  e"),
        ];
        for (connecting, behind_time) in cases {
            let publisher = world.connect(connecting);
            for pairs in [0, 1] {
                let sent = message("plant/a/temp", "31").qos1();
                publisher.publish(if publisher.is_v5() && pairs > 0 { sent.user("k", "v") } else { sent });
                let value = hub.expect_message().user_properties.swap_remove(0).1;
                let expected = format!("{}{behind_time}", world.now().unix);
                assert_eq!(value.split_once(' ').unwrap().1, expected, "{value}");
                assert!(other.expect_message().user_properties.iter().all(|(name, _)| name == "k"));
            }
        }
    });
}

#[test]
fn the_hub_gets_the_user_that_was_proven() {
    let asks = |settings: &mut Settings| {
        with_hub(settings);
        settings.authentication = Authentication::External;
    };
    everywhere_with(asks, |world| {
        let hub = pipeline(world);
        for (proven, behind_time) in [(Some("bob"), "@/3 bob pump"), (None, " pump")] {
            let mut publisher = world.try_connect(v5("pump").user("claimed", "x"));
            let identity = Identity { user_name: proven.map(str::to_owned), ..Identity::default() };
            world.decide(AuthOutcome::Accept(Accepted { identity: Some(Arc::new(identity)), data: None }));
            publisher.expect_accepted();
            publisher.publish(message("plant/a/temp", "31").qos1());
            let value = hub.expect_message().user_properties.swap_remove(0).1;
            assert_eq!(value.split_once(' ').unwrap().1, format!("{}{behind_time}", world.now().unix));
        }
    });
}

#[test]
fn drops_of_a_full_queue_are_counted_for_their_pipeline() {
    let bounded = |settings: &mut Settings| {
        with_hub(settings);
        let (policy, max_messages) = (OverflowPolicy::DropOldest, Some(2));
        for clients in [session(), "other".to_owned()] {
            let filter = None;
            settings.overflow_rules.push(OverflowRule { clients, filter, policy, max_messages, max_bytes: None });
        }
    };
    everywhere_with(bounded, |world| {
        let other = world.connect(v5("other").lasting());
        other.subscribe("#", AtLeastOnce);
        other.disconnect();
        pipeline(world).disconnect();
        let publisher = world.connect(v5("pump"));
        for number in 0..5 {
            publisher.publish(message("plant/a/temp", number.to_string()).qos1());
        }
        let counters = world.counters();
        assert_eq!(counters.pipeline_drops, [("hot".into(), 3)].into());
        assert_eq!(counters.dropped_total(), 6, "a client is no pipeline");
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
fn a_publisher_cannot_say_how_many_pipelines_were_passed() {
    everywhere_with(
        |settings| {
            with_hub(settings);
            settings.hub_relays = vec!["relay-*".to_owned()];
        },
        |world| {
            let hub = pipeline(world);
            let hops = |delivered: Delivered| {
                let found = delivered.user_properties.into_iter().find(|(name, _)| name == HOPS_PROPERTY);
                found.map(|(_, value)| value)
            };
            let counted = |topic: &str| message(topic, "1").qos1().user("k", "v").user(HOPS_PROPERTY, "16");
            let (thief, relay) = (world.connect(v5("thief")), world.connect(v5("relay-1")));
            for topic in ["plant/a/temp", "elsewhere"] {
                thief.publish(counted(topic));
                assert_eq!(hops(hub.expect_message()), None, "{topic}");
                relay.publish(counted(topic));
                assert_eq!(hops(hub.expect_message()).as_deref(), Some("16"), "{topic}");
            }
            world.connect(v5("relay-2").will(message("plant/a/temp", "gone").user(HOPS_PROPERTY, "16"))).lose();
            assert_eq!(hops(hub.expect_message()), None, "a will");
            let sink = format!("{}.back", session());
            let mut own = world.try_connect(v5(&sink).through(1).accept_on(world.home_of(&sink)));
            world.decide(AuthOutcome::Accept(Accepted::default()));
            own.expect_accepted();
            own.publish(counted("plant/a/temp"));
            assert_eq!(hops(hub.expect_message()).as_deref(), Some("16"));
        },
    );
}

#[test]
fn a_broker_without_pipelines_passes_the_number_on() {
    everywhere(|world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("#", AtLeastOnce);
        world.connect(v5("p")).publish(message("a", "1").qos1().user(HOPS_PROPERTY, "3"));
        assert_eq!(reader.expect_message().user_properties, [(HOPS_PROPERTY.to_owned(), "3".to_owned())]);
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

/// Accepts payloads that begin with a digit.
#[derive(Debug)]
struct Digits;

impl PayloadCheck for Digits {
    fn refusal(&self, payload: &[u8]) -> Option<String> {
        (!payload.first().is_some_and(u8::is_ascii_digit)).then(|| "it begins with no digit".to_owned())
    }
}

fn with_check(settings: &mut Settings) {
    let checked = HubFilter { check: Some(Arc::new(Digits)), ..HubFilter::unchecked(TenantId::DEFAULT, "plant/#") };
    settings.hub_filters = vec![HubFilter::unchecked(TenantId::DEFAULT, "#"), checked];
}

#[test]
fn a_payload_that_a_pipeline_refuses_is_not_delivered() {
    everywhere_with(with_check, |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("#", ExactlyOnce);
        let (new, old) = (world.connect(v5("new")), world.connect(v311("old")));
        let refused = ReasonCode::PayloadFormatInvalid;
        assert_eq!(new.publish(message("plant/a", "x").qos1()), refused);
        assert_eq!(new.publish(message("plant/a", "x").qos2()), refused);
        new.publish(message("plant/a", "x"));
        assert_eq!(world.dropped(Reason::PayloadRefused), 3);
        // MQTT 3 has no negative acknowledgement.
        assert_eq!(old.publish(message("plant/a", "x").qos1()), ReasonCode::Success);
        assert_eq!(old.publish(message("plant/a", "x").qos2()), ReasonCode::Success);
        assert_eq!(world.dropped(Reason::PayloadRefused), 5);
        assert_eq!(new.publish(message("plant/a", "1").qos2()), ReasonCode::Success);
        assert_eq!(new.publish(message("other", "x").qos1()), ReasonCode::Success);
        assert_eq!(reader.drain(), ["1", "x"]);
    });
}

#[test]
fn an_empty_payload_deletes_a_retained_message() {
    everywhere_with(with_check, |world| {
        let publisher = world.connect(v5("p"));
        assert!(!publisher.publish(message("plant/a", "1").qos1().retain()).is_error());
        assert_eq!(publisher.publish(message("plant/a", "").qos1()), ReasonCode::PayloadFormatInvalid);
        assert!(!publisher.publish(message("plant/a", "").qos1().retain()).is_error());
        let late = world.connect(v5("late"));
        late.subscribe("plant/a", AtLeastOnce);
        late.expect_nothing();
    });
}
