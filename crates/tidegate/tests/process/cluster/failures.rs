//! Nodes that die, stand still, or lose the bus.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use super::{A, B, C, Cluster, connect, connect_with_will, publish_packet, until};
use crate::broker::{Broker, Folder, command, pause};

/// How a PUBACK begins.
const PUBACK: u8 = 0x40;

#[test]
fn the_partitions_of_a_killed_node_begin_empty_at_the_others() {
    let mut cluster = Cluster::with_lease(3, "6s");
    let (stays, dies) = (cluster.id_at(A, "stays"), cluster.id_at(C, "dies"));
    cluster.subscribe(B, &stays);
    cluster.subscribe(A, &dies);
    let killed = cluster.nodes[C].take().unwrap();
    killed.signal("KILL");
    killed.wait();
    // The living nodes serve their partitions meanwhile.
    let publisher = cluster.id_at(A, "publisher");
    for number in 0..4 {
        let number = number.to_string();
        cluster.client(B, &["pub", "-i", &publisher, "-q", "1", "-t", "in/x", "-m", &number]);
    }
    cluster.wait_even();
    let emptied: u64 = [A, B].map(|which| cluster.view(which)["taken_anew"].as_u64().unwrap()).iter().sum();
    assert_eq!(emptied, 341);
    cluster.expect_owed(B, &stays, 4);
    // A client whose home was there is served again, with an empty session.
    assert!(connect(cluster.port(A), &dies).is_some());
    // And the node is welcome again.
    cluster.run(C);
    cluster.wait_even();
}

/// Whether all threads of a process are stopped: the signal reaches them one after the other.
fn stands_still(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut states = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap());
    states.all(|state| state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
}

#[test]
fn a_node_frozen_for_longer_than_its_lease_acknowledges_nothing() {
    let cluster = Cluster::with_lease(2, "6s");
    let id = cluster.id_at(B, "victim");
    let mut client = connect(cluster.port(B), &id).unwrap();
    client.write_all(&publish_packet("a", 1)).unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    client.read_exact(&mut vec![0; answer[1].into()]).unwrap();
    assert_eq!(answer[0], PUBACK);
    let lost_before = cluster.lost_memberships(B);
    cluster.node(B).signal("STOP");
    until("all its threads stand still", || stands_still(cluster.node(B).id()).then_some(()));
    client.write_all(&publish_packet("a", 2)).unwrap();
    until("the other one serves all", || (cluster.view(A)["served"] == 1_024).then_some(()));
    // The same client is served where its partition is now.
    assert!(connect(cluster.port(A), &id).is_some());
    cluster.node(B).signal("CONT");
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    // But a goodbye, if it has heard by now that others serve the client.
    assert!(rest.first().is_none_or(|first| *first == 0xe0), "it wrote {rest:02x?}");
    until("it is back as another life", || (cluster.lost_memberships(B) > lost_before).then_some(()));
    cluster.wait_even();
}

/// Suspends nodes until the others serve everything, and resumes them: they end, each with one error. Returns their
/// output.
fn suspend_until_replaced(cluster: &mut Cluster, which: &[usize], by: usize) -> Vec<String> {
    for node in which {
        cluster.node(*node).signal("STOP");
    }
    for node in which {
        until("all its threads stand still", || stands_still(cluster.node(*node).id()).then_some(()));
    }
    until("the other one serves all", || (cluster.view(by)["served"] == 1_024).then_some(()));
    cluster.publish(by, "in/x", 2..4);
    for node in which {
        cluster.node(*node).signal("CONT");
    }
    let said = which.iter().map(|node| {
        let mut broker = cluster.nodes[*node].take().unwrap();
        until("its end", || broker.has_ended().then_some(()));
        let ended = broker.wait();
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        ended.err
    });
    said.collect()
}

