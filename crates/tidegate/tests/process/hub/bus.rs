//! Pipelines over a bus: the broker brings messages there, and processes of `tidegate hub` share the work.

use std::collections::BTreeMap;

use super::*;
use crate::nats::Nats;

/// A configuration that the broker and the processes of the hub share.
fn shared(folder: &Folder, nats: &Nats, server: &Server, more: &str) -> String {
    shared_on(folder, (&nats.address(), "1s"), server, more)
}

/// The same on any bus, with a lease.
fn shared_on(folder: &Folder, (bus, lease): (&str, &str), server: &Server, more: &str) -> String {
    folder.write(
        "hub.toml",
        &format!(
            "[cluster]\nlease = \"{lease}\"\n[hub]\nbus = \"{bus}\"\npartitions = 4\n\
             [[sink]]\nname = \"web\"\nkind = \"http\"\nurl = \"{}\"\nretry_min = \"10ms\"\nretry_max = \"100ms\"\n\
             [[pipeline]]\nname = \"p\"\nsql = \"SELECT payload.n AS n, topic FROM 'plant/+/temp'\"\nto = [\"web\"]\n{more}",
            server.url
        ),
    )
}

/// A process of the hub that takes messages.
fn member(config: &str, name: &str) -> Broker {
    let member = Broker::start_with(&["hub", "-c", config, "--member", name, "--admin", "127.0.0.1:0"]);
    status(&member, |it| it["p"]["state"] == "running");
    member
}

