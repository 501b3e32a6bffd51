//! Exchanges without a broker, whose every message has to come.

use super::*;
use crate::drivers::Protocol;
use crate::load::plan::{Arrival, Rate};

fn plan(pace: Pace) -> ExchangePlan {
    ExchangePlan {
        protocol: Protocol::ZeroMq,
        host: "127.0.0.1".to_owned(),
        port: 0,
        credentials: None,
        topic: "lab".to_owned(),
        publishers: 2,
        subscribers: 3,
        pairs: false,
        size: 300,
        pace,
        messages: Some(500),
        acknowledged: false,
        warm_up_ms: 0,
        duration_ms: 60_000,
        drain_ms: 5_000,
        seed: 1,
        deadline_ms: Some(30_000),
    }
}

fn exchanged(pace: Pace) -> LoadOutcome {
    run(&plan(pace), &mut (), &AtomicBool::new(false)).unwrap()
}

#[test]
fn every_message_reaches_every_subscriber_at_the_pace_of_either_loop() {
    let open = Pace::Open { rate: Rate::Total(20_000.0), arrival: Arrival::Uniform };
    for outcome in [exchanged(Pace::Closed { window: 7 }), exchanged(open)] {
        let counts = outcome.counts;
        assert_eq!((counts.offered, counts.sent, counts.due, counts.received), (1_000, 1_000, 3_000, 3_000));
        assert_eq!((counts.duplicates, counts.reordered, counts.foreign), (0, 0, 0));
        assert_eq!(outcome.latency.count(), 3_000);
        assert_eq!(outcome.connections.accepted, 12, "both ends of six connections");
    }
}

#[test]
fn in_pairs_each_subscriber_has_the_messages_of_one_publisher() {
    let mut plan = plan(Pace::Closed { window: 7 });
    (plan.pairs, plan.publishers) = (true, 3);
    let outcome = run(&plan, &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!((outcome.counts.sent, outcome.counts.due, outcome.counts.received), (1_500, 1_500, 1_500));
    assert_eq!(outcome.connections.accepted, 6, "both ends of three connections");
}

#[test]
fn what_warms_up_is_not_counted() {
    for pace in [Pace::Closed { window: 7 }, Pace::Open { rate: Rate::Total(2_000.0), arrival: Arrival::Uniform }] {
        let mut plan = plan(pace);
        plan.warm_up_ms = 50;
        let outcome = run(&plan, &mut (), &AtomicBool::new(false)).unwrap();
        assert_eq!((outcome.counts.sent, outcome.counts.due, outcome.counts.received), (1_000, 3_000, 3_000));
        let received: u64 = outcome.series.iter().map(|second| second.received).sum();
        assert!(received > 3_000, "warm-up shows over time: {received}");
        assert!(outcome.measured_from_ns >= outcome.began_ns + 50_000_000);
    }
}

#[test]
fn a_broker_that_is_not_there_is_part_of_the_outcome() {
    let mut plan = plan(Pace::Closed { window: 1 });
    (plan.protocol, plan.port, plan.duration_ms, plan.drain_ms) = (Protocol::Nats, 1, 10, 10);
    let outcome = run(&plan, &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!((outcome.connections.broken, outcome.counts.sent), (5, 0));
}
