//! Any node answers for all nodes.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use super::{A, B, C, Cluster, connect, until};
use crate::broker::{command, run};

/// The JSON that a command prints, asked at a node.
fn asked(cluster: &Cluster, at: usize, command: &[&str], code: i32) -> Value {
    let mut arguments = command.to_vec();
    arguments.extend(["--json", "--admin", cluster.node(at).address("admin=")]);
    let ended = run(&arguments);
    assert_eq!(ended.code, Some(code), "{command:?}: {} {}", ended.out, ended.err);
    serde_json::from_str(&ended.out).unwrap()
}

/// Does something at a node.
fn done(cluster: &Cluster, at: usize, command: &[&str], codes: &[i32]) -> String {
    let mut arguments = command.to_vec();
    arguments.extend(["--admin", cluster.node(at).address("admin=")]);
    let ended = run(&arguments);
    assert!(ended.code.is_some_and(|code| codes.contains(&code)), "{command:?}: {} {}", ended.out, ended.err);
    ended.out + &ended.err
}

/// Nodes that have a ban.
fn banned_on(cluster: &Cluster, at: usize, name: &str, code: i32) -> Vec<String> {
    let list = asked(cluster, at, &["ban", "list"], code);
    let ban = list["bans"].as_array().unwrap().iter().find(|ban| ban["name"] == name);
    let nodes = ban.and_then(|ban| ban["nodes"].as_array()).into_iter().flatten();
    nodes.map(|node| node.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_client_is_listed_explained_and_banned_from_another_node() {
    let mut cluster = Cluster::durable(3, "10s");
    let id = cluster.id_at(C, "device");
    let mut device = connect(cluster.port(C), &id).unwrap();
    let clients = asked(&cluster, A, &["clients", "device"], 0);
    assert_eq!((&clients["clients"][0]["client"], &clients["clients"][0]["node"]), (&id.as_str().into(), &"c".into()));
    assert_eq!((&clients["unreachable"], &clients["more"]), (&Value::Array(Vec::new()), &false.into()), "{clients}");
    let added = done(&cluster, A, &["ban", "add", "client", &id], &[0]);
    assert!(added.contains("connections closed: 1"), "{added}");
    // Its messages, and the end.
    device.read_to_end(&mut Vec::new()).unwrap();
    assert!(connect(cluster.port(B), &id).is_none(), "refused everywhere");
    assert_eq!(banned_on(&cluster, B, &id, 0), ["a", "b", "c"]);
    let story = asked(&cluster, A, &["why", "client", &id], 0);
    let events = story["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "connected" && event["node"] == "c"), "{story}");
    let reloaded = done(&cluster, A, &["reload"], &[0]);
    assert!(["node a: ", "node b: ", "node c: "].iter().all(|node| reloaded.contains(node)), "{reloaded}");

    let dead = cluster.nodes[C].take().unwrap();
    dead.signal("KILL");
    drop(dead.wait());
    let without = until("a list that names the dead node", || {
        let ended = run(&["clients", "--json", "--admin", cluster.node(A).address("admin=")]);
        (ended.code == Some(3)).then_some(ended)
    });
    assert!(without.out.contains(r#""unreachable":["c"]"#), "{}", without.out);
    assert!(without.err.contains("node c did not answer"), "{}", without.err);

    let (_, totals) = cluster.node(A).get("/api/v1/totals");
    let totals: Value = serde_json::from_str(&totals).unwrap();
    assert_eq!((&totals["nodes"][1]["node"], &totals["unreachable"][0]), (&"b".into(), &"c".into()), "{totals}");

    // Changes made while it is away are in force when it is back. The first answers name it, until others are in its place.
    done(&cluster, A, &["ban", "remove", "client", &id], &[3, 0]);
    done(&cluster, B, &["ban", "add", "client", "other"], &[3, 0]);
    // A node that starts while others take its place ends.
    cluster.wait_even();
    cluster.run(C);
    let nodes = until("the new ban on the node that is back", || {
        let nodes = asked(&cluster, A, &["ban", "list"], 0)["bans"].clone();
        let of = |name: &str| nodes.as_array().unwrap().iter().find(|ban| ban["name"] == name).cloned();
        let other = of("other").filter(|ban| ban["nodes"].as_array().map(Vec::len) == Some(3))?;
        of(&id).is_none().then_some(other["nodes"].clone())
    });
    assert_eq!(nodes, serde_json::json!(["a", "b", "c"]));
    assert!(connect(cluster.port(C), &id).is_some(), "the ban that was removed does not hold");
}

#[test]
fn sys_values_are_sums_and_name_a_silent_node() {
    let mut cluster = Cluster::durable_with(2, "10s", &["sys.interval=1s"]);
    let device = connect(cluster.port(B), &cluster.id_at(B, "device")).unwrap();
    let value = |topic: &str| cluster.client(A, &["sub", "-t", topic, "-C", "1", "-W", "120"]);
    assert_eq!(value("$SYS/brokers"), "a,b\n");
    until("a sum of the device and the subscriber", || (value("$SYS/broker/clients/connected") == "2\n").then_some(()));
    let (port, id) = (cluster.port(A).to_string(), cluster.id_at(A, "watcher"));
    let watch = ["sub", "-h", "127.0.0.1", "-p", &port, "-i", &id, "-t", "$SYS/brokers/b/state", "-W", "120"];
    let mut watcher = command(&watch).stdout(Stdio::piped()).spawn().unwrap();
    let mut states = BufReader::new(watcher.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(states.next().as_deref(), Some("running"));
    let dead = cluster.nodes[B].take().unwrap();
    dead.signal("KILL");
    drop((dead.wait(), device));
    assert!(states.any(|state| state == "silent"), "the watcher ended");
    watcher.kill().unwrap();
    watcher.wait().unwrap();
}
