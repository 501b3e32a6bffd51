//! A pipeline whose sink is away for too long.

use std::sync::atomic::Ordering;

use super::{Server, lines, publish, status};
use crate::broker::{Broker, Folder};

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
    let dropped = lines(&out);
    assert_eq!(dropped.len() as u64, number(&settled["dropped"]["out"]), "each message waits or is a dead letter");
    for message in &dropped {
        assert_eq!(message["topic"], "dropped/queue_full_drop_oldest", "{message}");
        assert_eq!(message["user_properties"]["dead-letter-topic"], "t", "{message}");
    }
}
