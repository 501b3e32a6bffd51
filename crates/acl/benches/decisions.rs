//! The time of a decision, in nanoseconds, the fastest of some rounds: `cargo bench -p tidegate-acl`.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints its results and stops at the first surprise"
)]

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tidegate_acl::{Compiled, Compiler, Effect, Request, RulesBuilder, Subject};
use tidegate_mqtt::{QoS, TopicFilter, TopicName};

/// Rounds. The fastest counts, which removes the load of other processes.
const ROUNDS: u32 = 200;
/// Decisions in a round.
const DECISIONS: u32 = 10_000;

const SUBJECT: Subject<'_> = Subject { user_name: Some("alice"), ..Subject::anonymous("sensor-17") };

fn main() {
    println!("{:<44} {:>8} {:>12} {:>12}", "rules", "publish", "receive", "subscribe");
    for count in [1, 10, 1000] {
        measure(&format!("{count} exact topics, the last decides"), &exact(count), "devices/last/up");
        measure(&format!("{count} with wildcards, the last decides"), &wildcards(count), "devices/last/x/up");
        measure(
            &format!("{count} with placeholders, the last decides"),
            &placeholders(count),
            "devices/sensor-17/last/up",
        );
    }
    measure("10 users with 100 topics each, Mosquitto's", &mosquitto(), "t/99/x");
    compile(1000);
}

fn rules(topics: impl Iterator<Item = String>) -> Compiled {
    let mut text = String::new();
    for topic in topics {
        let _ = write!(text, "[[rule]]\nallow = true\ntopics = [\"{topic}\"]\n");
    }
    let mut builder = RulesBuilder::new();
    builder.rules_file("rules", text.as_bytes()).expect("the rules are right");
    Compiler::new(Arc::new(builder.build(Effect::Deny))).compile(&SUBJECT)
}

fn numbered(count: usize, topic: impl Fn(&str) -> String) -> impl Iterator<Item = String> {
    (1..=count).map(move |number| if number == count { topic("last") } else { topic(&number.to_string()) })
}

fn exact(count: usize) -> Compiled {
    rules(numbered(count, |name| format!("devices/{name}/up")))
}

fn wildcards(count: usize) -> Compiled {
    rules(numbered(count, |name| format!("devices/{name}/+/#")))
}

fn placeholders(count: usize) -> Compiled {
    rules(numbered(count, |name| format!("devices/${{clientid}}/{name}/#")))
}

fn mosquitto() -> Compiled {
    let mut text = String::new();
    for user in ["alice", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        let _ = writeln!(text, "user {user}");
        for number in 0..100 {
            let _ = writeln!(text, "topic readwrite t/{number}/#");
        }
    }
    let mut builder = RulesBuilder::new();
    builder.mosquitto_file("acl", text.as_bytes()).expect("the rules are right");
    Compiler::new(Arc::new(builder.build(Effect::Deny))).compile(&SUBJECT)
}

fn measure(name: &str, compiled: &Compiled, topic: &str) {
    let topic_name = TopicName::new(topic).expect("a topic");
    let publish = Request::Publish { topic: topic_name, qos: QoS::AtLeastOnce, retain: false };
    let subscribe = Request::Subscribe { filter: TopicFilter::new(topic).expect("a filter"), qos: QoS::AtLeastOnce };
    let columns =
        [(publish, DECISIONS), (Request::Receive { topic: topic_name }, DECISIONS), (subscribe, DECISIONS / 100)];
    let [publish, receive, subscribe] = columns.map(|(request, decisions)| {
        fastest(decisions, || assert!(black_box(compiled).decide(black_box(&request)).allowed))
    });
    println!("{name:<44} {publish:>6.1}ns {receive:>10.1}ns {subscribe:>10.1}ns");
}

/// The cost of a connection: the view of one more client of a known kind.
fn compile(count: usize) {
    let mut text = String::new();
    for topic in numbered(count, |name| format!("devices/{name}/#")) {
        let _ = write!(text, "[[rule]]\nallow = true\ntopics = [\"{topic}\", \"own/${{clientid}}\"]\n");
    }
    let mut builder = RulesBuilder::new();
    builder.rules_file("rules", text.as_bytes()).expect("the rules are right");
    let compiler = Compiler::new(Arc::new(builder.build(Effect::Deny)));
    let _first = compiler.compile(&SUBJECT);
    let each = fastest(10, || drop(black_box(compiler.compile(black_box(&SUBJECT))))) / 1e3;
    println!("{count} rules compiled for one more client: {each:.1} us");
}

/// Nanoseconds of one repetition, in the fastest round.
fn fastest(repetitions: u32, work: impl Fn()) -> f64 {
    let round = |_| {
        let started = Instant::now();
        (0..repetitions).for_each(|_| work());
        started.elapsed().as_secs_f64() * 1e9 / f64::from(repetitions)
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}