/// Waits until as many publications are acknowledged.
fn wait_for(books: &Mutex<BTreeSet<u64>>, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while books.lock().unwrap().len() < count {
        assert!(Instant::now() < deadline);
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

impl Server {
    /// Numbers in the order in which they came for the first time, of each topic, once all of `wanted` are there.
    fn firsts(&self, wanted: &BTreeSet<u64>) -> BTreeMap<String, Vec<u64>> {
        let (mut seen, mut firsts) = (BTreeSet::new(), BTreeMap::<String, Vec<u64>>::new());
        while !wanted.is_subset(&seen) {
            let missing = wanted.difference(&seen).count();
            let batch = self.taken.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{missing} are missing"));
            for record in batch.as_array().unwrap() {
                let number = record["n"].as_u64().unwrap();
                if seen.insert(number) {
                    firsts.entry(record["topic"].as_str().unwrap().to_owned()).or_default().push(number);
                }
            }
        }
        firsts
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_hub_bus_and_broker_die() {
    const ALL: u64 = 6_000;
    let (folder, server, mut nats) = (Folder::new(), Server::start(), Nats::start());
    let config = shared(&folder, &nats, &server, "");
    let data = folder.file("data");
    let broker = Broker::start(&["-c", &config, "--data", &data]);
    let (one, other) = (member(&config, "one"), member(&config, "other"));
    let books = Arc::new(Mutex::new(BTreeSet::new()));
    let publisher = {
        let (books, address) = (Arc::clone(&books), broker.address("mqtt://").to_owned());
        std::thread::spawn(move || publish_numbers(&address, 0..ALL, &books))
    };
    wait_for(&books, 500);
    one.signal("KILL");
    one.wait();
    wait_for(&books, 1_500);
    nats.kill();
    nats.resume();
    wait_for(&books, 2_500);
    broker.signal("KILL");
    broker.wait();
    publisher.join().unwrap();
    let broker = Broker::start(&["-c", &config, "--data", &data]);
    publish_numbers(broker.address("mqtt://"), ALL..ALL + 1_000, &books);
    let all = books.lock().unwrap().clone();
    assert!(all.len() >= 3_500, "{}", all.len());
    for (topic, numbers) in server.firsts(&all) {
        assert!(numbers.is_sorted(), "{topic}: {numbers:?}");
    }
    status(&broker, |it| it["p"]["waiting"] == 0);
    status(&other, |it| it["p"]["waiting"] == 0 && it["p"]["state"] == "running");
}

#[test]
fn an_order_at_one_process_of_the_hub_holds_for_all() {
    let (folder, server, nats) = (Folder::new(), Server::start(), Nats::start());
    let config = shared(&folder, &nats, &server, "keep = \"1h\"\n");
    let broker = Broker::start(&["-c", &config, "--data", &folder.file("data")]);
    let (one, other) = (member(&config, "one"), member(&config, "other"));
    let order = |at: &Broker, words: &[&str]| {
        let admin = format!("http://{}", at.address("admin=http://"));
        let ended = run(&[words, &["--admin", &admin]].concat());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        ended.out
    };
    let books = Mutex::new(BTreeSet::new());
    publish_numbers(broker.address("mqtt://"), 0..50, &books);
    server.wait_for((0..50).collect());
    order(&one, &["hub", "replay", "p", "--from", "1h"]);
    server.wait_for((0..50).collect());
    order(&one, &["hub", "pause", "p"]);
    status(&other, |it| it["p"]["state"] == "paused");
    assert!(order(&other, &["why", "pipeline", "p"]).contains("p is paused"));
    publish_numbers(broker.address("mqtt://"), 50..60, &books);
    status(&broker, |it| it["p"]["waiting"] == 0);
    order(&other, &["hub", "resume", "p"]);
    status(&one, |it| it["p"]["state"] == "running");
    server.wait_for((50..60).collect());
    let unknown =
        run(&["hub", "replay", "p", "--from", "1h", "--admin", &format!("http://{}", broker.address("admin=http://"))]);
    assert!(unknown.code == Some(1) && unknown.err.contains("keeps no delivered messages"), "{}", unknown.err);
}

#[test]
fn a_log_full_of_delivered_messages_takes_more() {
    let nats = Nats::start();
    takes_more_than_its_bytes((&nats.address(), "1s"));
}

/// On Kafka no log is full, and nothing makes room: all messages come, and a replay has all of them.
#[cfg(feature = "kafka")]
#[test]
fn a_log_on_kafka_keeps_more_than_its_bytes() {
    use crate::cluster::{Bus, kafka::Kafka};
    let kafka = Kafka::start();
    let (server, member) = takes_more_than_its_bytes((&kafka.address(), "30s"));
    let admin = format!("http://{}", member.0.address("admin=http://"));
    let ended = run(&["hub", "replay", "p", "--from", "1h", "--admin", &admin]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    server.wait_for((0..MORE_THAN_THE_LOG).collect());
}

/// Messages of 100,000 bytes: three times as many as a log of 4 MiB has room for.
const MORE_THAN_THE_LOG: u64 = 120;

/// Brings more through a log than its bytes, with a process of the hub that delivers it. The log would keep all for an hour.
fn takes_more_than_its_bytes(bus: (&str, &str)) -> (Server, (Broker, Broker, Folder)) {
    let (folder, server) = (Folder::new(), Server::start());
    // Each partition has room for a megabyte.
    let more = "keep = \"1h\"\nmax_bytes = \"4MiB\"\non_full = \"reject\"\n";
    let config = shared_on(&folder, bus, &server, more);
    let broker = Broker::start(&["-c", &config, "--data", &folder.file("data")]);
    let member = member(&config, "one");
    let filling = "x".repeat(100_000);
    for number in 0..MORE_THAN_THE_LOG {
        publish(
            &broker,
            "c",
            &format!("plant/{}/temp", number % 7),
            &format!("{{\"n\":{number},\"x\":\"{filling}\"}}"),
        );
    }
    server.wait_for((0..MORE_THAN_THE_LOG).collect());
    status(&broker, |it| it["p"]["waiting"] == 0 && it["p"]["out"] == MORE_THAN_THE_LOG);
    status(&member, |it| it["p"]["waiting"] == 0 && it["p"]["dropped"] == 0 && it["p"]["failed"] == 0);
    (server, (member, broker, folder))
}
