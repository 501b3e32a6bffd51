//! Windows of pipelines.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::{lines, publish_numbers, status};
use crate::broker::{Broker, Folder, until};

#[test]
fn a_window_has_all_acknowledged_messages_after_kill_9() {
    const ALL: u64 = 500;
    let folder = Folder::new();
    let (out, data) = (folder.file("out.ndjson"), folder.file("data"));
    let text = format!(
        "[[sink]]\nname = 'out'\npath = '{out}'\n[[pipeline]]\nname = 'p'\nevery = '5s'\nto = ['out']\n\
         sql = \"SELECT window_start, topic, count(*) AS n, sum(payload.n) AS sum FROM 'plant/+/temp' GROUP BY topic\"\n"
    );
    let config = folder.write("hub.toml", &text);
    let broker = Broker::start(&["-c", &config, "--data", &data]);
    let books = Mutex::new(BTreeSet::new());
    publish_numbers(broker.address("mqtt://"), 0..ALL, &books);
    let numbers = books.into_inner().unwrap();
    assert_eq!(numbers.len() as u64, ALL);
    broker.signal("KILL");
    broker.wait();
    let broker = Broker::start(&["-c", &config, "--data", &data]);
    status(&broker, |it| it["p"]["waiting"] == 0 && it["p"]["state"] == "running");
    let field = |name: &str| lines(&out).iter().map(|line| line[name].as_u64().unwrap()).sum::<u64>();
    // A window that ended before the kill may have been written twice.
    until("all messages in records", || (field("n") >= ALL).then_some(()));
    assert!(field("sum") >= numbers.iter().sum::<u64>());
    assert!(lines(&out).len() < 100, "a record of each group and window: {:?}", lines(&out));
}
