//! The history of a cluster whose nodes have files of their own.

use serde_json::Value;

use super::{A, B, C, Cluster, NAMES, until};
use crate::broker::{Folder, get};

/// The history as a node answers it: the payloads, and the nodes that are missing.
fn read(cluster: &Cluster, which: usize) -> (Vec<String>, Vec<String>) {
    let (code, body) = get(cluster.node(which).address("http://"), "/history?limit=1000").unwrap();
    assert_eq!(code, "200", "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    let texts = |name: &str, of: &dyn Fn(&Value) -> Value| -> Vec<String> {
        let all = answer[name].as_array().into_iter().flatten();
        all.map(|one| of(one).as_str().unwrap().to_owned()).collect()
    };
    (texts("messages", &|message| message["payload"].clone()), texts("incomplete", &Value::clone))
}

#[test]
fn a_history_is_read_at_every_node_and_silent_nodes_are_named() {
    let folder = Folder::new();
    for name in NAMES {
        let path = folder.file(&format!("past-{name}"));
        let text = format!(
            "[[sink]]\nname = 'past'\nkind = 'history'\npath = '{path}'\n\
             [[pipeline]]\nname = 'past'\nfrom = ['plant/#']\nto = ['past']\n"
        );
        folder.write(&format!("{name}.toml"), &text);
    }
    let config = format!("--config={}", folder.file("{name}.toml"));
    let cluster = Cluster::durable_with(3, "60s", &[&config, "--listen=http://127.0.0.1:0"]);
    let writer = until("the pipeline at a node", || {
        let runs = |which: &usize| {
            let metrics = cluster.node(*which).get("/metrics").1;
            metrics.contains("tidegate_hub_messages_taken_total{pipeline=\"past\"}")
        };
        [A, B, C].into_iter().find(runs)
    });
    let mut sent = Vec::new();
    for (number, by) in (0..9).zip([A, B, C].into_iter().cycle()) {
        // Topics of all nodes.
        let topic = format!("plant/{}", cluster.id_at(by, "x"));
        cluster.client(A, &["pub", "-q", "1", "-t", &topic, "-m", &number.to_string()]);
        sent.push(number.to_string());
    }
    for which in [A, B, C] {
        until("all messages of the history", || {
            let (mut payloads, incomplete) = read(&cluster, which);
            payloads.sort_unstable();
            // A busy machine may take longer than a question may.
            (incomplete.is_empty() && payloads == sent).then_some(())
        });
    }
    let other = (writer + 1) % NAMES.len();
    cluster.node(writer).signal("STOP");
    until("the name of the silent node", || {
        let (payloads, incomplete) = read(&cluster, other);
        let is_named = incomplete.iter().any(|text| text.starts_with(&format!("{}: ", NAMES[writer])));
        is_named.then(|| assert!(payloads.is_empty(), "the messages are in the files of the other node: {payloads:?}"))
    });
    cluster.node(writer).signal("CONT");
}
