//! Orchestrators that are members of a cluster, in front of two brokers.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::directory::SharedDirectory;
use super::moves::{Publisher, Stop};
use super::{A, B, Cluster, connect, failover, moves};
use crate::broker::{Broker, Folder, pause, run};

mod groups;
mod leaving;

/// Orchestrators with data directories, on a bus that one of them serves, and the brokers behind them.
struct Fleet {
    cluster: Cluster,
    brokers: [Broker; 2],
}

impl Fleet {
    fn start(nodes: usize, lease: &'static str) -> Self {
        Self::with(nodes, lease, &[])
    }

    fn with(nodes: usize, lease: &'static str, more: &[&str]) -> Self {
        let brokers = [Broker::start(&[]), Broker::start(&[])];
        let addresses = brokers.each_ref().map(|broker| format!("mqtt://{}", broker.address("mqtt://")));
        let named = format!("orchestrator.brokers={}", addresses.join(","));
        let bus = Box::new(SharedDirectory(Folder::new()));
        let settings = [&["orchestrator.enabled=true", &named][..], more].concat();
        let cluster = Cluster::of(nodes, lease, Some(Folder::new()), bus, &settings);
        Self { cluster, brokers }
    }
}

#[test]
fn a_session_is_served_at_either_orchestrator() {
    let Fleet { cluster, brokers: _brokers } = Fleet::start(2, "10s");
    for home in [A, B] {
        let id = cluster.id_at(home, "reader");
        cluster.subscribe(A, &id);
        cluster.publish(B, "in/x", 0..4);
        cluster.expect_owed(B, &id, 4);
        cluster.publish(A, "in/x", 0..4);
        cluster.expect_owed(A, &id, 4);
        cluster.client(A, &["sub", "-i", &id, "-t", "in/#", "-E"]);
    }
}

#[test]
fn orchestrators_join_and_stop_and_nothing_is_missed() {
    let mut fleet = Fleet::start(2, "6s");
    moves::join_and_stop(&mut fleet.cluster);
}

/// Publishes at QoS 0 without a pause.
fn flood(port: u16, id: &str, stop: &AtomicBool) {
    let publish = b"\x30\x0b\0\x05flood\0now".repeat(4096);
    while !stop.load(Ordering::SeqCst) {
        let Some(mut stream) = connect(port, id) else { continue };
        // The server need not read all of it.
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        while !stop.load(Ordering::SeqCst) && stream.write_all(&publish).is_ok() {}
    }
}

/// A broker hands nothing out, and clients of the old home publish without a pause. So the move cannot wait for either.
#[test]
fn a_busy_orchestrator_gives_clients_away() {
    let mut fleet = Fleet::start(1, "10s");
    let cluster = &mut fleet.cluster;
    let ids: Vec<String> = (0..8).map(|number| format!("reader-{number}")).collect();
    for id in &ids {
        cluster.subscribe(A, id);
    }
    cluster.publish(A, "in/x", 0..10);
    let (stop, port) = (AtomicBool::new(false), cluster.port(A));
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        fleet.brokers[0].signal("STOP");
        for flooder in ["one", "two"] {
            let stop = &stop;
            scope.spawn(move || flood(port, flooder, stop));
        }
        cluster.add();
        cluster.wait_even();
        let moved = cluster.id_at(B, "visitor");
        assert!(connect(cluster.port(B), &moved).is_some(), "its new home serves it");
        fleet.brokers[0].signal("CONT");
        drop(stopping);
    });
    for (at, id) in ids.iter().enumerate() {
        cluster.expect_owed(at % 2, id, 10);
    }
}

#[test]
fn any_orchestrator_answers_for_all() {
    let mut fleet = Fleet::start(2, "10s");
    let cluster = &mut fleet.cluster;
    let id = cluster.id_at(B, "device");
    let mut device = connect(cluster.port(B), &id).unwrap();
    let asked = |cluster: &Cluster, words: &[&str], code: i32| {
        let ended = run(&[words, &["--admin", cluster.node(A).address("admin=")]].concat());
        assert_eq!(ended.code, Some(code), "{words:?}: {} {}", ended.out, ended.err);
        ended.out
    };
    let clients: Value = serde_json::from_str(&asked(cluster, &["clients", "device", "--json"], 0)).unwrap();
    assert_eq!((&clients["clients"][0]["client"], &clients["clients"][0]["node"]), (&id.as_str().into(), &"b".into()));
    asked(cluster, &["ban", "add", "client", &id], 0);
    // Until its end.
    device.read_to_end(&mut Vec::new()).unwrap();
    assert!(![A, B].iter().any(|at| connect(cluster.port(*at), &id).is_some()), "refused everywhere");
    let story: Value = serde_json::from_str(&asked(cluster, &["why", "client", &id, "--json"], 0)).unwrap();
    let events = story["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "connected" && event["node"] == "b"), "{story}");
    let reloaded = asked(cluster, &["reload"], 0);
    assert!(reloaded.contains("node a: ") && reloaded.contains("node b: "), "{reloaded}");
}

/// Opens sessions at all of `nodes` orchestrators. The second one is killed while a client publishes at
/// QoS 2 at the first.
fn kill_the_second_of(nodes: usize) {
    let mut fleet = Fleet::start(nodes, "10s");
    let cluster = &mut fleet.cluster;
    let ids: Vec<String> =
        (0..4 * nodes).map(|number| cluster.id_at(number % nodes, &format!("reader-{number}"))).collect();
    for id in &ids {
        cluster.subscribe(A, id);
    }
    let stop = AtomicBool::new(false);
    let publisher = Publisher { port: cluster.port(A), id: cluster.id_at(A, "publisher") };
    let number = thread::scope(|scope| {
        let publishing = scope.spawn(|| publisher.run(&stop));
        let stopping = Stop(&stop);
        pause(300);
        let (_, repeated) = failover::kill(cluster, B);
        assert_eq!(repeated, 0, "all partitions were on the bus");
        pause(300);
        drop(stopping);
        publishing.join().unwrap()
    });
    for id in &ids {
        cluster.expect_owed(A, id, number);
    }
}

#[test]
fn a_killed_orchestrator_costs_no_message() {
    kill_the_second_of(2);
}

/// The dead one is started again at once, while another member works off its connections to brokers.
#[test]
fn an_orchestrator_that_returns_costs_no_message() {
    let mut fleet = Fleet::start(2, "10s");
    let cluster = &mut fleet.cluster;
    let ids: Vec<String> = (0..8).map(|number| cluster.id_at(number % 2, &format!("reader-{number}"))).collect();
    for id in &ids {
        cluster.subscribe(A, id);
    }
    let stop = AtomicBool::new(false);
    let publisher = Publisher { port: cluster.port(A), id: cluster.id_at(A, "publisher") };
    let number = thread::scope(|scope| {
        let publishing = scope.spawn(|| publisher.run(&stop));
        let stopping = Stop(&stop);
        for _ in 0..2 {
            pause(300);
            failover::kill(cluster, B);
            cluster.run(B);
            cluster.wait_even();
        }
        pause(300);
        drop(stopping);
        publishing.join().unwrap()
    });
    for id in &ids {
        cluster.expect_owed(A, id, number);
    }
}

/// Messages that brokers kept for the dead orchestrator reach both others through its replacement.
#[test]
fn a_killed_orchestrator_of_three_costs_no_message() {
    kill_the_second_of(3);
}
