//! The built `tidegate-lab` as scripts meet it, without a broker.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A scenario of a second.
const SHORT: &str = include_str!("short.toml");

/// How a command ended.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs `tidegate-lab` to its end.
fn run(arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate-lab")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A directory that is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-lab-command-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.file(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn an_unknown_scenario_is_answered_by_the_list() {
    let listed = run(&["list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert!(listed.as_array().unwrap().iter().any(|scenario| scenario["name"] == "pi-ladder"));
    let folder = Folder::new();
    let unknown = run(&["run", "nothing", "--peer", "tidegate", "--out", &folder.file("out")]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("pi-ladder"), "{}", unknown.err);
}

#[test]
fn a_wrong_command_line_starts_nothing() {
    let folder = Folder::new();
    let (scenario, out) = (folder.write("wrong.toml", &SHORT.replace("topics =", "topic =")), folder.file("out"));
    let misspelt = run(&["run", &scenario, "--peer", "tidegate", "--out", &out]);
    assert_eq!(misspelt.code, Some(2), "{}", misspelt.err);
    assert!(misspelt.err.contains("line ") && misspelt.err.contains("did you mean `topics`?"), "{}", misspelt.err);
    let wrong = [&["--peer", "tidegate", "--peer", "tidegate"][..], &["--peer", "tidegate", "--base", "mosquitto"]];
    for peers in wrong {
        let refused = run(&[&["run", "smoke", "--out", &out], peers].concat());
        assert_eq!(refused.code, Some(2), "{peers:?}: {}", refused.err);
    }
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn a_run_without_a_connected_client_fails() {
    let folder = Folder::new();
    let (scenario, out) = (folder.write("short.toml", SHORT), folder.file("out"));
    let alone = run(&["run", &scenario, "--peer", "mqtt://me:secret@127.0.0.1:1", "--out", &out]);
    assert_eq!(alone.code, Some(1), "{}", alone.err);
    assert!(alone.err.contains("no client got into the broker at mqtt://***@127.0.0.1:1"), "{}", alone.err);
    assert!(alone.err.contains("a connection could not be made: Connection refused"), "{}", alone.err);
    for file in ["report.html", "results.json", "results.csv", "series.json"] {
        let text = fs::read_to_string(folder.file(&format!("out/{file}"))).unwrap();
        assert!(!text.contains("secret"), "{file}");
    }
}
