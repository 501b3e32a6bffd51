//! A node compares the partitions that it serves with its share of the table.

use std::process::Command;

use super::{A, B, Cluster, connect, until};

/// The node gets partitions of the table and cannot take them: it has to note them in its directory first, and the file
/// that it opens for that is a pipe that no process reads.
#[test]
fn a_node_that_does_not_serve_its_share_is_not_ready_and_ends() {
    let mut cluster = Cluster::durable_with(2, "6s", &["cluster.mirror=false", "cluster.leave_timeout=0"]);
    let pipe = format!("{}/cluster.json.new", cluster.data.as_ref().unwrap().file("b"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let killed = cluster.nodes[A].take().unwrap();
    killed.signal("KILL");
    killed.wait();
    until("the node counts partitions that it does not serve", || (cluster.view(B)["astray"] == 512).then_some(()));
    assert_eq!(cluster.node(B).get("/readyz").0, "503");
    let mut broker = cluster.nodes[B].take().unwrap();
    until("its end", || broker.has_ended().then_some(()));
    let ended = broker.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("it does not serve 512 partitions"), "{}", ended.err);
    assert!(ended.err.contains("Start it again with the same data directory"), "{}", ended.err);
    std::fs::remove_file(&pipe).unwrap();
    // As another life it serves all.
    cluster.run(B);
    until("all is served again", || (cluster.view(B)["served"] == 1_024).then_some(()));
    assert!(connect(cluster.port(B), "anybody").is_some());
}
