//! Bridges and pipelines of a cluster: one node runs each, and another takes over.

use super::{A, B, C, Cluster, NAMES, failover, until};
use crate::broker::{Broker, Folder, run};

/// The node whose metrics have this beginning of a line, waited for. No two nodes have it.
fn runs_at(cluster: &Cluster, line: &str) -> usize {
    until(line, || {
        let running = (0..NAMES.len()).filter(|which| cluster.nodes[*which].is_some());
        let has = |which: &usize| cluster.node(*which).get("/metrics").1.lines().any(|it| it.starts_with(line));
        let at: Vec<usize> = running.filter(has).collect();
        (at.len() == 1).then(|| at[0])
    })
}

/// Waits until a node says that the pipeline has this state at any node.
fn pipeline_is(cluster: &Cluster, asked: usize, state: &str) {
    until("the state of the pipeline", || {
        let status = cluster.node(asked).get("/api/v1/hub").1;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        (status["hot"]["state"] == state).then_some(())
    });
}

/// Pauses and resumes the pipeline at a node that does not run it.
fn order_elsewhere(cluster: &Cluster, runs_at: usize) {
    let asked = (runs_at + 1) % NAMES.len();
    for (order, state) in [("pause", "paused"), ("resume", "running")] {
        let admin = format!("http://{}", cluster.node(asked).address("admin=http://"));
        let ended = run(&["hub", order, "hot", "--admin", &admin]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        pipeline_is(cluster, asked, state);
        pipeline_is(cluster, runs_at, state);
    }
}

#[test]
fn one_node_runs_a_bridge_and_a_pipeline_until_it_dies() {
    let (folder, other) = (Folder::new(), Broker::start(&[]));
    let out = folder.file("out.ndjson");
    let text = format!(
        "[[bridge]]\nname = 'cloud'\nbroker = 'mqtt://{}'\ntopics = ['up/# out 1']\n\
         [[sink]]\nname = 'archive'\nkind = 'file'\npath = '{out}'\n\
         [[pipeline]]\nname = 'hot'\nfrom = ['plant/#']\nsql = \"SELECT payload AS n FROM 'plant/#'\"\nto = ['archive']\n",
        other.address("mqtt://")
    );
    let config = format!("--config={}", folder.write("node.toml", &text));
    let mut cluster = Cluster::durable_with(3, "10s", &[&config]);
    let bridge = "tidegate_bridge_connected{bridge=\"cloud\",end=\"remote\"} 1";
    let pipeline = "tidegate_hub_messages_taken_total{pipeline=\"hot\"}";
    let publish = |cluster: &Cluster, nodes: &[usize], numbers: std::ops::Range<u32>| {
        for (number, by) in numbers.zip(nodes.iter().cycle()) {
            let text = number.to_string();
            cluster.client(*by, &["pub", "-q", "1", "-t", "plant/a", "-m", &text]);
            cluster.client(*by, &["pub", "-q", "1", "-r", "-t", &format!("up/{number:02}"), "-m", &text]);
        }
    };
    let has_all = |count: u32| {
        let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        until("all records of the pipeline", || {
            let text = std::fs::read_to_string(&out).unwrap_or_default();
            let records = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            let mut got: Vec<u64> = records.map(|it| it["n"].to_string().trim_matches('"').parse().unwrap()).collect();
            got.sort_unstable();
            // A node that is killed may not have stored that the last messages were taken: they come once more.
            got.dedup();
            let got: Vec<String> = got.iter().map(u64::to_string).collect();
            (got.len() >= expected.len()).then(|| assert_eq!(got, expected))
        });
        let port = other.address("mqtt://").rsplit_once(':').unwrap().1;
        until("all messages over the bridge", || {
            let ended = run(&["sub", "-p", port, "-t", "up/#", "-C", &count.to_string(), "-W", "120"]);
            let mut carried: Vec<&str> = ended.out.lines().collect();
            carried.sort_unstable_by_key(|number| number.parse::<u32>().unwrap());
            // One that came once more was among them in the place of another; its value is retained all the same.
            carried.dedup();
            (carried.len() == expected.len()).then(|| assert_eq!(carried, expected, "{}", ended.err))
        });
    };
    runs_at(&cluster, bridge);
    pipeline_is(&cluster, A, "running");
    order_elsewhere(&cluster, runs_at(&cluster, pipeline));
    publish(&cluster, &[A, B, C], 0..6);
    has_all(6);
    let dies = runs_at(&cluster, pipeline);
    failover::kill(&mut cluster, dies);
    let left: Vec<usize> = [A, B, C].into_iter().filter(|which| *which != dies).collect();
    publish(&cluster, &left, 6..12);
    has_all(12);
    let bridge_at = runs_at(&cluster, bridge);
    assert_ne!(bridge_at, dies);
    assert_ne!(runs_at(&cluster, pipeline), dies);
}
