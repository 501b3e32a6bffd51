//! Brokers of the lab with a network of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::broker::{Folder, run};

/// A scenario of a second, over a link of 20 ms.
const SLOW: &str = "\
title = 'Slow'
question = 'Does every packet take its time?'
method = 'A second of load.'
measures = ['latency-p50']
[network]
delay = '20ms'
loss = 2
[load]
duration_ms = 500
drain_ms = 10000
[[load.groups]]
name = 'subscriber'
count = 2
role = { subscriber = { filters = ['lab/#'], qos = 0 } }
[[load.groups]]
name = 'publisher'
count = 1
role = { publisher = { topics = { pattern = 'lab/a' }, qos = 0, pace = { open = { rate = { total = 100 } } } } }
";

/// Two ways through the link, nanoseconds.
const TWICE_NS: u64 = 40_000_000;

/// Runs here need root, iproute2 and, where there is no netem, TUN. Where that is missing, the lab has to say
/// so.
fn is_able() -> bool {
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success());
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let can_unshare = Command::new("unshare").args(["--net", "true"]).status().is_ok_and(|status| status.success());
    is_root && can_unshare && has("ip") && has("tc") && Path::new("/dev/net/tun").exists()
}

/// The lab's ends of links.
fn links() -> Vec<String> {
    let devices = fs::read_dir("/sys/class/net").unwrap();
    let names = devices.map(|device| device.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("tgl")).collect()
}

#[test]
fn every_message_is_delayed_twice_and_tcp_repairs_losses() {
    let folder = Folder::new();
    let (scenario, out) = (folder.write("slow.toml", SLOW), folder.file("out"));
    let ran = run(&["lab", "run", &scenario, "--peer", "tidegate", "--out", &out, "--ports", "30300-30349"]);
    let results: Value = serde_json::from_slice(&fs::read(folder.file("out/results.json")).unwrap()).unwrap();
    if !is_able() {
        assert_eq!(ran.code, Some(1), "a run without the network that it asks for must not be made: {}", ran.err);
        let why = results["not_measured"][0]["why"].as_str().unwrap();
        assert!(why.contains("network of the case cannot be made"), "{why}");
        return;
    }
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let run = &results["runs"][0];
    let counts = &run["load"]["counts"];
    assert_eq!((&counts["due"], &counts["received"]), (&100.into(), &100.into()), "{counts}");
    let least = run["load"]["latency"][0][0].as_u64();
    // The histogram keeps three digits.
    assert!(least.unwrap() >= TWICE_NS - TWICE_NS / 500, "{least:?}");
    let packets = |column: &str| run["broker"][column].as_array().unwrap().last().unwrap().as_u64().unwrap();
    // How many messages share a packet is for the machine to say: one that is late sends several at once.
    assert!(packets("network_packets") > 0, "packets to the broker are counted");
    assert!(packets("network_sent_packets") > 0, "and what leaves it");
    assert!(run["network"]["by"].as_str().is_some_and(|by| by.contains("netem")), "{}", run["network"]);
    assert!(fs::read_to_string(folder.file("out/report.html")).unwrap().contains("20 ms, 2 % loss each way"));
}

#[test]
fn a_lab_that_is_killed_leaves_neither_broker_nor_link_behind() {
    if !is_able() {
        return;
    }
    let folder = Folder::new();
    let scenario = folder.write("long.toml", &SLOW.replace("duration_ms = 500", "duration_ms = 600000"));
    let mut lab = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["lab", "run", &scenario, "--peer", "tidegate", "--out", &folder.file("out"), "--ports", "30350-30399"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(lab.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line.contains("about 600 s")));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", lab.id())).unwrap_or_default();
    let link = links().into_iter().find(|link| children.split_whitespace().any(|child| *link == format!("tgl{child}")));
    let link = link.unwrap_or_else(|| panic!("no link of {children} in {:?}", links()));
    let broker = children.split_whitespace().find(|child| link != format!("tgl{child}")).unwrap().to_owned();
    lab.kill().unwrap();
    lab.wait().unwrap();
    // The holder of the namespace notices by the end of its input; the time limit is the runner's.
    while links().contains(&link) || is_alive(&broker) {
        std::thread::yield_now();
    }
}

/// Whether a process is there and has not ended.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
