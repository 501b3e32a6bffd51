//! Brokers whose store is on a real NATS server, which each test starts for itself.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::broker::{Broker, Ended, Folder, command, run};
use crate::nats::Nats;

impl Nats {
    fn broker(&self, data: &str) -> Broker {
        let bus = self.address();
        Broker::start(&["--data", data, "--mirror", &bus, "--mirror-name", "a"])
    }
}

/// Runs a client command against a broker.
fn client(broker: &Broker, arguments: &[&str]) -> Ended {
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    run(&[&arguments[..1], &["-h", host, "-p", port], &arguments[1..]].concat())
}

fn owe(broker: &Broker, payload: &str) {
    let published = client(broker, &["pub", "-q", "1", "-t", "in/a", "-m", payload]);
    assert_eq!((published.code, published.err.as_str()), (Some(0), ""));
}

fn subscribe(broker: &Broker) {
    let subscribed = client(broker, &["sub", "-i", "device", "-c", "-q", "1", "-t", "in/#", "-E"]);
    assert_eq!(subscribed.code, Some(0), "{}", subscribed.err);
}

fn fetch(broker: &Broker, count: &str) -> String {
    let arguments = ["sub", "-i", "device", "-c", "-q", "1", "-t", "in/#", "-C", count, "-W", "120", "-v"];
    let owed = client(broker, &arguments);
    assert_eq!(owed.code, Some(0), "{}", owed.err);
    owed.out
}

#[test]
fn a_broker_continues_elsewhere_when_its_machine_is_gone() {
    let (nats, folder) = (Nats::start(), Folder::new());
    let (here, there) = (folder.file("here"), folder.file("there"));
    let broker = nats.broker(&here);
    subscribe(&broker);
    owe(&broker, "one");
    broker.signal("KILL");
    broker.wait();
    std::fs::remove_dir_all(&here).unwrap();
    let broker = nats.broker(&there);
    owe(&broker, "two");
    broker.signal("TERM");
    assert_eq!(broker.wait().code, Some(0));
    let broker = nats.broker(&here);
    assert_eq!(fetch(&broker, "2"), "in/a one\nin/a two\n");
}

#[test]
fn a_process_that_lost_its_files_to_another_stops() {
    let (nats, folder) = (Nats::start(), Folder::new());
    let older = nats.broker(&folder.file("older"));
    subscribe(&older);
    owe(&older, "one");
    let newer = nats.broker(&folder.file("newer"));
    // The older one learns of it with the next thing that it has to keep, and does not acknowledge that.
    let (host, port) = older.address("mqtt://").rsplit_once(':').unwrap();
    let refused = run(&["pub", "-h", host, "-p", port, "-q", "1", "-t", "in/a", "-m", "never"]);
    assert_ne!(refused.code, Some(0), "{}", refused.out);
    let ended = older.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("another process has taken store-a"), "{}", ended.err);
    owe(&newer, "two");
    assert_eq!(fetch(&newer, "2"), "in/a one\nin/a two\n");
}

#[test]
fn a_broker_stops_though_the_bus_is_away() {
    let (mut nats, folder) = (Nats::start(), Folder::new());
    let broker = nats.broker(&folder.file("data"));
    subscribe(&broker);
    owe(&broker, "one");
    nats.kill();
    broker.signal("TERM");
    // Its acknowledged messages were confirmed before.
    assert_eq!(broker.wait().code, Some(0));
}

#[test]
fn the_needs_of_a_mirror_are_reported() {
    for (arguments, said) in [
        (&["--mirror", "nats://127.0.0.1:1"][..], "--mirror-name"),
        (&["--mirror", "nats://127.0.0.1:1", "--mirror-name", "a"], "--data"),
        (&["--mirror-name", "a"], "--mirror"),
    ] {
        let ended = run(&[&["--listen", "127.0.0.1:0", "--admin", "off"], arguments].concat());
        assert!(ended.code != Some(0) && ended.err.contains(said), "{said}: {}", ended.err);
    }
}

#[test]
fn a_broker_that_waits_for_the_bus_of_its_store_can_be_ended() {
    let folder = Folder::new();
    let data = folder.file("data");
    // No process listens at port 1.
    let mut command = command(&["--data", &data, "--mirror", "nats://127.0.0.1:1", "--mirror-name", "a"]);
    let mut broker = command
        .args(["--listen", "127.0.0.1:0", "--admin", "off"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(broker.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(log.any(|line| line.contains("fetching the files of the store")));
    let told = Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &broker.id().to_string()]).status().unwrap();
    assert!(told.success());
    let rest: Vec<String> = log.collect();
    assert_eq!(broker.wait().unwrap().code(), Some(0), "{rest:#?}");
}
