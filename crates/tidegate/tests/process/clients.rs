//! `tidegate pub`, `sub` and `rr` with a broker.

use std::net::TcpListener;

use crate::broker::{Broker, run};

/// Runs a client command against a broker.
fn client(broker: &Broker, arguments: &[&str]) -> crate::broker::Ended {
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    run(&[&arguments[..1], &["-h", host, "-p", port], &arguments[1..]].concat())
}

#[test]
fn what_is_published_is_shown() {
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
    // Bound and closed again: nobody listens there.
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
