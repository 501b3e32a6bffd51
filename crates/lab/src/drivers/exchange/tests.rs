//! Exchanges without a broker, whose every message has to come.

use super::*;
use crate::drivers::Protocol;
use crate::load::plan::{Arrival, Rate};

fn plan(pace: Pace) -> ExchangePlan {
    ExchangePlan {
        protocol: Protocol::ZeroMq,
        host: "127.0.0.1".to_owned(),
        port: 0,
        path: String::new(),
        tls: false,
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
        connect_timeout_ms: 5_000,
        drain_ms: 5_000,
        seed: 1,
        deadline_ms: Some(30_000),
    }
}

fn exchanged(pace: Pace) -> LoadOutcome {
    run(&plan(pace), &mut (), &AtomicBool::new(false)).unwrap()
}

#[test]
fn both_loops_reach_every_subscriber_with_every_message() {
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
fn messages_of_the_warm_up_are_not_counted() {
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
    (plan.protocol, plan.port) = (Protocol::Nats, 1);
    let outcome = run(&plan, &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!((outcome.connections.broken, outcome.counts.sent), (5, 0));
    let (problem, connections) = outcome.problems.first_key_value().unwrap();
    assert_eq!(*connections, 5);
    assert!(
        problem.starts_with("127.0.0.1:1 cannot be reached: ") && problem.ends_with("check host and port"),
        "{problem}"
    );
    assert!(outcome.generator.invalid.is_some_and(|why| why.starts_with("nothing was exchanged")));
}

#[test]
fn a_run_that_was_over_before_anything_counted_is_not_valid() {
    let mut plan = plan(Pace::Closed { window: 1 });
    (plan.messages, plan.warm_up_ms, plan.duration_ms) = (Some(0), 0, 10);
    let outcome = run(&plan, &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!((outcome.counts.offered, outcome.counts.received), (0, 0));
    assert!(outcome.generator.invalid.is_some_and(|why| why.starts_with("nothing was sent in the ")));
}

/// A server that sends this to every client, and closes.
fn says(answer: &'static [u8], clients: usize) -> (u16, std::thread::JoinHandle<()>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        for _ in 0..clients {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // Closing with unread bytes would reset the connection.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (port, server)
}

#[test]
fn refused_logins_are_reported_with_a_remedy() {
    let lines: [(Protocol, &[u8], &str); 4] = [
        (Protocol::Nats, b"-ERR 'Authorization Violation'\r\n", "check user and password"),
        (Protocol::Amqp1, b"AMQP\0\0\x09\x01", "try amqp:// for 0-9-1"),
        (Protocol::Amqp091, b"AMQP\0\x01\0\0", "try amqp1:// for 1.0"),
        (Protocol::Kafka, b"", "speaks kafka"),
    ];
    for (protocol, answer, hint) in lines {
        let (port, server) = says(answer, 5);
        let mut plan = plan(Pace::Closed { window: 1 });
        (plan.protocol, plan.port) = (protocol, port);
        let outcome = run(&plan, &mut (), &AtomicBool::new(false)).unwrap();
        server.join().unwrap();
        let reported: Vec<&String> = outcome.problems.keys().collect();
        assert!(reported.iter().any(|problem| problem.contains(hint)), "{protocol:?}: {reported:?}");
        assert!(outcome.generator.invalid.is_some(), "{protocol:?}");
    }
}
