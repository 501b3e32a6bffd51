//! Processes that are started beside a cluster by mistake: the nodes go on.

use std::process::{Child, Stdio};

use serde_json::Value;

use super::{A, B, Cluster, until};
use crate::broker::{Folder, command, get};
use crate::ports::free_port;

/// A process that is not awaited.
struct Beside {
    child: Child,
    admin: String,
}

impl Beside {
    fn start(cluster: &Cluster, name: &str, arguments: &[&str]) -> Self {
        let (admin, bus) = (format!("127.0.0.1:{}", free_port()), cluster.bus.address());
        let node = ["--listen", "127.0.0.1:0", "--admin", &admin, "--node", name, "--bus", &bus, "--shards", "1"];
        let lease = format!("cluster.lease={}", cluster.lease);
        let mut process = command(&[&node[..], &["--set", &lease], arguments].concat());
        let child = process.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, admin }
    }

    /// What it says of its readiness.
    fn readiness(&self) -> String {
        get(&self.admin, "/readyz").map(|(_, why)| why).unwrap_or_default()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_second_process_of_a_name_waits_for_the_first() {
    let mut cluster = Cluster::durable(2, "6s");
    let id = cluster.id_at(B, "keeps");
    cluster.subscribe(A, &id);
    cluster.publish(A, "in/x", 0..2);
    let folder = Folder::new();
    let data = folder.file("b");
    let second = Beside::start(&cluster, "b", &["--data", &data, "--set", "mirror.max_bytes=256MiB"]);
    until("the second process waits", || second.readiness().contains("is node `b`").then_some(()));
    cluster.publish(B, "in/x", 2..4);
    assert!(!cluster.nodes[B].as_mut().unwrap().has_ended(), "the first process serves on");
    let first = cluster.nodes[B].take().unwrap();
    first.signal("KILL");
    first.wait();
    until("the second process is the node", || (second.readiness() == "ready\n").then_some(()));
    cluster.expect_owed(A, &id, 4);
}

#[test]
fn a_node_that_all_refuse_leaves_them_ready() {
    let folder = Folder::new();
    let secret = format!("cluster.secret_file={}", folder.write("secret", "a secret of the cluster"));
    let other = format!("cluster.secret_file={}", folder.write("other", "another secret than theirs"));
    let cluster = Cluster::durable_with(2, "6s", &[&secret]);
    let _refused = Beside::start(&cluster, "c", &["--set", &other]);
    let is_refused = |which| {
        let view = cluster.view(which);
        let nodes = view["nodes"].as_array().into_iter().flatten();
        nodes.filter(|node| node["name"] == "c").any(|node| node["link_failure"] != Value::Null)
    };
    for which in [A, B] {
        // Its share of the partitions moves meanwhile.
        let is_ready = || cluster.node(which).get("/readyz").1 == "ready\n";
        until("the node is refused, and this one ready", || (is_refused(which) && is_ready()).then_some(()));
    }
}
