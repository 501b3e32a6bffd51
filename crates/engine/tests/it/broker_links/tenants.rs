//! Tenants of an orchestrator share its brokers and see nothing of each other.

use std::sync::Arc;

use tidegate_engine::{ListenerSettings, RoutingPolicy, Settings, TenantId, Tenants};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

pub(super) const ACME: TenantId = TenantId(7);

/// A tenant by its listener.
#[derive(Debug)]
pub(super) struct Acme;

impl Tenants for Acme {
    fn of_user(&self, _listener: TenantId, _user_name: &str) -> Option<TenantId> {
        None
    }

    fn topic_level_of(&self, tenant: TenantId) -> Option<&str> {
        (tenant == ACME).then_some("acme")
    }

    fn of_topic_level(&self, level: &str) -> Option<TenantId> {
        (level == "acme").then_some(ACME)
    }
}

fn in_front_of_one(story: impl Fn(&World, Broker)) {
    let settings = |settings: &mut Settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.listeners.push(ListenerSettings { tenant: ACME, name: "acme".into(), ..Default::default() });
        settings.tenants = Some(Arc::new(Acme));
    };
    everywhere_with(settings, |world| story(world, world.broker("a")));
}

#[test]
fn messages_by_way_of_brokers_stay_with_their_tenant() {
    in_front_of_one(|world, broker| {
        let (plain, acme) = (world.connect(v5("same")), world.connect(v5("same").through(1)));
        for client in [&plain, &acme] {
            client.subscribe("#", ExactlyOnce);
            client.subscribe("$share/g/t", AtLeastOnce);
        }
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            world.connect(v5("p").through(1)).publish(message("t", "of acme").qos(qos));
            assert_eq!(acme.payloads(), ["of acme", "of acme"], "{qos:?}");
            plain.expect_nothing();
            world.connect(v5("p")).publish(message("t", "default").qos(qos));
            assert_eq!(plain.payloads(), ["default", "default"], "{qos:?}");
            acme.expect_nothing();
        }
        let topics: Vec<String> = broker.taken().into_iter().map(|taken| taken.topic).collect();
        assert_eq!(topics, ["$tenant/acme/t", "t"].repeat(3));
        // One that comes in at another orchestrator.
        broker.publish(&message("$tenant/acme/t", "from elsewhere").qos1());
        assert_eq!(acme.payloads(), ["from elsewhere", "from elsewhere"]);
        broker.publish(&message("$tenant/bolt/t", "of a tenant of others").qos1());
        plain.expect_nothing();
        acme.expect_nothing();
    });
}

#[test]
fn a_filter_too_long_for_brokers_is_refused_and_cuts_none() {
    in_front_of_one(|world, broker| {
        let acme = world.connect(v5("a").through(1));
        acme.subscribe("t", AtLeastOnce);
        let long = "x".repeat(65_535 - "$tenant/acme/".len() + 1);
        assert_eq!(acme.subscribe_code(&long, AtLeastOnce), Some(ReasonCode::TopicFilterInvalid));
        world.advance(seconds(120));
        acme.publish(message("t", "served").qos1());
        assert_eq!(acme.payloads(), ["served"]);
        assert_eq!(broker.report().counters.lost, 0);
    });
}

#[test]
fn retained_values_and_wills_at_brokers_stay_with_their_tenant() {
    in_front_of_one(|world, broker| {
        let (plain, acme) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        acme.publish(message("t", "of acme").qos1().retain());
        plain.publish(message("t", "default").qos1().retain());
        broker.publish(&message("$tenant/acme/kept", "there before").qos1().retain());
        for (client, wanted) in [(&plain, vec!["default"]), (&acme, vec!["of acme", "there before"])] {
            client.subscribe_later("#");
            let mut got: Vec<String> = client.messages_among_others().iter().map(Delivered::text).collect();
            got.sort();
            assert_eq!(got, wanted);
        }
        acme.publish(message("t", "").qos1().retain());
        acme.expect_publish("t", "");
        plain.expect_nothing();
        let leaves = world.connect(v5("leaves").through(1).will(message("gone", "w")));
        leaves.lose();
        acme.expect_publish("gone", "w");
        plain.expect_nothing();
    });
}

#[test]
fn no_client_gets_into_a_tenant_by_a_topic() {
    in_front_of_one(|world, broker| {
        let (plain, acme) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        plain.subscribe("$tenant/acme/#", AtLeastOnce);
        acme.subscribe("#", AtLeastOnce);
        acme.publish(message("t", "1").qos1());
        acme.expect_publish("t", "1");
        plain.expect_nothing();
        for qos in [AtLeastOnce, ExactlyOnce] {
            assert_eq!(plain.publish(message("$tenant/acme/t", "forged").qos(qos)), ReasonCode::NotAuthorized);
        }
        plain.publish(message("$tenant/acme/t", "forged"));
        // Below another tenant, a topic of this form is one of that tenant alone.
        acme.publish(message("$tenant/acme/t", "own").qos1());
        acme.expect_nothing();
        assert_eq!(acme.publish(message("$SYS/forged", "x").qos1()), ReasonCode::NotAuthorized);
        let topics: Vec<String> = broker.taken().into_iter().map(|taken| taken.topic).collect();
        assert_eq!(topics, ["$tenant/acme/t", "$tenant/acme/$tenant/acme/t"]);
    });
}
