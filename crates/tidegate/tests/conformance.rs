//! The conformance suite against the built binary, in the configurations that make a difference.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

#[path = "process/broker.rs"]
#[expect(dead_code, reason = "the tests of the command line use all of it")]
mod broker;

use std::time::Duration;

use broker::Broker;
use tidegate_conformance::{Options, run};

/// Runs the suite against a broker with these arguments; everything that failed is in the message.
fn conforms(arguments: &[&str]) {
    let listeners =
        ["--listen", "127.0.0.1:0", "--listen", "ws://127.0.0.1:0/mqtt", "--admin", "off", "--log", "error"];
    let broker = Broker::start_with(&[&listeners, arguments].concat());
    let mut options = Options::new(broker.address("mqtt://"));
    options.websocket = Some(broker.address("ws://").to_owned());
    options.strict = true;
    // Other tests need the processors, too.
    options.patience = Duration::from_secs(30);
    let report = run(&options).unwrap();
    let failures: String = report.failures().map(tidegate_conformance::Result::explain).collect();
    assert!(failures.is_empty(), "{failures}\n{}", report.summary());
    broker.signal("TERM");
    let ended = broker.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[test]
fn on_one_shard() {
    conforms(&["--shards", "1"]);
}

#[test]
fn on_several_shards() {
    conforms(&["--shards", "3"]);
}

#[test]
fn with_little_on_offer() {
    let limits = ["maximum_qos=1", "topic_alias_maximum=0", "topic_alias_maximum_out=0", "receive_maximum=2"];
    let mut settings = vec!["retained.available=false".to_owned(), "shared.available=false".to_owned()];
    for listener in 0..2 {
        settings.extend(limits.iter().map(|limit| format!("listener.{listener}.{limit}")));
    }
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting.as_str()]).collect();
    conforms(&arguments);
}
