//! Shares that follow the measures of nodes.

use serde_json::Value;

use super::{A, B, Cluster, connect, until};
use crate::nats::Nats;

/// Partitions and factors of all nodes, as one of them shows them.
fn shares(cluster: &Cluster, by: usize) -> Vec<(u64, f64)> {
    let view = cluster.view(by);
    let nodes = view["nodes"].as_array().cloned().unwrap_or_default();
    let share = |node: &Value| Some((node["partitions"].as_u64()?, node["factor"].as_f64()?));
    nodes.iter().filter_map(share).collect()
}

#[test]
fn shares_follow_the_ranking_of_points_of_access() {
    let settings = [
        "cluster.balance=ranking",
        "cluster.balance_pause=1s",
        "context.ranking=expression",
        "context.score=gateway.name == 'a' ? 3.0 : 1.0",
    ];
    let cluster = Cluster::of(2, "10s", None, Box::new(Nats::start()), &settings);
    let clients = |which: usize| {
        let ids = (0..110).map(move |number| (which, number));
        ids.map(|(which, number)| cluster.id_at(which, &format!("client-{number}"))).collect::<Vec<_>>()
    };
    // Fewer than 100 clients a node move nothing.
    let connected: Vec<_> =
        [A, B].into_iter().flat_map(clients).map(|id| connect(cluster.port(A), &id).unwrap()).collect();
    for by in [A, B] {
        let at = until("a larger share of the node that ranks higher", || {
            let shares = shares(&cluster, by);
            shares.first().is_some_and(|(partitions, _)| *partitions > 560).then_some(shares)
        });
        assert!(at[0].1 > 1.1 && at[1].1 < 0.9, "{at:?}");
        let metrics = cluster.node(by).get("/metrics").1;
        let weight = metrics.lines().find_map(|line| line.strip_prefix("tidegate_cluster_weight ")).unwrap();
        let weight: u64 = weight.parse().unwrap();
        assert_eq!(weight > 100, by == A, "{weight}");
    }
    let view = [A, B].map(|which| cluster.view(which)).into_iter().find(|view| view["leads"] == true).unwrap();
    assert!(view["nodes"][0]["load"]["wanted"].as_f64() > Some(0.0), "the leader shows its measures: {view}");
    drop(connected);
}
