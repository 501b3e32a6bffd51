//! The bus loses its disk while all nodes run.

use serde_json::json;

use super::{A, B, C, Cluster, until};

#[test]
fn a_bus_that_loses_its_disk_costs_no_node_its_place() {
    let mut cluster = Cluster::durable(3, "10s");
    let ids = [A, B, C].map(|which| cluster.id_at(which, "owed"));
    for id in &ids {
        cluster.subscribe(A, id);
    }
    cluster.publish(B, "in/x", 0..4);
    let before = cluster.view(A);
    cluster.bus.kill();
    cluster.bus.wipe();
    cluster.bus.resume();
    let epoch = |which| cluster.view(which)["epoch"].as_u64().unwrap_or(0);
    until("the next table", || {
        [A, B, C].iter().all(|which| epoch(*which) > before["epoch"].as_u64().unwrap()).then_some(())
    });
    cluster.wait_served();
    for which in [A, B, C] {
        let view = cluster.view(which);
        assert_eq!(view["homes"], before["homes"], "no partition has another home");
        assert_eq!(view["taken_anew"], json!(0));
    }
    cluster.publish(C, "in/x", 4..6);
    for (id, by) in ids.iter().zip([B, C, A]) {
        cluster.expect_owed(by, id, 6);
    }
}
