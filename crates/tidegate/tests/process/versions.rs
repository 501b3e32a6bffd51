//! Content of data directories that earlier versions wrote, as exports in this repository: it is taken in and found
//! again entry by entry, and clients get their messages. A file is never written again; a new version of a record gets a
//! new file. `UPDATE_FIXTURES=1 cargo test -p tidegate --test process versions` writes the one of this version where it
//! is missing.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::broker::{Broker, Ended, Folder, command, run};

/// A kind of fixtures, whose files begin with the same word.
struct Kind {
    word: &'static str,
    /// The export of this version.
    current: &'static str,
    /// The flags of a broker with such data.
    flags: &'static [&'static str],
    write: fn(&Kind, &str),
    expect: fn(&Broker),
}

const CURRENT: [Kind; 2] = [
    Kind { word: "entries", current: "entries-0.1.jsonl", flags: &[], write: write_sessions, expect: expect_sessions },
    Kind {
        word: "nodes",
        current: "nodes-2.jsonl",
        flags: &["--set", "addresses.enabled=true", "--set", "addresses.guarded=false"],
        write: write_nodes,
        expect: expect_nodes,
    },
];

impl Kind {
    fn start(&self, data: &str) -> Broker {
        Broker::start(&[&["--data", data], self.flags].concat())
    }

    fn export_of_this_version(&self) -> String {
        let folder = Folder::new();
        let data = folder.file("data");
        (self.write)(self, &data);
        let exported = run(&["store", "export", &data]);
        assert_eq!(exported.code, Some(0), "{}", exported.err);
        exported.out
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/fixtures")
}

/// Runs a client command against a broker.
fn client(broker: &Broker, arguments: &[&str]) -> Ended {
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    let ended = run(&[&arguments[..1], &["-h", host, "-p", port], &arguments[1..]].concat());
    assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
    ended
}

/// Two sessions with subscriptions, queued messages at QoS 1 and 2, a member of a shared group, and retained messages
/// with and without properties.
fn write_sessions(kind: &Kind, data: &str) {
    let broker = kind.start(data);
    client(&broker, &["sub", "-i", "device", "-c", "-q", "1", "-t", "in/#", "-t", "other/+", "-E"]);
    client(&broker, &["sub", "-i", "exact", "-c", "-q", "2", "-t", "in/b", "-E"]);
    client(&broker, &["sub", "-i", "member", "-c", "-q", "1", "-t", "$share/group/jobs", "-E"]);
    client(&broker, &["pub", "-q", "1", "-t", "in/a", "-m", "first"]);
    client(&broker, &["pub", "-q", "2", "-t", "in/b", "-m", "second"]);
    client(&broker, &["pub", "-q", "1", "-t", "jobs", "-m", "job"]);
    client(&broker, &["pub", "-q", "1", "-r", "-t", "kept", "-m", "value"]);
    client(
        &broker,
        &[
            "pub",
            "-q",
            "0",
            "-r",
            "-t",
            "typed",
            "-m",
            "{}",
            "-V",
            "5",
            "-D",
            "publish",
            "content-type",
            "application/json",
        ],
    );
    broker.signal("TERM");
    broker.wait();
}

fn expect_sessions(broker: &Broker) {
    let owed = |id: &str, qos: &str, filter: &str, count: &str| {
        client(broker, &["sub", "-i", id, "-c", "-q", qos, "-t", filter, "-C", count, "-W", "120", "-v"]).out
    };
    assert_eq!(owed("device", "1", "in/#", "2"), "in/a first\nin/b second\n");
    assert_eq!(owed("exact", "2", "in/b", "1"), "in/b second\n");
    assert_eq!(owed("member", "1", "$share/group/jobs", "1"), "jobs job\n");
    assert_eq!(client(broker, &["sub", "-t", "kept", "-C", "1", "-W", "120", "-v"]).out, "kept value\n");
    let typed = client(broker, &["sub", "-t", "typed", "-C", "1", "-W", "120", "-V", "5", "-F", "%C %p"]);
    assert_eq!(typed.out, "application/json {}\n");
}

/// Sessions of mobile nodes: one with an addressed message, one that lasts with a message of a subscription, and one
/// with a will whose client was connected when the broker died.
fn write_nodes(kind: &Kind, data: &str) {
    let broker = kind.start(data);
    client(&broker, &["sub", "-V", "5", "-i", "truck", "-t", "unused", "-E"]);
    client(&broker, &["pub", "-V", "5", "-q", "1", "-t", "ctx/to/node/truck/route", "-m", "north"]);
    client(&broker, &["sub", "-V", "5", "-i", "lasting", "-c", "-x", "4294967295", "-q", "1", "-t", "in/#", "-E"]);
    client(&broker, &["pub", "-q", "1", "-r", "-t", "in/a", "-m", "first"]);
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    let will = ["--will-topic", "gone", "--will-payload", "bye", "--will-qos", "1", "--will-retain"];
    let arguments = [&["sub", "-h", host, "-p", port, "-i", "willing", "-t", "in/a"], &will[..]].concat();
    let mut willing = command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    // It is connected when it has the retained message.
    let mut line = String::new();
    BufReader::new(willing.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    broker.signal("KILL");
    broker.wait();
    willing.kill().unwrap();
    willing.wait().unwrap();
}

/// The addressed message has expired since; its record is read all the same.
fn expect_nodes(broker: &Broker) {
    let lasting = ["sub", "-V", "5", "-i", "lasting", "-c", "-x", "4294967295", "-q", "1", "-t", "in/#"];
    let owed = client(broker, &[&lasting[..], &["-C", "1", "-W", "120", "-v"]].concat());
    assert_eq!(owed.out, "in/a first\n");
    assert_eq!(client(broker, &["sub", "-t", "gone", "-C", "1", "-W", "120", "-v"]).out, "gone bye\n");
}

/// The lines of an export without the last, which has their checksum, and without texts for people.
fn pairs(export: &str) -> Vec<(String, String)> {
    let lines = export.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text = |line: &serde_json::Value, key: &str| line.get(key).map(ToString::to_string);
    lines.filter_map(|line| Some((text(&line, "key")?, text(&line, "value")?))).collect()
}

#[test]
fn exports_of_each_version_are_taken_in_with_exact_contents() {
    for kind in &CURRENT {
        let current = fixtures().join(kind.current);
        if std::env::var_os("UPDATE_FIXTURES").is_some() && !current.exists() {
            std::fs::write(&current, kind.export_of_this_version()).unwrap();
        }
        assert!(current.exists(), "UPDATE_FIXTURES=1 writes the export of this version");
    }
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        eprintln!("{}", path.display());
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = CURRENT.iter().find(|kind| name.starts_with(kind.word)).unwrap();
        let lines = std::fs::read_to_string(&path).unwrap();
        let folder = Folder::new();
        let data = folder.file("data");
        let mut import = command(&["store", "import", &data]).stdin(Stdio::piped()).spawn().unwrap();
        import.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(import.wait().unwrap().success());
        let again = run(&["store", "export", &data]);
        assert!(!pairs(&lines).is_empty());
        assert_eq!(pairs(&again.out), pairs(&lines));
        (kind.expect)(&kind.start(&data));
    }
}
