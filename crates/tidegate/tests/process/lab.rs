//! `tidegate lab` as scripts meet it, with a broker. It starts `tidegate-lab`, which lies beside `tidegate` after
//! `cargo build --workspace` or `cargo test --workspace`.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::broker::{Broker, Folder, pause, run};

/// How long a process may take that others keep from the processor.
const PATIENCE: Duration = Duration::from_secs(120);

/// A scenario of a second.
const SHORT: &str = include_str!("../../../lab/tests/short.toml");

/// The answer of one finding of a probe.
fn answer<'a>(probed: &'a Value, id: &str) -> &'a Value {
    let findings = probed["findings"].as_array().unwrap();
    &findings.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("{id} is missing"))["answer"]
}

#[test]
fn a_probe_finds_abilities_and_their_absence() {
    let broker = Broker::start(&["--set", "retained.available=false", "--set", "listener.0.maximum_qos=1"]);
    let address = format!("mqtt://{}", broker.address("mqtt://"));
    let probed = run(&["lab", "probe", &address, "--json"]);
    assert_eq!(probed.code, Some(0), "{}", probed.err);
    let probed: Value = serde_json::from_str(&probed.out).unwrap();
    assert_eq!(probed["schema"], "tidegate-lab/probe/1");
    for there in
        ["mqtt-3.1", "mqtt-3.1.1", "mqtt-5", "qos-1", "shared", "will", "queued", "takeover", "user-properties"]
    {
        assert_eq!(answer(&probed, there), "yes", "{there}");
    }
    assert_ne!(answer(&probed, "qos-2"), "yes");
    assert_ne!(answer(&probed, "retained"), "yes");
    assert_eq!(answer(&probed, "retain-available"), "no");
    assert_eq!(answer(&probed, "maximum-qos"), &serde_json::json!({ "value": "1" }));
}

#[test]
fn a_probe_of_no_broker_fails_and_of_no_address_is_misuse() {
    assert_eq!(run(&["lab", "probe", "mqtt://127.0.0.1:1"]).code, Some(1));
    assert_eq!(run(&["lab", "probe", "127.0.0.1"]).code, Some(2));
}

#[test]
fn criteria_are_answered_by_a_probe_or_a_scenario() {
    let broker = Broker::start(&[]);
    let named = format!("tidegate=mqtt://{}", broker.address("mqtt://"));
    let told = run(&["lab", "criteria", &named, "--json"]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    let told: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&told["schema"], told["brokers"].as_array().unwrap().len()), (&"tidegate-lab/criteria/1".into(), 1));
    let by = |id: &str, by: &str| {
        let known = told["brokers"][0]["known"].as_array().unwrap();
        known.iter().any(|known| known["id"] == id && known["by"] == by)
    };
    assert!(by("MID-33", "unknown") && by("MID-10", "scenario") && by("MID-20", "probe"));
    assert_eq!(run(&["lab", "criteria", "absent"]).code, Some(2));
}

#[test]
fn a_series_leaves_results_and_a_report_and_is_not_made_twice() {
    let folder = Folder::new();
    let (scenario, out) = (folder.write("short.toml", SHORT), folder.file("out"));
    let arguments =
        ["lab", "run", &scenario, "--peer", "tidegate", "--out", &out, "--ports", "30100-30199", "--processes", "2"];
    let first = run(&arguments);
    assert_eq!(first.code, Some(0), "{}", first.err);
    let results: Value = serde_json::from_slice(&fs::read(folder.file("out/results.json")).unwrap()).unwrap();
    assert_eq!(results["schema"], "tidegate-lab/results/1");
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let counts = &run["load"]["counts"];
        assert_eq!((&counts["sent"], &counts["received"]), (&50.into(), &100.into()), "{counts}");
        // One of the two processes has subscribers only, and measures itself over the same time.
        let busiest = run["load"]["generator"]["busiest"].as_f64().unwrap();
        assert!(busiest > 0.0 && busiest <= 1.01, "{busiest} of a core");
        assert!(run["broker"]["rss"].as_array().unwrap().iter().any(|rss| rss.as_u64() > Some(0)));
    }
    let report = fs::read_to_string(folder.file("out/report.html")).unwrap();
    assert!(report.contains("<h1>Short</h1>") && report.contains("<svg"));
    let again = run(&arguments);
    assert!(again.err.contains("2 of 2 runs are there already"), "{}", again.err);
    let slower = run(&[&arguments[..], &["--time-scale", "2"]].concat());
    assert_eq!(slower.code, Some(1), "a directory has one series");
}

#[test]
fn an_interruption_ends_the_broker_too_and_leaves_a_report() {
    for signal in ["-INT", "-TERM"] {
        let folder = Folder::new();
        let (mut lab, lines, mark) = long_run(&folder);
        Command::new("kill").args([signal, &lab.id().to_string()]).status().unwrap();
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        assert_eq!(lab.wait().unwrap().code(), Some(1), "{rest:?}");
        assert!(!is_running(&mark), "{signal}");
        assert!(fs::read_to_string(folder.file("out/report.html")).unwrap().contains("stopped"), "{signal}");
    }
}

