//! Nodes on a bus that one of them serves to the others, from a directory that they share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::moves::{Publisher, Stop};
use super::{A, B, Bus, C, Cluster, failover, moves};
use crate::broker::Folder;

/// A directory in which nodes have their bus. It has no server of its own.
pub(super) struct SharedDirectory(pub(super) Folder);

impl Bus for SharedDirectory {
    fn address(&self) -> String {
        format!("embedded://{}", self.0.file("bus"))
    }

    fn kill(&mut self) {
        panic!("a node serves this bus: kill that one")
    }

    fn resume(&mut self) {
        panic!("a node serves this bus: start that one")
    }
}

fn cluster(nodes: usize, lease: &'static str) -> (Cluster, String) {
    let folder = Folder::new();
    let lock = folder.file("bus/lock");
    (Cluster::of(nodes, lease, Some(Folder::new()), Box::new(SharedDirectory(folder)), &[]), lock)
}

/// The node that serves the bus.
fn server(cluster: &Cluster, lock: &str) -> usize {
    let serving: u32 = std::fs::read_to_string(lock).unwrap().trim().parse().unwrap();
    let is_it = |node: &Option<crate::broker::Broker>| node.as_ref().is_some_and(|node| node.id() == serving);
    cluster.nodes.iter().position(is_it).unwrap()
}

#[test]
fn nothing_is_lost_when_nodes_die_that_serve_the_bus() {
    let (mut cluster, lock) = cluster(3, "10s");
    let ids: Vec<String> = (0..9).map(|number| cluster.id_at(number % 3, &format!("reader-{number}"))).collect();
    for (number, id) in ids.iter().enumerate() {
        cluster.subscribe(number % 3, id);
    }
    cluster.client(A, &["pub", "-q", "1", "-r", "-t", "kept/a", "-m", "x"]);
    let first = server(&cluster, &lock);
    // At a node that survives, while two others die: first the node that serves the bus.
    let by = (first + 1) % 3;
    let (port, stop) = (cluster.port(by), AtomicBool::new(false));
    let publisher = Publisher { port, id: cluster.id_at(by, "publisher") };
    let number = thread::scope(|scope| {
        let publishing = scope.spawn(|| publisher.run(&stop));
        let stopping = Stop(&stop);
        assert_eq!(failover::kill(&mut cluster, first).1, 0, "the node that serves the bus");
        cluster.run(first);
        cluster.wait_even();
        let second = server(&cluster, &lock);
        assert_ne!(second, first, "another node serves the bus");
        let dies = if second == by { first } else { second };
        assert_eq!(failover::kill(&mut cluster, dies).1, 0, "another one");
        drop(stopping);
        publishing.join().unwrap()
    });
    assert!(number > 0 && stop.load(Ordering::SeqCst));
    for id in &ids {
        cluster.expect_owed(by, id, number);
    }
    assert_eq!(cluster.client(by, &["sub", "-t", "kept/#", "-C", "1", "-W", "120"]), "x\n");
}

#[test]
fn a_node_joins_and_the_server_of_the_bus_stops() {
    let (mut cluster, lock) = cluster(2, "6s");
    moves::join_and_stop(&mut cluster);
    // All stop, in order, and all that they have is there when they start again.
    let id = cluster.id_at(A, "keeps");
    cluster.subscribe(C, &id);
    cluster.publish(C, "in/x", 0..4);
    let last = if server(&cluster, &lock) == A { C } else { A };
    for which in [A + C - last, last] {
        let node = cluster.nodes[which].take().unwrap();
        node.signal("TERM");
        let ended = node.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    for which in [A, B, C] {
        cluster.run(which);
    }
    cluster.wait_even();
    cluster.expect_owed(B, &id, 4);
}

#[test]
fn addressed_messages_outlive_the_node_that_serves_the_bus() {
    let folder = Folder::new();
    let lock = folder.file("bus/lock");
    let mut cluster = super::core::core_on(Box::new(SharedDirectory(folder)));
    let first = server(&cluster, &lock);
    let others: Vec<usize> = [A, B, C].into_iter().filter(|which| *which != first).collect();
    let id = cluster.id_at(first, "truck");
    cluster.client(others[0], &["sub", "-i", &id, "-c", "-q", "2", "-t", "unused", "-E"]);
    cluster.publish(others[0], &format!("ctx/to/node/{id}/job"), 0..4);
    assert_eq!(failover::kill(&mut cluster, first).1, 0);
    cluster.publish(others[1], &format!("ctx/to/node/{id}/job"), 4..6);
    let got = cluster.client(others[1], &["sub", "-i", &id, "-c", "-q", "2", "-t", "unused", "-C", "6", "-W", "120"]);
    assert_eq!(got.lines().collect::<Vec<_>>(), ["0", "1", "2", "3", "4", "5"]);
}
