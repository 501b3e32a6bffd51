//! Tenants share a broker and see nothing of each other.

use tidegate_engine::{ListenerSettings, Settings, TenantId};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

fn two_tenants(settings: &mut Settings) {
    settings.listeners.push(ListenerSettings { tenant: TenantId(7), name: "other".into(), ..Default::default() });
}

#[test]
fn messages_stay_with_their_tenant() {
    everywhere_with(two_tenants, |world| {
        let (a, b) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        for client in [&a, &b] {
            client.subscribe("#", AtLeastOnce);
            client.subscribe("$share/g/t", AtLeastOnce);
        }
        let publisher = world.connect(v5("p").through(1));
        publisher.publish(message("t", "x").qos1());
        assert_eq!(b.payloads(), ["x", "x"]);
        a.expect_nothing();
        a.publish(message("t", "y").qos1());
        assert_eq!(a.payloads(), ["y", "y"]);
        b.expect_nothing();
    });
}

#[test]
fn client_ids_and_sessions_stay_with_their_tenant() {
    everywhere_with(two_tenants, |world| {
        let a = world.connect(v5("same").lasting());
        a.subscribe("t", AtLeastOnce);
        let b = world.connect(v5("same").lasting().through(1));
        assert!(!b.session_present());
        a.ping();
        b.ping();
        a.lose();
        assert!(!world.connect(v5("other").lasting().through(1)).session_present());
        assert!(world.connect(v5("same").lasting()).session_present());
        b.ping();
    });
}

#[test]
fn retained_values_stay_with_their_tenant() {
    everywhere_with(two_tenants, |world| {
        let (a, b) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        a.publish(message("t", "of a").qos1().retain());
        b.publish(message("t", "of b").qos1().retain());
        b.publish(message("u", "of b").qos1().retain());
        for (client, wanted) in [(&a, vec!["of a"]), (&b, vec!["of b", "of b"])] {
            client.subscribe("+", AtMostOnce);
            assert_eq!(client.payloads(), wanted);
        }
        b.publish(message("t", "").qos1().retain());
        b.messages();
        let late = world.connect(v5("late"));
        late.subscribe("t", AtMostOnce);
        late.expect_publish("t", "of a");
    });
}

#[test]
fn wills_stay_with_their_tenant() {
    everywhere_with(two_tenants, |world| {
        let (a, b) = (world.connect(v5("a")), world.connect(v5("b").through(1)));
        a.subscribe("#", AtLeastOnce);
        b.subscribe("#", AtLeastOnce);
        world.connect(v5("c").through(1).will(message("w", "gone"))).lose();
        b.expect_publish("w", "gone");
        a.expect_nothing();
    });
}

#[test]
fn another_tenants_subscribers_do_not_count_as_listeners() {
    everywhere_with(two_tenants, |world| {
        world.connect(v5("a")).subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p").through(1));
        assert_eq!(publisher.publish(message("t", "x").qos1()), ReasonCode::NoMatchingSubscribers);
    });
}

#[test]
fn an_operator_names_the_tenant() {
    everywhere_with(two_tenants, |world| {
        let (a, b) = (world.connect(v5("same")), world.connect(v5("same").through(1)));
        let close = |shard: u16| {
            world.engine(shard, |engine, now| {
                engine.disconnect_client(now, TenantId(7), "same", tidegate_engine::Reason::AdministrativeAction)
            })
        };
        assert_eq!((0..world.shards()).filter(|shard| close(*shard)).count(), 1);
        b.expect_disconnect(ReasonCode::AdministrativeAction);
        a.ping();
    });
}