#[test]
fn an_interrupted_soak_shows_its_measurements() {
    let (folder, broker) = (Folder::new(), Broker::start(&[]));
    let (scenario, address) = (folder.write("short.toml", SHORT), broker.address("mqtt://"));
    let port = address.rsplit_once(':').unwrap().1;
    let message = ["sub", "-p", port, "-t", "lab/a", "-C", "1", "-W", "120"];
    let listener = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(message).stdout(Stdio::null()).spawn().unwrap();
    let peer = format!("broker=mqtt://{address}");
    let lab = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args([
            "lab",
            "soak",
            &scenario,
            "--only",
            "QoS 1",
            "--peer",
            &peer,
            "--for",
            "1h",
            "--out",
            &folder.file("out"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Publishing has begun when a message of it has come.
    assert!(listener.wait_with_output().unwrap().status.success());
    Command::new("kill").args(["-INT", &lab.id().to_string()]).status().unwrap();
    let ended = lab.wait_with_output().unwrap();
    let (told, said) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(told.contains("QoS 1, broker"), "{told}");
    let results: Value = serde_json::from_slice(&fs::read(folder.file("out/results.json")).unwrap()).unwrap();
    let run = &results["runs"][0];
    assert_eq!((&run["load"]["stopped"], &run["found"][0]["title"]), (&true.into(), &"Drift".into()));
    assert!(run["load"]["counts"]["sent"].as_u64() > Some(0), "{run}");
    let why = results["not_measured"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("stopped after ") && why.contains(" of 1h"), "{why}");
    assert!(fs::read_to_string(folder.file("out/report.html")).unwrap().contains("stopped after"));
    let kept = fs::read_dir(folder.file("out/runs")).unwrap().count();
    assert_eq!(kept, 0, "the same command starts again");
}

#[test]
fn a_lab_that_is_killed_leaves_no_broker_and_no_files_behind() {
    let folder = Folder::new();
    let (mut lab, _lines, mark) = long_run(&folder);
    lab.kill().unwrap();
    lab.wait().unwrap();
    let scratch = std::env::temp_dir().join(format!("tidegate-lab-{}", lab.id()));
    let deadline = Instant::now() + PATIENCE;
    while is_running(&mark) || scratch.exists() {
        assert!(Instant::now() < deadline, "something of {mark} is left");
        pause(20);
    }
}

/// A run of ten minutes that has just begun, with its output, and the mark of its brokers.
fn long_run(folder: &Folder) -> (Child, Lines<BufReader<ChildStderr>>, String) {
    let scenario = folder.write("long.toml", &SHORT.replace("duration_ms = 500", "duration_ms = 600000"));
    let mut lab = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["lab", "run", &scenario, "--peer", "tidegate", "--out", &folder.file("out"), "--ports", "30200-30299"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(lab.stderr.take().unwrap()).lines();
    let begun = lines.by_ref().map(Result::unwrap).find(|line| line.contains("about 600 s"));
    assert!(begun.is_some());
    let mark =
        format!("TIDEGATE_LAB_PEER={}", std::env::temp_dir().join(format!("tidegate-lab-{}", lab.id())).display());
    assert!(is_running(&mark));
    (lab, lines, mark)
}

/// Whether a process has this at the begin of a variable of its environment.
fn is_running(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap();
    processes.filter_map(Result::ok).any(|process| {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
    })
}

#[test]
fn a_missing_lab_is_named_with_its_build_command() {
    let folder = Folder::new();
    let alone = folder.file("tidegate");
    // Not a copy: a process that another test starts meanwhile would hold it open for writing.
    fs::hard_link(env!("CARGO_BIN_EXE_tidegate"), &alone).unwrap();
    let output = Command::new(&alone).args(["lab", "list"]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cargo build --release -p tidegate-lab"), "{said}");
}

#[test]
fn a_platform_brings_messages_of_devices_to_customers() {
    let folder = Folder::new();
    let (out, servers) = (folder.file("out"), concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/bin"));
    let path = format!("{servers}:{}", std::env::var("PATH").unwrap_or_default());
    let mut lab = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    lab.args(["lab", "run", "lavva-1", "--only", "1 device, QoS 1", "--peer", "tidegate"]);
    lab.args(["--time-scale", "0.02", "--window", "3s", "--out", &out]);
    let ended = lab.env("PATH", path).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let results: Value = serde_json::from_slice(&fs::read(format!("{out}/results.json")).unwrap()).unwrap();
    let run = &results["runs"][0];
    let counts = &run["load"]["counts"];
    assert_eq!((&counts["sent"], &counts["received"], &counts["due"]), (&3.into(), &3.into(), &3.into()), "{counts}");
    let parts: Vec<&Value> = run["parts"].as_array().unwrap().iter().collect();
    let names: Vec<&str> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    let expected = ["broker-0", "broker-1", "bus-0", "bus-1", "bus-2", "gateway-0", "gateway-1", "hub-0", "hub-1"];
    assert_eq!(names, expected);
    // Messages of the warm-up count, too.
    let passed = |kind: &str, key: &str| -> u64 {
        parts
            .iter()
            .filter(|part| part["name"].as_str().unwrap().starts_with(kind))
            .filter_map(|part| part[key].as_u64())
            .sum()
    };
    assert!(passed("gateway", "messages_in") >= 3 && passed("hub", "messages_out") >= 3, "{parts:?}");
}
