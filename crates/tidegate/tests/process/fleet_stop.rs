//! Fleets that are left running, stopped by `tidegate fleet stop`, and what their manager tells on the way.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::up::{Fleet, lives, pids};

#[test]
fn a_fleet_that_was_left_running_is_stopped_and_starts_again() {
    let mut fleet = Fleet::new();
    let file = fleet.file("{ min = 1, max = 1 }", "{ min = 1, max = 1 }");
    fleet.start(&["manager", "--fleet", &file]);
    let all = pids(&fleet.sized(1, 1));
    let refused = fleet.fleet(&["stop", &file]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("another manager runs"), "{}", refused.err);
    let http = fleet.status()["manager"]["http"].as_str().unwrap().to_owned();
    let metrics = get(http.strip_prefix("http://").unwrap(), "/metrics");
    assert!(metrics.contains("tidegate_fleet_resources{level=\"broker\",state=\"serving\"} 1\n"), "{metrics}");
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));
    assert!(all.iter().all(|pid| lives(*pid)));
    let stopped = fleet.fleet(&["stop", &file]);
    assert_eq!((stopped.code, stopped.out.as_str()), (Some(0), "stopped\n"), "{}", stopped.err);
    assert!(!all.iter().any(|pid| lives(*pid)));
    let status = fleet.status();
    assert_eq!((&status["state"], &status["manager"]["state"]), (&"stopped".into(), &"stopped".into()));
    fleet.start(&["up", &file]);
    Fleet::carries_messages(&fleet.sized(1, 1));
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));
}

/// The answer of an HTTP server on this machine.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
