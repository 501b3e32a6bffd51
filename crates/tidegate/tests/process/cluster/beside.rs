//! Processes that are started beside a cluster by mistake: the nodes serve on.

use std::process::{Child, Stdio};

use serde_json::Value;

use super::{A, B, C, Cluster, until};
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

    /// Its answer to `/readyz`.
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
fn a_node_that_all_refuse_gets_no_partitions() {
    let folder = Folder::new();
    let secret = format!("cluster.secret_file={}", folder.write("secret", "a secret of the cluster"));
    let other = format!("cluster.secret_file={}", folder.write("other", "another secret than theirs"));
    let mut cluster = Cluster::durable_with(2, "6s", &[&secret]);
    let _refused = Beside::start(&cluster, "z", &["--set", &other]);
    let refused = |cluster: &Cluster, which| {
        let view = cluster.view(which);
        let mut nodes = view["nodes"].as_array().into_iter().flatten();
        nodes.find(|node| node["name"] == "z" && node["link_failure"] != Value::Null).cloned()
    };
    for which in [A, B] {
        let is_ready = || cluster.node(which).get("/readyz").1 == "ready\n";
        until("the node is refused, and this one ready", || {
            (refused(&cluster, which).is_some() && is_ready()).then_some(())
        });
    }
    // Shares are made even among the nodes that have links.
    cluster.add();
    cluster.wait_even();
    let node = until("the third node knows the refused one", || refused(&cluster, C));
    assert_eq!(node["partitions"], 0, "{node}");
}
