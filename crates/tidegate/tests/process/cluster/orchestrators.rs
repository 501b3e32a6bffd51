//! Orchestrators that are members of a cluster, in front of two brokers.

use std::sync::atomic::AtomicBool;
use std::thread;

use super::directory::SharedDirectory;
use super::moves::{Publisher, Stop};
use super::{A, B, Cluster, failover, moves};
use crate::broker::{Broker, Folder};
use crate::homes::pause;

/// Orchestrators with data directories, on a bus that one of them serves, and the brokers behind them.
struct Fleet {
    cluster: Cluster,
    _brokers: [Broker; 2],
}

impl Fleet {
    fn start(nodes: usize, lease: &'static str) -> Self {
        let brokers = [Broker::start(&[]), Broker::start(&[])];
        let addresses = brokers.each_ref().map(|broker| format!("mqtt://{}", broker.address("mqtt://")));
        let named = format!("orchestrator.brokers={}", addresses.join(","));
        let bus = Box::new(SharedDirectory(Folder::new()));
        let settings = ["orchestrator.enabled=true", &named];
        let cluster = Cluster::of(nodes, lease, Some(Folder::new()), bus, &settings);
        Self { cluster, _brokers: brokers }
    }
}

#[test]
fn a_session_is_served_at_either_orchestrator() {
    let Fleet { cluster, _brokers } = Fleet::start(2, "10s");
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

/// Opens sessions at all of `nodes` orchestrators. The second one is killed while a client publishes at
/// QoS 2 at the first.
fn kill_the_second_of(nodes: usize) {
    let mut fleet = Fleet::start(nodes, "2s");
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
fn an_orchestrator_that_comes_back_costs_no_message() {
    let mut fleet = Fleet::start(2, "2s");
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

/// What brokers kept for the dead one goes by the one that connects in its place to both others.
#[test]
fn a_killed_orchestrator_of_three_costs_no_message() {
    kill_the_second_of(3);
}
