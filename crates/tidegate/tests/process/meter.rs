//! `tidegate meter`: usage by tenant and by user, and records of it on a bus, over restarts and `kill -9`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tidegate_bus::{Bus, LogName, LogPartition, LogSpec, Position, Settings};

use crate::broker::{Broker, Ended, Folder, PATIENCE, run};
use crate::nats::Nats;

/// Publishes this number of messages of QoS 1 through a listener.
fn publish(broker: &Broker, listener: usize, count: usize) {
    publish_as(broker, listener, count, &[]);
}

fn publish_as(broker: &Broker, listener: usize, count: usize, flags: &[&str]) {
    publish_to(broker, listener, &vec!["a"; count], flags);
}

fn publish_to(broker: &Broker, listener: usize, topics: &[&str], flags: &[&str]) {
    let mut addresses = broker.ready.split_whitespace().filter(|word| word.starts_with("mqtt://"));
    let (host, port) = addresses.nth(listener).unwrap()["mqtt://".len()..].rsplit_once(':').unwrap();
    for topic in topics {
        let ended = run(&[&["pub", "-h", host, "-p", port, "-q", "1", "-t", topic, "-m", "x"][..], flags].concat());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    }
}

fn meter(broker: &Broker, flags: &[&str]) -> Ended {
    let admin = format!("http://{}", broker.address("admin=http://"));
    let ended = run(&[&["meter", "--admin", &admin][..], flags].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    ended
}

/// The messages that a tenant has sent, and its bytes.
fn used(broker: &Broker, tenant: &str) -> (u64, u64) {
    let list: serde_json::Value = serde_json::from_str(&meter(broker, &["--json"]).out).unwrap();
    let list = list.as_array().unwrap();
    let one = list.iter().find(|usage| usage["tenant"] == tenant);
    one.map_or((0, 0), |usage| {
        assert!(usage["connection_minutes"].is_number() && usage["sink_deliveries"].is_u64(), "{usage}");
        (usage["messages_in"].as_u64().unwrap(), usage["bytes_in"].as_u64().unwrap())
    })
}

const TENANTS: &str = "
[node]
shards = 2
[[listener]]
name = 'own'
address = '127.0.0.1:0'
[[listener]]
name = 'acme'
address = '127.0.0.1:0'
[[tenant]]
name = 'acme'
listeners = ['acme']
";

#[test]
fn usage_that_was_shown_survives_kill_9_and_counts_once() {
    let folder = Folder::new();
    let (config, data) = (folder.write("t.toml", TENANTS), folder.file("data"));
    let start = || Broker::start_with(&["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"]);
    let broker = start();
    publish(&broker, 0, 2);
    publish(&broker, 1, 3);
    let shown = (used(&broker, "default"), used(&broker, "acme"));
    assert_eq!((shown.0.0, shown.1.0), (2, 3));
    assert!(shown.0.1 > 0 && shown.1.1 > shown.0.1, "{shown:?}");
    broker.signal("KILL");
    broker.wait();

    let broker = start();
    assert_eq!((used(&broker, "default"), used(&broker, "acme")), shown);
    publish(&broker, 1, 4);
    // The last four were not asked for: the broker books them when it stops.
    broker.signal("TERM");
    assert_eq!(broker.wait().code, Some(0));

    let broker = start();
    assert_eq!((used(&broker, "default").0, used(&broker, "acme").0), (2, 7));
    let metrics = broker.get("/metrics").1;
    assert!(!metrics.contains("tidegate_tenant_messages_total{tenant=\"acme\""), "nothing was used since the start");
}

#[test]
fn stored_messages_are_in_the_books_at_once() {
    let folder = Folder::new();
    let (config, data) = (folder.write("t.toml", TENANTS), folder.file("data"));
    let start = || Broker::start_with(&["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"]);
    let broker = start();
    // The acknowledgement of a retained message waits for the store, also where its home is the other shard.
    publish_as(&broker, 0, 2, &["-r"]);
    publish_to(&broker, 1, &["a", "b", "c", "d"], &["-r"]);
    broker.signal("KILL");
    broker.wait();
    for _ in 0..2 {
        let broker = start();
        assert_eq!((used(&broker, "default").0, used(&broker, "acme").0), (2, 4));
        broker.signal("KILL");
        broker.wait();
    }
    let broker = start();
    publish_as(&broker, 1, 3, &["-r"]);
    broker.signal("KILL");
    broker.wait();
    let broker = start();
    assert_eq!((used(&broker, "default").0, used(&broker, "acme").0), (2, 7));
}

#[test]
fn a_price_list_makes_an_invoice() {
    let folder = Folder::new();
    let prices = folder.write("prices.toml", "currency = 'EUR'\n[price]\nbase = 5\nmillion_messages_in = 1000000\n");
    let broker = Broker::start(&[]);
    publish(&broker, 0, 2);
    let invoice = meter(&broker, &["--from", "1h", "--by", "tenant", "--csv", "--prices", &prices]).out;
    assert_eq!(
        invoice,
        "tenant,item,quantity,price,amount,currency\n\
         default,base,1,5,5.00,EUR\n\
         default,million_messages_in,0.000002,1000000,2.00,EUR\n\
         default,total,,,7.00,EUR\n"
    );
    let none = meter(&broker, &["--to", "2020-01-01"]);
    assert_eq!(none.out, "no tenant has used anything in this time\n");
    assert!(none.err.contains("has no data directory"), "{}", none.err);
}

/// A configuration with the users alice and bob.
fn config_of_users(folder: &Folder, name: &str, counts_users: bool) -> String {
    let users = folder.write("users", "");
    for name in ["alice", "bob"] {
        let ended = run(&["passwd", "-b", "-H", "sha512-pbkdf2", "-I", "100", &users, name, "secret"]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    let text = format!(
        "[node]\nshards = 2\n[hub]\nusage_by_user = {counts_users}\n[[auth]]\nkind = 'password-file'\nfile = {users:?}\n\
         [access]\ndefault = 'allow'\n[[listener]]\naddress = '127.0.0.1:0'\nallow_anonymous = true\n"
    );
    folder.write(name, &text)
}

/// The messages of each user in the books.
fn sent(broker: &Broker) -> BTreeMap<String, u64> {
    let list: Vec<serde_json::Value> = serde_json::from_str(&meter(broker, &["--by", "user", "--json"]).out).unwrap();
    let of = |usage: &serde_json::Value| {
        assert_eq!(usage["tenant"], "default");
        (usage["user"].as_str().unwrap().to_owned(), usage["messages_in"].as_u64().unwrap())
    };
    list.iter().map(of).collect()
}

#[test]
fn a_run_that_counts_no_users_leaves_their_books_alone() {
    let folder = Folder::new();
    let data = folder.file("data");
    let [on, off] =
        [("on.toml", true), ("off.toml", false)].map(|(name, counts)| config_of_users(&folder, name, counts));
    let start = |config: &str| Broker::start_with(&["--config", config, "--data", &data, "--admin", "127.0.0.1:0"]);
    // An acknowledged retained message is in the store, and its usage with it.
    for (config, messages) in [(&on, 2), (&off, 5), (&off, 7)] {
        let broker = start(config);
        publish_as(&broker, 0, messages, &["-u", "alice", "-P", "secret", "-r"]);
        broker.signal("KILL");
        broker.wait();
    }
    let broker = start(&on);
    assert_eq!(used(&broker, "default").0, 14, "the books of tenants have all of them");
    publish_as(&broker, 0, 3, &["-u", "alice", "-P", "secret", "-r"]);
    assert_eq!(sent(&broker), [("alice".to_owned(), 5)].into());
}

#[test]
fn usage_by_user_survives_kill_9_and_counts_once() {
    let folder = Folder::new();
    let (config, data) = (config_of_users(&folder, "t.toml", true), folder.file("data"));
    let start = || Broker::start_with(&["--config", &config, "--data", &data, "--admin", "127.0.0.1:0"]);
    let sums =
        |alice, bob, unnamed| [(String::new(), unnamed), ("alice".to_owned(), alice), ("bob".to_owned(), bob)].into();
    let broker = start();
    publish_as(&broker, 0, 2, &["-u", "alice", "-P", "secret"]);
    publish_as(&broker, 0, 3, &["-u", "bob", "-P", "secret"]);
    publish_as(&broker, 0, 1, &[]);
    assert_eq!(sent(&broker), sums(2, 3, 1));
    assert_eq!(used(&broker, "default").0, 6, "the books of tenants have all of them");
    broker.signal("KILL");
    broker.wait();
    let broker = start();
    assert_eq!(sent(&broker), sums(2, 3, 1));
    publish_as(&broker, 0, 4, &["-u", "alice", "-P", "secret"]);
    broker.signal("TERM");
    assert_eq!(broker.wait().code, Some(0));
    let broker = start();
    assert_eq!(sent(&broker), sums(6, 3, 1));
}

#[test]
fn usage_by_user_has_to_be_configured() {
    let broker = Broker::start(&[]);
    let admin = format!("http://{}", broker.address("admin=http://"));
    let ended = run(&["meter", "--by", "user", "--admin", &admin]);
    assert!(ended.code == Some(1) && ended.err.contains("hub.usage_by_user = true"), "{}", ended.err);
}

/// Waits until the records on the bus add up to this number of messages of all nodes. Returns the sum of each node.
fn wait_for_records(nats: &Nats, messages: u64) -> BTreeMap<String, u64> {
    let bus = Bus::open(&nats.address().parse().unwrap(), Settings::default(), Arc::new(|_| {})).unwrap();
    let log = LogName::new("usage").unwrap();
    // The broker makes it with the same limits.
    let spec = LogSpec {
        max_records: 1_000_000,
        max_bytes: 256 << 20,
        keep_for: Some(Duration::from_secs(62 * 24 * 3600)),
        ..LogSpec::shared(log.clone(), 1).latest_of_key()
    };
    let (tell, made) = channel();
    bus.create(spec, Box::new(move |outcome| _ = tell.send(outcome))).unwrap();
    made.recv_timeout(PATIENCE).unwrap().unwrap();
    let (wake, woken) = channel();
    let mut reader =
        bus.read(&LogPartition::new(log, 0), Position::START, Arc::new(move || _ = wake.send(()))).unwrap();
    let mut records = BTreeMap::new();
    loop {
        for record in reader.take(256).unwrap().records {
            let value: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
            records.insert(record.key.clone(), value);
        }
        let mut nodes = BTreeMap::new();
        for record in records.values() {
            let node = record["node"].as_str().unwrap().to_owned();
            *nodes.entry(node).or_default() += record["messages_in"].as_u64().unwrap();
        }
        let sum: u64 = nodes.values().sum();
        assert!(sum <= messages, "{nodes:?}");
        if sum == messages {
            return nodes;
        }
        woken.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{nodes:?} is not {messages}"));
    }
}

#[test]
fn records_of_usage_on_nats_are_exact_after_kill_9() {
    let (folder, mut nats) = (Folder::new(), Nats::start());
    let config = folder.write("t.toml", &format!("[hub]\nusage = true\nbus = \"{}\"\n", nats.address()));
    let start = |data: &str| {
        let listen = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        Broker::start_with(&[&["--config", &config, "--data", &folder.file(data)][..], &listen].concat())
    };
    let (one, other) = (start("one"), start("other"));
    publish(&one, 0, 3);
    publish(&other, 0, 2);
    assert_eq!(wait_for_records(&nats, 5).len(), 2, "each node has records of its own");
    publish(&one, 0, 4);
    assert_eq!(used(&one, "default").0, 7);
    one.signal("KILL");
    one.wait();
    nats.kill();
    publish(&other, 0, 1);
    nats.resume();
    let one = start("one");
    publish(&one, 0, 10);
    let nodes = wait_for_records(&nats, 20);
    assert_eq!(nodes.into_values().collect::<std::collections::BTreeSet<_>>(), [3, 17].into());
    assert_eq!(used(&one, "default").0, 17);
}
