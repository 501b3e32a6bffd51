//! Whether all has come that brokers gave out before a moment.

use tidegate_engine::{Durability, OrchestratorMoves, RoutingPolicy, Settling};
use tidegate_mqtt::QoS::ExactlyOnce;

use crate::harness::*;

impl World {
    fn begin_settling(&self) -> Settling {
        self.run();
        let settling = self.engine(0, |engine, now| engine.fleet().begin_settling(now));
        self.run();
        settling
    }

    fn has_settled(&self, settling: &mut Settling) -> bool {
        let settled = self.engine(0, |engine, now| engine.fleet().settle(now, settling));
        self.run();
        settled
    }
}

#[test]
fn all_has_come_when_every_broker_has_answered_a_probe() {
    in_front_of(["a", "b"], |world, [a, _]| {
        assert!(world.has_settled(&mut world.begin_settling()));
        a.now(|ways| ways.hangs = true);
        let mut settling = world.begin_settling();
        assert!(!world.has_settled(&mut settling));
        a.now(|ways| ways.hangs = false);
        assert!(world.has_settled(&mut settling));
    });
}

#[test]
fn settled_means_earlier_messages_have_returned() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        client.subscribe("t", ExactlyOnce);
        a.now(|ways| ways.withholds_messages = true);
        client.publish(message("t", "1").qos1());
        let mut settling = world.begin_settling();
        assert!(!world.has_settled(&mut settling) && !world.has_settled(&mut settling));
        // Later messages are not waited for.
        a.now(|ways| ways.withholds_messages = false);
        client.expect_publish("t", "1");
        a.now(|ways| ways.withholds_messages = true);
        client.publish(message("t", "2").qos1());
        assert!(world.has_settled(&mut settling));
        assert_eq!(a.report().unreturned, 1);
    });
}

#[test]
fn settled_means_earlier_messages_are_acknowledged() {
    in_front_of(["a"], |world, [a]| {
        let client = world.connect(v5("c"));
        a.now(|ways| ways.withholds_acknowledgements = true);
        client.publish(message("t", "1").qos1());
        let mut settling = world.begin_settling();
        assert!(!world.has_settled(&mut settling));
        a.now(|ways| ways.withholds_acknowledgements = false);
        assert!(world.has_settled(&mut settling));
    });
}

#[test]
fn only_a_broker_lost_meanwhile_is_waited_for() {
    in_front_of(["a", "b"], |world, [a, b]| {
        let mut settling = world.begin_settling();
        a.die();
        assert!(!world.has_settled(&mut settling));
        assert!(world.has_settled(&mut world.begin_settling()), "it is away");
        a.come_back();
        world.advance(seconds(60));
        // It is asked again, on its new connection.
        assert!(!world.has_settled(&mut settling));
        assert!(world.has_settled(&mut settling));
        b.now(|ways| ways.hangs = true);
        let mut settling = world.begin_settling();
        assert!(!world.has_settled(&mut settling));
        b.remove(true).unwrap();
        assert!(world.has_settled(&mut settling), "it is taken out");
    });
}

#[test]
fn a_busy_broker_has_settled_when_a_later_message_returns() {
    // Messages of other shards are not known as messages of this process.
    let world = World::with(1, |settings| fleet_settings(settings, tidegate_engine::RoutingPolicy::TopicHash));
    let a = world.broker("a");
    let client = world.connect(v5("c"));
    client.subscribe("t", ExactlyOnce);
    client.publish(message("t", "1").qos1());
    let [first] = a.taken().try_into().expect("a message");
    let settle = |returns: bool| {
        world.run();
        let mut settling = world.engine(0, |engine, now| engine.fleet().begin_settling(now));
        for _ in 0..200 {
            a.with(|broker| broker.route(&first));
        }
        if returns {
            client.publish(message("t", "2").qos1());
        }
        world.run();
        world.has_settled(&mut settling)
    };
    assert!(!settle(false), "the broker may hold messages back");
    assert!(settle(true));
}

#[test]
fn a_move_waits_for_brokers_that_are_not_named_yet() {
    let world = World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    });
    world.broker_unknown("a", Ways::default());
    let name_broker = || {
        world.engine(0, |engine, now| engine.fleet().set_broker_link(now, "a", fleet::lasting())).expect("a fleet");
        world.run();
    };
    name_broker();
    world.crash(Crash::now(1));
    let mut settling = world.engine(0, |engine, now| OrchestratorMoves::of(engine).begin_settling(now));
    assert!(!world.has_settled(&mut settling), "the broker keeps messages for the earlier process");
    name_broker();
    assert!(!world.has_settled(&mut settling), "it is asked now");
    assert!(world.has_settled(&mut settling));
}
