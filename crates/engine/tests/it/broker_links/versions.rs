//! Brokers of other versions and means.

use tidegate_engine::{BrokerLinkOptions, BrokerLinkState};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{ReasonCode, Version};

use crate::harness::fleet::lasting;
use crate::harness::*;

#[test]
fn a_broker_without_mqtt_5_is_spoken_to_in_the_older_version() {
    for no_v5 in [NoV5::OldConnAck, NoV5::NewConnAck, NoV5::Silence] {
        in_front_of([], |world, []| {
            let a = world.broker_with("a", lasting(), Ways { no_v5: Some(no_v5), ..Ways::default() });
            world.advance(seconds(2));
            assert_eq!(a.state(), BrokerLinkState::Serving, "{no_v5:?}: {:?}", a.report());
            assert_eq!(a.report().version, Some(Version::V311));
            // One that closes without an answer is asked twice.
            let once = [Version::V5, Version::V311];
            let twice = [Version::V5, Version::V311, Version::V5, Version::V311];
            let asked: &[Version] = if no_v5 == NoV5::Silence { &twice } else { &once };
            assert_eq!(a.with(|broker| broker.tried.clone()), asked);
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
                client.publish(message("t", "x").qos(qos));
            }
            assert_eq!(client.payloads(), ["x"; 3]);
            // A broker of a known version is not asked again.
            a.cut();
            world.advance(seconds(1));
            let tried = a.with(|broker| broker.tried.clone());
            let again: &[Version] = if no_v5 == NoV5::Silence { &twice } else { &[Version::V311] };
            assert_eq!(&tried[asked.len()..], again);
            assert_eq!(a.state(), BrokerLinkState::Serving);
        });
    }
}

#[test]
fn a_starting_broker_gets_mqtt_5_in_the_end() {
    in_front_of([], |world, []| {
        let ways = Ways { no_v5: Some(NoV5::Silence), ..Ways::default() };
        let a = world.broker_with("a", lasting(), ways);
        world.advance(seconds(1));
        assert_eq!(a.report().version, Some(Version::V311));
        a.now(|ways| ways.no_v5 = None);
        a.cut();
        world.advance(seconds(1));
        assert_eq!((a.state(), a.report().version), (BrokerLinkState::Serving, Some(Version::V5)));
        let hangs = world.broker_with("b", lasting(), Ways { hangs: true, ..Ways::default() });
        world.advance(seconds(7));
        hangs.now(|ways| ways.hangs = false);
        world.advance(seconds(6));
        assert_eq!(hangs.report().version, Some(Version::V5), "who does not answer says nothing of versions");
    });
}

/// Waits until a broker was asked so often.
fn until_asked(world: &World, broker: &Broker, times: usize) {
    for _ in 0..1_000 {
        if broker.with(|broker| broker.tried.len()) >= times {
            return;
        }
        world.advance(millis(10));
    }
    panic!("asked {:?}", broker.with(|broker| broker.tried.clone()));
}

#[test]
fn a_broker_link_keeps_mqtt_5_when_its_broker_was_away() {
    in_front_of([], |world, []| {
        // A proxy whose broker is away for the first connection, and for the one in doubt.
        for closes in [1, 3] {
            let name = format!("closes {closes}");
            let a = world.broker_with(&name, lasting(), Ways { no_v5: Some(NoV5::Silence), ..Ways::default() });
            until_asked(world, &a, closes);
            a.now(|ways| ways.no_v5 = None);
            world.advance(seconds(6));
            let older = closes == 3;
            let version = if older { Version::V311 } else { Version::V5 };
            assert_eq!((a.state(), a.report().version), (BrokerLinkState::Serving, Some(version)));
        }
    });
}

#[test]
fn a_failure_in_between_leaves_the_version_in_doubt() {
    in_front_of([], |world, []| {
        let a = world.broker_with("a", lasting(), Ways { no_v5: Some(NoV5::Silence), ..Ways::default() });
        until_asked(world, &a, 1);
        a.now(|ways| (ways.no_v5, ways.refuses) = (None, Some(ReasonCode::ServerUnavailable)));
        until_asked(world, &a, 2);
        a.now(|ways| ways.refuses = None);
        world.advance(seconds(6));
        assert_eq!((a.state(), a.report().version), (BrokerLinkState::Serving, Some(Version::V5)));
        assert_eq!(a.with(|broker| broker.tried.clone())[1], Version::V311);
    });
}

