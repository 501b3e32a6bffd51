//! The fleet files of `examples/fleet`, each scaled down to its least and run with the brokers that it names.

use std::io::Write;
use std::path::Path;

use crate::up::Fleet;

/// A fleet file of the examples, with as few resources as its agreement allows and without limits of CPU, and looked at
/// often.
fn scaled_down(example: &str) -> (String, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet").join(format!("{example}.toml"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut brokers = 1;
    let mut scaled = Vec::new();
    for line in text.lines() {
        let least = line.split_once("min = ").and_then(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok());
        let key = line.split(' ').next().unwrap_or_default();
        match (key, least) {
            ("brokers" | "orchestrators", Some(least)) => {
                if key == "brokers" {
                    brokers = least;
                }
                scaled.push(format!("{key} = {{ min = {least}, max = {least} }}"));
            }
            ("interval", _) => scaled.push("interval = \"500ms\"\ncheck = \"50ms\"".to_owned()),
            ("cpu", _) => scaled.push("cpu = 2".to_owned()),
            _ => scaled.push(line.to_owned()),
        }
    }
    let scaled = scaled.join("\n");
    assert!(scaled.contains("500ms") && scaled.contains("[sla]"), "{scaled}");
    (scaled, brokers)
}

fn is_installed(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(Into::into);
    std::env::split_paths(&places).chain(usual).any(|place| place.join(program).is_file())
}

/// Brings an example up, sends a message through it and takes it down.
fn works(example: &str, programs: &[&str]) {
    if let Some(missing) = programs.iter().find(|program| !is_installed(program)) {
        // Past the capture of the test harness: a person who runs the tests should see the skipped ones.
        let text = format!("skipped: examples/fleet/{example}.toml needs {missing}, which is not installed\n");
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        return;
    }
    let (text, brokers) = scaled_down(example);
    let mut fleet = Fleet::new();
    let file = fleet.folder.write("fleet.toml", &text);
    fleet.start(&["up", &file]);
    let status = fleet.sized(brokers, 1);
    assert_eq!(status["fleet"], format!("{example}-demo"));
    Fleet::carries_messages(&status);
    Fleet::grants_filters(&status, 100);
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));
}

#[test]
fn the_tidegate_example_works() {
    works("tidegate", &[]);
}

#[test]
fn the_mosquitto_example_works() {
    assert!(is_installed("mosquitto"), "install mosquitto, as ./test does");
    works("mosquitto", &["mosquitto"]);
}

#[test]
fn the_rabbitmq_example_works_where_rabbitmq_is_installed() {
    works("rabbitmq", &["rabbitmq-server"]);
}

#[test]
fn the_nats_example_works_where_nats_is_installed() {
    works("nats", &["nats-server"]);
}

#[test]
fn the_mixed_example_works_where_both_brokers_are_installed() {
    works("mixed", &["mosquitto", "rabbitmq-server"]);
}

#[test]
fn every_example_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["mixed", "mosquitto", "nats", "rabbitmq", "tidegate"], "write a test for the new one");
}
