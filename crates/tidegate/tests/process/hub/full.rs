//! A pipeline whose sink is away for too long.

use std::sync::atomic::Ordering;

use super::{Server, lines, publish, status};
use crate::broker::{Broker, Folder, run, until};

#[test]
fn messages_dropped_from_a_full_pipeline_are_dead_letters() {
    const ALL: u64 = 60;
    let (folder, server) = (Folder::new(), Server::start());
    server.status.store(503, Ordering::Release);
    let (out, url) = (folder.file("dropped.ndjson"), &server.url);
    let config = folder.write(
        "hub.toml",
        &format!(
            "[dead_letter]\ntopic = 'dropped'\n\
             [[sink]]\nname = 'web'\nkind = 'http'\nurl = '{url}'\n[[sink]]\nname = 'out'\npath = '{out}'\n\
             [[pipeline]]\nname = 'p'\nfrom = ['t']\nto = ['web']\nwindow = 1\nmax_bytes = '64KiB'\n\
             on_full = 'drop-oldest'\n\
             [[pipeline]]\nname = 'dropped'\nfrom = ['dropped/#']\nto = ['out']\n"
        ),
    );
    let broker = Broker::start(&["-c", &config, "--data", &folder.file("data")]);
    let filling = "x".repeat(4096);
    for number in 0..ALL {
        publish(&broker, "c", "t", &format!("{{\"n\":{number},\"x\":\"{filling}\"}}"));
    }
    let number = |it: &serde_json::Value| it.as_u64().unwrap_or_default();
    let settled = |it: &serde_json::Value| {
        let (left, dropped) = (number(&it["p"]["waiting"]), number(&it["dropped"]["out"]));
        left > 0 && dropped > 0 && left + dropped == ALL
    };
    let settled = status(&broker, settled);
    let (left, dropped) = (number(&settled["p"]["waiting"]), number(&settled["p"]["dropped"]));
    assert_eq!(left + dropped, ALL, "{settled}");
    let metrics = broker.get("/metrics").1;
    let line = format!("tidegate_hub_messages_total{{pipeline=\"p\",outcome=\"dropped\"}} {dropped}\n");
    assert!(metrics.contains(&line), "{line}: {metrics}");
    let why = run(&["why", "pipeline", "p", "--admin", broker.address("admin=")]).out;
    assert!(why.contains(&format!("dropped: {dropped} messages: its queue was full")), "{why}");
    let dropped = lines(&out);
    assert_eq!(dropped.len() as u64, number(&settled["dropped"]["out"]), "each message waits or is a dead letter");
    for message in &dropped {
        assert_eq!(message["topic"], "dropped/queue_full_drop_oldest", "{message}");
        assert_eq!(message["user_properties"]["dead-letter-topic"], "t", "{message}");
    }
}

#[test]
fn a_pipeline_leaves_the_topics_that_it_does_not_take_any_more() {
    let folder = Folder::new();
    let (out, data) = (folder.file("out.ndjson"), folder.file("data"));
    let start = |from: &str| {
        let text = format!(
            "[[sink]]\nname = 'out'\npath = '{out}'\n[[pipeline]]\nname = 'hot'\nfrom = {from}\nto = ['out']\n"
        );
        Broker::start(&["-c", &folder.write("hub.toml", &text), "--data", &data])
    };
    let filters = |broker: &Broker, wanted: &[&str]| {
        until("the filters of the session", || {
            let clients = broker.get("/api/v1/clients?containing=tidegate-hub-hot&filters=9").1;
            let clients: serde_json::Value = serde_json::from_str(&clients).unwrap_or_default();
            let filters = clients["clients"][0]["filters"].as_array()?;
            let mut filters: Vec<&str> = filters.iter().filter_map(serde_json::Value::as_str).collect();
            filters.sort_unstable();
            (filters == wanted).then_some(())
        });
    };
    let broker = start("['a/#', 'b', 'c']");
    filters(&broker, &["a/#", "b", "c"]);
    drop(broker);
    let broker = start("['b', 'd']");
    filters(&broker, &["b", "d"]);
    publish(&broker, "p", "a/1", "1");
    publish(&broker, "p", "d", "2");
    status(&broker, |it| it["hot"]["out"] == 1);
    assert_eq!(lines(&out).len(), 1);
}

#[test]
fn a_start_logs_messages_of_a_removed_pipeline() {
    let (folder, server) = (Folder::new(), Server::start());
    server.status.store(503, Ordering::Release);
    let (out, data, url) = (folder.file("out.ndjson"), folder.file("data"), &server.url);
    let pipeline = |name: &str, sink: &str| {
        let sinks =
            format!("[[sink]]\nname = 'web'\nkind = 'http'\nurl = '{url}'\n[[sink]]\nname = 'out'\npath = '{out}'\n");
        folder.write("hub.toml", &format!("{sinks}[[pipeline]]\nname = '{name}'\nfrom = ['t']\nto = ['{sink}']\n"))
    };
    let broker = Broker::start(&["-c", &pipeline("hot", "web"), "--data", &data]);
    publish(&broker, "c", "t", "{\"n\":1}");
    drop(broker);
    let start = |config: &[&str]| {
        let broker = Broker::start(&[config, &["--data", &data]].concat());
        broker.signal("TERM");
        broker.wait().err
    };
    let without = "messages wait for a pipeline that is not in the configuration";
    let other = start(&["-c", &pipeline("cold", "out")]);
    assert!(other.contains(without) && other.contains("pipeline=hot messages=1"), "{other}");
    let none = start(&[]);
    assert!(none.contains(without), "{none}");
    let same = start(&["-c", &pipeline("hot", "web")]);
    assert!(!same.contains(without), "{same}");
}
