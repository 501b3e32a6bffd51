//! The queue of a slow broker is dealt again when another one begins to serve, or has nothing more to do.

use std::collections::BTreeSet;

use tidegate_engine::RoutingPolicy;
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::fleet::lasting;
use crate::harness::*;

/// The policies by which a topic has no broker of its own.
const POLICIES: [RoutingPolicy; 2] = [RoutingPolicy::RoundRobin, RoutingPolicy::LeastLoaded];

/// More messages than are dealt again in one turn.
const MANY: usize = 600;

/// Publishes this number of messages, each with its own payload.
fn publish(world: &World, count: usize) {
    let publisher = world.connect(v5("p"));
    for number in 0..count {
        let qos = if number % 2 == 0 { AtLeastOnce } else { ExactlyOnce };
        publisher.publish(message(&format!("t/{}", number % 7), number.to_string()).qos(qos));
    }
}

/// A broker that takes one message and acknowledges none.
fn slow() -> Ways {
    Ways { withholds_acknowledgements: true, receive_maximum: Some(1), ..Ways::default() }
}

/// Payloads that brokers took, as far as a test has looked.
#[derive(Default)]
struct Taken(Vec<String>);

impl Taken {
    /// Adds the messages that a broker took since the last time; returns their number.
    fn add(&mut self, broker: &Broker) -> usize {
        let taken = broker.payloads();
        let count = taken.len();
        self.0.extend(taken);
        count
    }

    /// The slow brokers acknowledge from now on: then each message was taken once, and nothing is owed.
    fn expect_each_once(mut self, world: &World, slow: &[&Broker], others: &[&Broker], count: usize) {
        for broker in slow {
            broker.now(|ways| ways.withholds_acknowledgements = false);
        }
        world.advance(seconds(1));
        for broker in slow.iter().chain(others) {
            self.add(broker);
        }
        assert_eq!(self.0.len(), count);
        assert_eq!(self.0.into_iter().collect::<BTreeSet<_>>().len(), count);
        assert_eq!(world.owed(), 0);
    }
}

#[test]
fn a_queue_is_dealt_again_when_a_broker_joins() {
    for policy in POLICIES {
        everywhere_with(
            |settings| fleet_settings(settings, policy),
            |world| {
                let mut taken = Taken::default();
                let a = world.broker_with("a", lasting(), slow());
                publish(world, 61);
                assert_eq!((taken.add(&a), a.report().owed()), (1, 61), "{policy:?}");
                let b = world.broker("b");
                world.advance(1);
                let (kept, given) = (a.report().owed(), taken.add(&b));
                assert!(given >= 30 && kept as usize + given == 61, "{policy:?}: {kept} and {given}");
                taken.expect_each_once(world, &[&a], &[&b], 61);
            },
        );
    }
}

#[test]
fn a_queue_is_dealt_again_when_a_broker_resumes() {
    for policy in POLICIES {
        everywhere_with(
            |settings| fleet_settings(settings, policy),
            |world| {
                let mut taken = Taken::default();
                let a = world.broker_with("a", lasting(), slow());
                let b = world.broker("b");
                b.die();
                world.advance(seconds(60));
                publish(world, 40);
                assert_eq!((a.report().owed(), taken.add(&b)), (40, 0), "{policy:?}");
                b.come_back();
                world.advance(seconds(10));
                let given = taken.add(&b);
                assert!(given >= 19, "{policy:?}: {given}");
                taken.expect_each_once(world, &[&a], &[&b], 40);
            },
        );
    }
}

#[test]
fn a_long_queue_is_dealt_again_in_pieces() {
    let world = World::with(2, |settings| fleet_settings(settings, RoutingPolicy::RoundRobin));
    let mut taken = Taken::default();
    let a = world.broker_with("a", lasting(), slow());
    publish(&world, MANY);
    let b = world.broker("b");
    let mut given = taken.add(&b);
    for _ in 0..4 {
        world.advance(1);
        let piece = taken.add(&b);
        assert!(piece <= 128, "{piece}");
        given += piece;
    }
    assert!((MANY / 2 - 1..=MANY / 2).contains(&given), "{given}");
    taken.expect_each_once(&world, &[&a], &[&b], MANY);
}

#[test]
fn even_queues_are_left_alone_when_a_broker_resumes() {
    let world = World::with(2, |settings| fleet_settings(settings, RoutingPolicy::RoundRobin));
    let brokers = ["a", "b"].map(|name| world.broker_with(name, lasting(), slow()));
    publish(&world, 40);
    brokers[1].cut();
    world.advance(seconds(1));
    let moved: u64 = brokers.iter().map(|broker| broker.report().counters.resent).sum();
    assert_eq!(moved, 0);
}

#[test]
fn a_long_queue_is_dealt_again_to_brokers_without_work() {
    for policy in POLICIES {
        let world = World::with(2, |settings| fleet_settings(settings, policy));
        let mut taken = Taken::default();
        let a = world.broker_with("a", lasting(), slow());
        let b = world.broker_with("b", lasting(), slow());
        publish(&world, 2 * MANY);
        assert_eq!((taken.add(&a), taken.add(&b)), (1, 1), "{policy:?}");
        // One of them works from now on, and has soon sent its half. The other one has one message of the rest at the end.
        b.now(|ways| (ways.withholds_acknowledgements, ways.receive_maximum) = (false, None));
        world.advance(seconds(60));
        let given = taken.add(&b);
        assert!(a.report().owed() <= 256 + 1, "{policy:?}: {given} given, {} kept", a.report().owed());
        taken.expect_each_once(&world, &[&a], &[&b], 2 * MANY);
    }
}

#[test]
fn long_queues_of_equally_slow_brokers_are_left_alone() {
    let world = World::with(2, |settings| fleet_settings(settings, RoutingPolicy::RoundRobin));
    let brokers = ["a", "b"].map(|name| world.broker_with(name, lasting(), slow()));
    publish(&world, 2 * MANY);
    world.advance(seconds(10));
    let kept = brokers.map(|broker| broker.report().owed());
    assert_eq!(kept, [MANY as u64; 2]);
}
