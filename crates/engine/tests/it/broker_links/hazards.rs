//! Hazards that must not cost an orchestrator messages: rules, foreign ids, odd topics, and brokers that come and go.

use tidegate_engine::{Access, BrokerLinkError, BrokerLinkState, Reason, RoutingPolicy, Subject, TenantId};
use tidegate_mqtt::QoS::{self, AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{ReasonCode, Version};

use crate::harness::fleet::lasting;
use crate::harness::*;

/// Rules that know of clients only.
#[derive(Debug)]
struct OnlyClients;

impl Access for OnlyClients {
    fn may_publish(&self, subject: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        subject.tenant == TenantId::DEFAULT
    }

    fn may_subscribe(&self, subject: Subject<'_>, _: &str, _: QoS, _: bool) -> bool {
        subject.tenant == TenantId::DEFAULT
    }
}

#[test]
fn new_rules_are_about_clients_and_brokers_stay() {
    in_front_of(["a"], |world, [a]| {
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().set_access(Some(Box::new(OnlyClients))));
        }
        world.advance(seconds(1));
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        assert_eq!(client.publish(message("t", "x").qos2()), ReasonCode::Success);
        client.expect_publish("t", "x");
        assert_eq!(a.payloads(), ["x"]);
    });
}

#[test]
fn an_id_from_a_client_is_not_taken_for_the_messages_own() {
    in_front_of(["a"], |world, [_a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        let forged = format!("{}-", "0".repeat(41));
        for value in ["short", &forged, &forged] {
            client.publish(message("t", "x").user("tidegate-id", value).qos1());
            client.expect_publish("t", "x");
        }
        assert_eq!(world.owed(), 0);
        world.advance(seconds(30));
        client.expect_nothing();
    });
}

#[test]
fn a_forged_id_reaches_neither_a_broker_nor_a_client() {
    for loses in [false, true] {
        in_front_of(["a"], |world, [a]| {
            let client = world.connect(v5("c"));
            client.subscribe("t", ExactlyOnce);
            a.now(|ways| ways.loses = loses);
            let forged = format!("{}-", "0".repeat(41));
            let sent = || message("t", "x").user("before", "1").user("tidegate-id", &forged).user("behind", "2").qos1();
            client.publish(sent());
            world.connect(v5("gone").will(sent())).lose();
            // Messages that the broker loses are delivered without it in the end.
            world.advance(minutes(1));
            for carried in a.taken() {
                let ids: Vec<_> = carried.user_properties.iter().filter(|(name, _)| name == "tidegate-id").collect();
                assert_eq!(ids.len(), 1, "{ids:?}");
                assert_ne!(ids[0].1, forged);
            }
            let got = client.messages();
            assert_eq!(got.len(), 2);
            let kept = [("before".to_owned(), "1".to_owned()), ("behind".to_owned(), "2".to_owned())];
            assert!(got.iter().all(|delivered| delivered.user_properties == kept), "{got:?}");
        });
    }
}

#[test]
fn topics_that_begin_with_a_dollar_go_to_the_fleet_as_well() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("$things/1", AtLeastOnce);
        assert_eq!(client.publish(message("$things/1", "x").qos1()), ReasonCode::Success);
        client.expect_publish("$things/1", "x");
        assert_eq!((a.payloads(), world.owed()), (vec!["x".to_owned()], 0));
    });
}

#[test]
fn a_topic_beyond_the_limits_costs_only_its_message() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("deep/#", AtLeastOnce);
        a.publish(&message(&format!("deep{}", "/x".repeat(200)), "x").qos1());
        a.publish(&message("deep/1", "y").qos1());
        client.expect_publish("deep/1", "y");
        assert_eq!((a.report().counters.lost, world.dropped(Reason::TopicTooDeep)), (0, 1));
    });
}

#[test]
fn the_last_broker_that_is_not_drained_stays() {
    in_front_of(["a", "b"], |world, [a, b]| {
        a.now(|ways| ways.withholds_acknowledgements = true);
        let publisher = world.connect(v5("p"));
        for number in 0..20 {
            publisher.publish_later(message(&format!("t/{number}"), "x").qos1());
        }
        a.drain().unwrap();
        assert!(a.owed() > 0 && b.owed() == 0);
        assert_eq!(b.remove(false), Err(BrokerLinkError::Last("b".into())));
        a.now(|ways| ways.withholds_acknowledgements = false);
        world.advance(seconds(2));
        // Another shard may have sent a message for it already.
        assert_eq!(b.remove(false), Err(BrokerLinkError::Last("b".into())));
        a.set(lasting());
        b.remove(false).unwrap();
        assert_eq!(world.connect(v5("late")).publish(message("t", "y").qos1()), ReasonCode::Success);
    });
}

#[test]
fn a_broker_that_spoke_mqtt_5_is_not_asked_in_mqtt_3() {
    in_front_of(["a"], |world, [a]| {
        a.now(|ways| ways.no_v5 = Some(NoV5::Silence));
        a.cut();
        world.advance(seconds(2));
        a.now(|ways| ways.no_v5 = None);
        world.advance(seconds(6));
        assert_eq!((a.state(), a.report().version), (BrokerLinkState::Serving, Some(Version::V5)));
        assert!(a.with(|broker| broker.tried.iter().all(|version| *version == Version::V5)));
    });
}

#[test]
fn a_broker_set_again_while_away_keeps_messages_briefly() {
    in_front_of(["a", "b"], |world, [a, b]| {
        a.die();
        a.now(|ways| ways.reachable = false);
        world.advance(seconds(4));
        a.drain().unwrap();
        a.set(lasting());
        let publisher = world.connect(v5("p"));
        for number in 0..20 {
            publisher.publish(message(&format!("t/{number}"), "x").qos1());
        }
        assert!(a.owed() > 0, "some topics are a's");
        world.advance(seconds(4));
        assert_eq!((b.taken().len(), world.owed()), (20, 0));
    });
}

#[test]
fn messages_of_another_broker_are_not_resent_after_a_restart() {
    let world = World::with(2, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = tidegate_engine::Durability::Commit;
    });
    let [a, b] = ["a", "b"].map(|name| world.broker(name));
    let publisher = world.connect(v5("p"));
    a.now(|ways| ways.withholds_acknowledgements = true);
    for number in 0..20 {
        publisher.publish_later(message(&format!("t/{number}"), "x").qos2());
    }
    assert!(a.owed() > 0, "some topics are a's");
    a.die();
    a.now(|ways| ways.reachable = false);
    world.advance(seconds(4));
    assert_eq!((b.taken().len(), world.owed()), (20, 0));
    world.crash(Crash::now(2));
    world.advance(seconds(5));
    assert_eq!((b.taken().len(), world.owed()), (0, 0));
    a.now(|ways| ways.withholds_acknowledgements = false);
    a.come_back();
    assert_eq!((a.state(), world.owed()), (BrokerLinkState::Serving, 0));
    assert_eq!(b.taken().len(), 0);
}
