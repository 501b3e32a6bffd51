//! Orchestrators that are members of a cluster, in front of two brokers.

use super::directory::SharedDirectory;
use super::{A, B, Cluster, moves};
use crate::broker::{Broker, Folder};

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