#[test]
fn nodes_without_their_places_end_with_advice_and_lose_nothing() {
    // Who has nothing to hand over, and whose clients are served elsewhere, takes none of this time.
    let patient = ["cluster.leave_timeout=1h", "shutdown.grace=1h"];
    let mut cluster = Cluster::durable_with(3, "6s", &patient);
    let ids = [A, B, C].map(|home| cluster.id_at(home, "keeps"));
    for (number, id) in ids.iter().enumerate() {
        cluster.subscribe((number + 1) % 3, id);
    }
    cluster.client(A, &["sub", "-i", "mourner", "-c", "-q", "1", "-t", "wills/#", "-E"]);
    let id = cluster.id_at(B, "idle");
    let mut idle = connect(cluster.port(B), &id).unwrap();
    let id = cluster.id_at(C, "mourned");
    let mut mourned = connect_with_will(cluster.port(C), &id, "wills/x");
    cluster.publish(B, "in/x", 0..2);
    for said in suspend_until_replaced(&mut cluster, &[B, C], A) {
        let error = said.lines().find(|line| line.starts_with("error: ")).unwrap_or(&said);
        assert!(error.starts_with("error: node `") && error.contains("has lost its place"), "{said}");
        assert!(error.contains("Start it again with the same data directory"), "{said}");
        assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said}");
        assert!(!said.contains(" ERROR "), "an error is logged once: {said}");
    }
    // A client without a session is refused with the reason: its home, a busy node, or a node that stops.
    let mut goodbye = Vec::new();
    let _ = idle.read_to_end(&mut goodbye);
    assert!(matches!(goodbye[..], [0xe0, _, 0x89 | 0x8b | 0x9c, ..]), "{goodbye:02x?}");
    let _ = mourned.read_to_end(&mut Vec::new());
    // With the same data directories, as a supervisor starts them.
    cluster.run(B);
    cluster.run(C);
    cluster.wait_even();
    cluster.publish(C, "in/x", 4..6);
    for (number, id) in ids.iter().enumerate() {
        cluster.expect_owed((number + 2) % 3, id, 6);
    }
    // The will is there, once.
    cluster.client(B, &["pub", "-q", "1", "-t", "wills/y", "-m", "last"]);
    let wills = cluster.client(C, &["sub", "-i", "mourner", "-c", "-q", "1", "-t", "wills/#", "-C", "2", "-W", "120"]);
    assert_eq!(wills, "gone\nlast\n");
}

/// A client that has subscribed to `much` and reads nothing of so much that it does not all fit into its socket.
fn deaf(cluster: &Cluster, which: usize) -> TcpStream {
    let mut deaf = connect(cluster.port(which), "deaf").unwrap();
    deaf.write_all(b"\x82\x0a\0\x01\0\0\x04much\0").unwrap();
    deaf.read_exact(&mut [0; 6]).unwrap();
    let mut writer = connect(cluster.port(which), "writer").unwrap();
    for _ in 0..100 {
        // 200,000 bytes at QoS 1.
        let length = 2 + 4 + 2 + 1 + 200_000_u32;
        let head = [0x32, (length & 0x7f) as u8 | 0x80, (length >> 7 & 0x7f) as u8 | 0x80, (length >> 14) as u8];
        writer.write_all(&[&head[..], b"\0\x04much\0\x01\0", &vec![7; 200_000]].concat()).unwrap();
        let mut answer = [0; 2];
        writer.read_exact(&mut answer).unwrap();
        writer.read_exact(&mut vec![0; answer[1].into()]).unwrap();
        assert_eq!(answer[0], PUBACK);
    }
    deaf
}

/// It is still a member, and there are clients that it would wait for; but none of its partitions is its own any more.
#[test]
fn a_node_whose_log_another_process_has_taken_ends_at_once() {
    let patient = ["cluster.leave_timeout=1h", "shutdown.grace=1h"];
    let mut cluster = Cluster::durable_with(2, "10s", &patient);
    let _deaf = deaf(&cluster, B);
    let folder = Folder::new();
    let (data, bus, port) = (folder.file("data"), cluster.bus.address(), cluster.port(B).to_string());
    let taking = ["--data", &data, "--mirror", &bus, "--mirror-name", "b", "--set", "mirror.max_bytes=256MiB"];
    let _taker = Broker::start(&taking);
    // It finds out with the next that it has to keep.
    let id = cluster.id_at(B, "lasting");
    let mut kept = command(&["sub", "-h", "127.0.0.1", "-p", &port, "-i", &id, "-c", "-q", "1", "-t", "in/#"]);
    let mut kept = kept.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut node = cluster.nodes[B].take().unwrap();
    until("its end", || node.has_ended().then_some(()));
    kept.kill().unwrap();
    kept.wait().unwrap();
    let ended = node.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(
        ended.err.contains("error: node `b` has lost its place") && !ended.err.contains(" ERROR "),
        "{}",
        ended.err
    );
}

#[test]
fn clients_stay_connected_while_the_bus_is_away_within_a_lease() {
    let mut cluster = Cluster::with_lease(2, "8s");
    let id = cluster.id_at(B, "patient");
    let mut client = connect(cluster.port(A), &id).unwrap();
    cluster.bus.kill();
    pause(2_000);
    client.write_all(&publish_packet("a", 1)).unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], PUBACK);
    cluster.bus.resume();
    cluster.wait_even();
    assert_eq!(cluster.view(B)["memberships_lost"], 0);
    let mut rest = vec![0; answer[1].into()];
    client.read_exact(&mut rest).unwrap();
    client.write_all(&[0xc0, 0]).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0xd0, 0]);
}

#[test]
fn clients_stay_connected_while_nats_is_away_beyond_a_lease() {
    let mut cluster = Cluster::durable(2, "5s");
    let lost = super::outage::outlast(&mut cluster, 8_000);
    assert_eq!(lost, 0, "no node could give another one up");
}

#[test]
fn a_node_that_keeps_nothing_also_resumes_when_the_bus_is_back() {
    let mut cluster = Cluster::with_lease(2, "5s");
    let lost = super::outage::outlast(&mut cluster, 8_000);
    assert_eq!(lost, 0, "no node could give another one up");
}
