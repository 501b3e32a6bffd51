//! `tidegate pub`, `sub` and `rr` with a broker.

use std::net::TcpListener;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::broker::{Broker, command, run};

/// Runs a client command against a broker.
fn client(broker: &Broker, arguments: &[&str]) -> crate::broker::Ended {
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    run(&[&arguments[..1], &["-h", host, "-p", port], &arguments[1..]].concat())
}

#[test]
fn published_messages_are_shown() {
    let broker = Broker::start(&[]);
    let published = client(&broker, &["pub", "-t", "a/b", "-m", "21.5", "-q", "1", "-r"]);
    assert_eq!((published.code, published.out.as_str(), published.err.as_str()), (Some(0), "", ""));
    for version in ["31", "311", "5"] {
        let shown = client(&broker, &["sub", "-t", "a/#", "-C", "1", "-W", "120", "-v", "-V", version]);
        assert_eq!((shown.code, shown.out.as_str()), (Some(0), "a/b 21.5\n"), "{version}: {}", shown.err);
    }
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    // Bound and closed again: no process listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ended = run(&["pub", "-h", "127.0.0.1", "-p", &address.port().to_string(), "-t", "a", "-m", "x"]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains(&address.to_string()), "{}", ended.err);
}

#[test]
fn wrong_flags_are_usage_errors() {
    for arguments in [&["pub", "-m", "x"][..], &["sub"], &["rr", "-t", "a", "-m", "x", "--qos", "3"]] {
        let ended = run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.err);
        assert!(!ended.err.is_empty());
    }
}

/// `timeout` sends SIGTERM twice, to its child and to its group.
#[test]
fn two_signals_at_once_do_not_skip_disconnect() {
    let broker = Broker::start(&[]);
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    let kept = client(&broker, &["pub", "-t", "a", "-m", "here", "-q", "1", "-r"]);
    assert_eq!(kept.code, Some(0), "{}", kept.err);
    let arguments = ["sub", "-h", host, "-p", port, "-i", "watcher", "-t", "a", "--will-topic", "gone"];
    let mut sub = command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(sub.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "here\n");
    let id = sub.id().to_string();
    let sent = Command::new("sh").args(["-c", "kill -s TERM \"$0\"; kill -s TERM \"$0\"; true", &id]).status().unwrap();
    assert!(sent.success());
    sub.wait().unwrap();
    broker.signal("TERM");
    let log = broker.wait().err;
    let ended = log.lines().find(|line| line.contains("client disconnected") && line.contains("client_id=watcher"));
    assert!(ended.is_some_and(|line| line.contains("reason=normal_disconnect")), "{log}");
}