#[test]
fn a_fixed_version_is_not_left() {
    in_front_of([], |world, []| {
        let options = BrokerLinkOptions { version: Some(Version::V5), ..lasting() };
        let ways = Ways { no_v5: Some(NoV5::OldConnAck), ..Ways::default() };
        let a = world.broker_with("a", options, ways);
        world.advance(seconds(20));
        assert_eq!(a.state(), BrokerLinkState::Connecting);
        assert!(a.with(|broker| broker.tried.iter().all(|version| *version == Version::V5)));
    });
}

#[test]
fn a_refusing_broker_is_tried_again_until_it_serves() {
    in_front_of([], |world, []| {
        let ways = Ways { refuses: Some(ReasonCode::NotAuthorized), ..Ways::default() };
        let a = world.broker_with("a", lasting(), ways);
        world.advance(seconds(20));
        assert_eq!(a.state(), BrokerLinkState::Connecting);
        assert!(a.report().last_error.contains("refuses the connection"), "{:?}", a.report());
        assert!(a.with(|broker| broker.tried.iter().all(|version| *version == Version::V5)));
        a.now(|ways| ways.refuses = None);
        world.advance(seconds(6));
        assert_eq!((a.state(), a.report().last_error), (BrokerLinkState::Serving, String::new()));
    });
}

#[test]
fn an_mqtt_3_brokers_ack_settles_and_returns_once() {
    in_front_of([], |world, []| {
        let a = world.old_broker("a");
        let client = world.connect(v311("c"));
        client.subscribe("t", ExactlyOnce);
        a.now(|ways| ways.withholds_messages = true);
        for qos in [AtLeastOnce, ExactlyOnce] {
            client.publish(message("t", "x").qos(qos));
        }
        assert_eq!(a.owed(), 0);
        a.now(|ways| ways.withholds_messages = false);
        assert_eq!(client.payloads(), ["x", "x"]);
    });
}

#[test]
fn only_qos_2_messages_wait_for_a_lost_mqtt_3_broker() {
    in_front_of([], |world, []| {
        let [a, b] = ["a", "b"].map(|name| world.old_broker(name));
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        client.publish(message("t", "scout"));
        client.messages();
        let [holder, other] = if a.taken().is_empty() { [&b, &a] } else { [&a, &b] };
        holder.now(|ways| ways.withholds_acknowledgements = true);
        client.publish_later(message("t", "twice at most").qos1());
        client.publish_later(message("t", "once").qos2());
        assert_eq!(client.messages().len(), 2, "it has brought them");
        holder.now(|ways| ways.reachable = false);
        holder.cut();
        world.advance(seconds(30));
        assert_eq!(other.payloads(), ["twice at most"]);
        assert_eq!(client.payloads(), ["twice at most"]);
        assert_eq!((holder.report().in_flight, world.owed()), (1, 1));
        holder.now(|ways| ways.withholds_acknowledgements = false);
        holder.come_back();
        client.expect_nothing();
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_broker_with_a_maximum_qos_is_given_no_more() {
    in_front_of([], |world, []| {
        let ways = Ways { maximum_qos: Some(AtLeastOnce), ..Ways::default() };
        let a = world.broker_with("a", lasting(), ways);
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        client.publish(message("t", "x").qos2());
        assert_eq!(client.payloads(), ["x"]);
        assert_eq!(a.taken()[0].qos, AtLeastOnce);
        assert_eq!(world.owed(), 0);
    });
}

#[test]
fn a_session_that_need_not_last_begins_clean() {
    in_front_of([], |world, []| {
        let options = BrokerLinkOptions { lasting: false, ..lasting() };
        let a = world.broker_with("a", options, Ways::default());
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        a.now(|ways| ways.withholds_acknowledgements = true);
        client.publish_later(message("t", "1").qos2());
        assert_eq!(client.payloads(), ["1"]);
        a.cut();
        a.now(|ways| ways.withholds_acknowledgements = false);
        world.advance(seconds(1));
        assert_eq!(a.held(), ["t"]);
        assert_eq!((a.payloads(), world.owed()), (vec!["1".to_owned(), "1".to_owned()], 0));
        client.expect_nothing();
    });
}
