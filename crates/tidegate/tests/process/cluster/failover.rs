//! A node dies, and the others take over its partitions.

use std::time::Instant;

use super::{A, B, C, Cluster, until};
use crate::broker::run;

/// Kills a node without a warning, and waits until the others serve everything. Returns the time that this took, for
/// people, and the numbers of restored and of emptied partitions.
pub(super) fn kill(cluster: &mut Cluster, which: usize) -> (u64, u64) {
    let killed = cluster.nodes[which].take().unwrap();
    let began = Instant::now();
    killed.signal("KILL");
    killed.wait();
    cluster.wait_even();
    println!("full service {} ms after kill -9, with a lease of {}", began.elapsed().as_millis(), cluster.lease);
    let living: Vec<usize> = (0..cluster.nodes.len()).filter(|which| cluster.nodes[*which].is_some()).collect();
    (sum(cluster, &living, "restored"), sum(cluster, &living, "taken_anew"))
}

fn sum(cluster: &Cluster, nodes: &[usize], number: &str) -> u64 {
    nodes.iter().map(|which| cluster.view(*which)[number].as_u64().unwrap()).sum()
}

/// The retained messages below `kept/`, as a node sends them.
fn retained(cluster: &Cluster, which: usize, count: usize) -> Vec<String> {
    let out = cluster.client(which, &["sub", "-t", "kept/#", "-v", "-C", &count.to_string(), "-W", "120"]);
    let mut lines: Vec<String> = out.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn others_deliver_a_killed_node_s_messages_once() {
    let mut cluster = Cluster::durable(3, "10s");
    let ids: Vec<String> =
        [A, B, C, C, C].iter().zip(0..).map(|(at, n)| cluster.id_at(*at, &format!("s{n}"))).collect();
    for (number, id) in ids.iter().enumerate() {
        cluster.subscribe(number % 3, id);
    }
    cluster.publish(A, "in/x", 0..3);
    cluster.publish(C, "in/y", 3..6);
    let kept: Vec<String> = (0..12).map(|number| format!("kept/{number} {number}")).collect();
    for line in &kept {
        let (topic, value) = line.split_once(' ').unwrap();
        cluster.client(C, &["pub", "-q", "1", "-r", "-t", topic, "-m", value]);
    }
    let ban = |which: usize, words: &[&str]| {
        run(&[&["ban"], words, &["--admin", cluster.node(which).address("admin=")]].concat())
    };
    assert_eq!(ban(C, &["add", "client", "eve", "--for", "1h"]).code, Some(0));
    assert_eq!(kill(&mut cluster, C), (341, 0));
    let ban = |which: usize| run(&["ban", "list", "--admin", cluster.node(which).address("admin=")]).out;
    assert!([A, B].iter().all(|which| ban(*which).contains("eve")), "{}", ban(A));
    // Half of the sessions are fetched before it is back, and half afterwards.
    for (number, id) in ids.iter().enumerate().take(4) {
        cluster.expect_owed(number % 2, id, 6);
    }
    let mut sorted = kept.clone();
    sorted.sort_unstable();
    assert_eq!(retained(&cluster, A, 12), sorted);

    cluster.run(C);
    cluster.wait_even();
    assert_eq!(retained(&cluster, C, 12), sorted);
    cluster.expect_owed(C, &ids[4], 6);
    cluster.client(A, &["pub", "-q", "2", "-t", "in/x", "-m", "last"]);
    for (number, id) in ids.iter().enumerate() {
        let next =
            cluster.client(number % 3, &["sub", "-i", id, "-c", "-q", "2", "-t", "in/#", "-C", "1", "-W", "120"]);
        assert_eq!(next, "last\n", "{id}: nothing comes twice");
    }
}

/// The lease is longer than the test waits for anything.
#[test]
fn a_killed_node_is_replaced_before_its_lease_ends() {
    let mut cluster = Cluster::durable(3, "600s");
    let ids: Vec<String> = [A, B, C].iter().zip(0..).map(|(at, n)| cluster.id_at(*at, &format!("s{n}"))).collect();
    for id in &ids {
        cluster.subscribe(B, id);
    }
    cluster.publish(B, "in/x", 0..6);
    assert_eq!(cluster.view(A)["leads"], true);
    assert_eq!(kill(&mut cluster, A).1, 0, "the leader");
    assert_eq!(kill(&mut cluster, C).1, 0, "another one");
    for id in &ids {
        cluster.expect_owed(B, id, 6);
    }
    cluster.run(C);
    cluster.wait_even();
}

#[test]
fn a_second_death_around_the_first_takeover_loses_nothing() {
    let mut cluster = Cluster::durable(3, "10s");
    let ids: Vec<String> = [A, B, C, C].iter().zip(0..).map(|(at, n)| cluster.id_at(*at, &format!("s{n}"))).collect();
    for id in &ids {
        cluster.subscribe(A, id);
    }
    cluster.publish(B, "in/x", 0..4);
    kill(&mut cluster, C);
    cluster.publish(B, "in/x", 4..6);
    // The log of the successor has the state of the dead node.
    kill(&mut cluster, B);
    until("all served by one", || (cluster.view(A)["served"] == 1_024).then_some(()));
    assert_eq!(sum(&cluster, &[A], "taken_anew"), 0);
    for id in &ids {
        cluster.expect_owed(A, id, 6);
    }
}

#[test]
fn messages_for_a_dead_node_are_acknowledged_when_they_are_safe() {
    let mut cluster = Cluster::durable(3, "10s");
    let id = cluster.id_at(C, "keeps");
    cluster.subscribe(A, &id);
    let killed = cluster.nodes[C].take().unwrap();
    killed.signal("KILL");
    killed.wait();
    let port = cluster.port(A).to_string();
    let mut number = 0;
    while cluster.view(A)["served"] != 512 || cluster.view(B)["served"] != 512 || number < 3 {
        let message = number.to_string();
        // A redirected client reconnects automatically, for a while.
        let ended = run(&["pub", "-h", "127.0.0.1", "-p", &port, "-q", "1", "-t", "in/x", "-m", &message]);
        number += u32::from(ended.code == Some(0));
    }
    cluster.expect_owed(B, &id, number);
}

#[test]
fn without_a_copy_a_dead_node_s_partitions_begin_empty() {
    let mut cluster = Cluster::with_lease(2, "5s");
    assert_eq!(kill(&mut cluster, B), (0, 512));
}
