//! Nodes of a cluster that are gateways of mobile nodes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{A, B, Bus, C, Cluster, failover, until};
use crate::broker::{Folder, pause};
use crate::context::{GROUPS, Node, retained};
use crate::nats::Nats;

/// Makes a cluster also the core of mobile nodes.
pub(super) fn core() -> Cluster {
    core_on(Box::new(Nats::start()))
}

/// The same on a bus.
pub(super) fn core_on(bus: Box<dyn Bus>) -> Cluster {
    let groups = format!("context.groups={GROUPS}");
    let settings = [
        "addresses.enabled=true",
        "addresses.guarded=false",
        "context.enabled=true",
        "context.topics=vehicle/{node}/position",
        "context.partitions=4",
        "context.lease=1s",
        "context.load_period=100ms",
        "context.connection_period=100ms",
        "context.cycle=100ms",
        "context.records_max_bytes=1MiB",
        &groups,
    ];
    Cluster::of(3, "2s", Some(Folder::new()), bus, &settings)
}

/// Publishes to a group until a message has reached this node, and no other is on its way to it.
fn until_in_group(cluster: &Cluster, by: usize, node: &mut Node) {
    let (address, reached) = (cluster.node(by).address("mqtt://"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut operator = Node::connect(address, "operator");
            while !reached.load(Ordering::Acquire) {
                operator.publish("ctx/to/group/ambulances/news", "more");
                pause(20);
            }
            operator.publish("ctx/to/group/ambulances/news", "end");
            // Before it leaves, the broker has all its messages.
            operator.send(&[0xc0, 0]);
            while operator.packet().0 != 0xd0 {}
        });
        loop {
            let (first, rest) = node.packet();
            assert_eq!(first >> 4, 3, "PUBLISH: {rest:?}");
            reached.store(true, Ordering::Release);
            if rest.ends_with(b"end") {
                return;
            }
        }
    });
}

#[test]
fn addressed_messages_find_a_mobile_node_wherever_it_returns() {
    let mut cluster = core();
    let list = |cluster: &Cluster, has_c: bool| {
        let listed = |name: &str, list: &str| list.contains(&format!("\"name\":\"{name}\""));
        until("the list of gateways", || {
            let list = retained(cluster.node(A), "ctx/gateways");
            (listed("a", &list) && listed("b", &list) && listed("c", &list) == has_c).then_some(())
        });
    };
    list(&cluster, true);
    // Its home is one node, it connects to another, and its context comes in at a third.
    let id = cluster.id_at(C, "truck");
    let mut truck = Node::connect(cluster.node(A).address("mqtt://"), &id);
    cluster.client(B, &["pub", "-q", "1", "-t", &format!("vehicle/{id}/position"), "-m", r#"{"kind": "ambulance"}"#]);
    until_in_group(&cluster, B, &mut truck);
    drop(truck);
    cluster.publish(B, &format!("ctx/to/node/{id}/job"), 0..4);
    cluster.publish(A, "ctx/to/group/ambulances/job", 4..6);
    let (_, emptied) = failover::kill(&mut cluster, C);
    assert_eq!(emptied, 0);
    // It is away, and still in its group.
    cluster.publish(A, "ctx/to/group/ambulances/job", 6..8);
    let got = cluster.client(B, &["sub", "-i", &id, "-q", "2", "-t", "unused", "-C", "8", "-W", "120"]);
    assert_eq!(got.lines().collect::<Vec<_>>(), ["0", "1", "2", "3", "4", "5", "6", "7"]);
    list(&cluster, false);
    for which in [A, B] {
        let (_, metrics) = cluster.node(which).get("/metrics");
        assert!(metrics.contains("tidegate_context_handovers_total 0\n"), "homes are the cluster's matter: {metrics}");
    }
}
