//! A report of results made up here.
#![expect(clippy::cast_sign_loss, reason = "the numbers that are made up are positive")]

use std::collections::BTreeMap;

use super::html;
use crate::load::plan::Target;
use crate::load::{Histogram, LoadOutcome, LoadPlan, Second};
use crate::results::{AppliedLimits, Environment, Happened, NotMeasured, PeerInfo, Results, Run, SCHEMA, Settings};
use crate::sample::Sampled;
use crate::scenario::Library;

/// Seconds of a run that is made up.
const SECONDS: u32 = 20;

fn run(case: &str, peer: &str, repetition: u32, slowness: f64) -> Run {
    let mut latency = Histogram::new();
    for place in 1..=5000_u32 {
        let tail = 1.0 / (1.0 - f64::from(place) / 5001.0);
        latency.record((200_000.0 * slowness * (1.0 + tail.sqrt())) as u64);
    }
    let series = (0..SECONDS).map(|second| Second {
        second,
        sent: 1000,
        received: (1000.0 / slowness) as u64,
        connected: u64::from(second.min(10)) * 100,
        p99_ns: (2e6 * slowness) as u64 + u64::from(second) * 10_000,
        ..Second::default()
    });
    let mut load = LoadOutcome {
        measured_from_ns: 2_000_000_000,
        measured_to_ns: 18_000_000_000,
        last_ns: 18_100_000_000,
        latency,
        series: series.collect(),
        ..LoadOutcome::default()
    };
    load.counts.due = 16_000;
    load.counts.received = 16_000 - (slowness as u64 - 1) * 10;
    load.connections.accepted = 1000;
    load.connections.most = 1000;
    let at_s: Vec<f64> = (0..SECONDS * 2).map(|half| f64::from(half) / 2.0).collect();
    let broker = Sampled {
        cpu_s: at_s.iter().map(|at| at * 0.2 * slowness).collect(),
        rss: at_s.iter().map(|at| (8 << 20) + (*at * 1e5 * slowness) as u64).collect(),
        at_s,
        ..Sampled::default()
    };
    Run {
        id: format!("{case}-{peer}-{repetition}"),
        case: case.to_owned(),
        peer: peer.to_owned(),
        repetition,
        begun_unix_s: 0.0,
        ready_after_s: Some(0.1),
        load_zero_s: 1.0,
        plan: LoadPlan::new(Target::tcp("127.0.0.1", 1883), 16_000),
        load,
        generator: broker.clone(),
        broker,
        events: vec![Happened { at_s: 1.0, event: "clients begin to connect".to_owned() }],
        limits: AppliedLimits::default(),
        group_limits: Vec::new(),
        parts: Vec::new(),
        network: None,
        spoken: "mqtt".to_owned(),
        found: Vec::new(),
        invalid: None,
        broker_ended: false,
    }
}

fn results() -> Results {
    let scenario = Library::shipped().unwrap().get("smoke").unwrap();
    let cases: Vec<String> = scenario.cases().unwrap().into_iter().map(|case| case.name).collect();
    let brokers = [("tidegate", 1.0), ("mosquitto", 2.5), ("<nats>", 1.7), ("rabbitmq", 6.0)];
    let mut runs = Vec::new();
    for case in &cases {
        for (peer, slowness) in brokers {
            for repetition in 1..=3 {
                runs.push(run(case, peer, repetition, slowness + f64::from(repetition) * 0.05));
            }
        }
    }
    let peers: BTreeMap<String, PeerInfo> = brokers
        .into_iter()
        .map(|(name, _)| (name.to_owned(), PeerInfo { title: name.to_owned(), ..PeerInfo::default() }))
        .collect();
    Results {
        schema: SCHEMA.to_owned(),
        scenario,
        settings: Settings { time_scale: 1.0, repeat: 3, seed: 7, base: None, board: None },
        environment: Environment::of_this_machine(None, "by cgroups of version 1".to_owned()),
        peers,
        runs,
        not_measured: vec![NotMeasured {
            peer: "kafka".to_owned(),
            case: cases[0].clone(),
            repetition: 1,
            why: "kafka does not speak mqtt-3.1.1".to_owned(),
            broker_ended: false,
        }],
    }
}

#[test]
fn a_report_names_the_first_broker_and_needs_no_network() {
    let page = html(&results());
    // For looking at it: LAB_REPORT=FILE cargo test -p tidegate-lab report
    if let Some(path) = std::env::var_os("LAB_REPORT") {
        std::fs::write(path, &page).unwrap();
    }
    assert!(page.contains("ahead in 9 of 9 cases"), "the summary names the leader");
    assert!(page.contains("kafka does not speak mqtt-3.1.1"));
    assert!(page.contains("&lt;nats&gt;") && !page.contains("<nats>"), "names are no markup");
    for outside in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf"), "every number is one");
    let open = page.matches("<svg").count();
    assert!(open > 20 && open == page.matches("</svg>").count());
}

#[test]
fn losses_have_causes_and_no_loss_has_no_row() {
    let mut results = results();
    assert!(!html(&results).contains("id=\"losses\""));
    for run in results.runs.iter_mut().filter(|run| run.peer == "rabbitmq") {
        (run.load.losses.overflow, run.load.losses.disconnect, run.load.counts.late) = (5, 2, 1);
    }
    let page = html(&results);
    let section = page.split("id=\"losses\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert!(section.contains("<td>48000</td><td>3</td><td>0</td><td>15</td><td>0</td><td>6</td>"), "{section}");
    assert!(!section.contains("mosquitto"), "who lost nothing is left out");
}

#[test]
fn results_survive_being_written_and_read() {
    let results = results();
    let text = serde_json::to_string(&results).unwrap();
    let back: Results = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    assert_eq!(html(&back), html(&results));
}

#[test]
fn a_report_of_nothing_is_a_report() {
    let mut nothing = results();
    nothing.runs.clear();
    assert!(html(&nothing).contains("Not measured"));
}
