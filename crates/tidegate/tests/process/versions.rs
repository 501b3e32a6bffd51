//! Content of data directories that earlier versions wrote, as exports in this repository: it is taken in and found
//! again entry by entry, and clients get their messages. A file is never written again; a new version of a record gets a
//! new file. `UPDATE_FIXTURES=1 cargo test -p tidegate --test process versions` writes the one of this version where it
//! is missing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::broker::{Broker, Ended, Folder, command, run};

/// The export of this version.
const CURRENT: &str = "entries-0.1.jsonl";

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

/// The state that the fixtures have: two sessions with subscriptions, queued messages at QoS 1 and 2, a member of a
/// shared group, and retained messages with and without properties.
fn export_of_this_version() -> String {
    let folder = Folder::new();
    let data = folder.file("data");
    let broker = Broker::start(&["--data", &data]);
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
    let exported = run(&["store", "export", &data]);
    assert_eq!(exported.code, Some(0), "{}", exported.err);
    exported.out
}

/// The lines of an export without the last, which has their checksum, and without texts for people.
fn pairs(export: &str) -> Vec<(String, String)> {
    let lines = export.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text = |line: &serde_json::Value, key: &str| line.get(key).map(ToString::to_string);
    lines.filter_map(|line| Some((text(&line, "key")?, text(&line, "value")?))).collect()
}

#[test]
fn exports_of_each_version_are_taken_in_with_exact_contents() {
    let current = fixtures().join(CURRENT);
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !current.exists() {
        std::fs::write(&current, export_of_this_version()).unwrap();
    }
    assert!(current.exists(), "UPDATE_FIXTURES=1 writes the export of this version");
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap();
        let folder = Folder::new();
        let data = folder.file("data");
        let mut import = command(&["store", "import", &data]).stdin(Stdio::piped()).spawn().unwrap();
        import.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(import.wait().unwrap().success(), "{}", path.display());
        let again = run(&["store", "export", &data]);
        assert!(!pairs(&lines).is_empty());
        assert_eq!(pairs(&again.out), pairs(&lines), "{}", path.display());
        let broker = Broker::start(&["--data", &data]);
        let owed = |id: &str, qos: &str, filter: &str, count: &str| {
            client(&broker, &["sub", "-i", id, "-c", "-q", qos, "-t", filter, "-C", count, "-W", "120", "-v"]).out
        };
        assert_eq!(owed("device", "1", "in/#", "2"), "in/a first\nin/b second\n", "{}", path.display());
        assert_eq!(owed("exact", "2", "in/b", "1"), "in/b second\n", "{}", path.display());
        assert_eq!(owed("member", "1", "$share/group/jobs", "1"), "jobs job\n", "{}", path.display());
        let kept = client(&broker, &["sub", "-t", "kept", "-C", "1", "-W", "120", "-v"]);
        assert_eq!(kept.out, "kept value\n");
        let typed = client(&broker, &["sub", "-t", "typed", "-C", "1", "-W", "120", "-V", "5", "-F", "%C %p"]);
        assert_eq!(typed.out, "application/json {}\n");
    }
}
