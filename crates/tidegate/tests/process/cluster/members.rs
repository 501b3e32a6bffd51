//! Nodes that join and leave in good order.

use super::{A, B, C, Cluster, NAMES, until};
use crate::broker::run;

#[test]
fn nodes_with_encrypted_links_are_one_broker() {
    let cluster = Cluster::durable_with(3, "10s", &["cluster.tls=secret"]);
    let id = cluster.id_at(C, "keeps");
    cluster.subscribe(A, &id);
    cluster.publish(B, "in/x", 0..4);
    cluster.expect_owed(A, &id, 4);
}

#[test]
fn queues_move_to_a_joining_node_and_away_from_a_stopping_one() {
    let mut cluster = Cluster::start(2);
    let ids: Vec<String> = (0..24).map(|number| format!("keeps-{number}")).collect();
    for (number, id) in ids.iter().enumerate() {
        cluster.subscribe(number % 2, id);
    }
    cluster.client(A, &["pub", "-t", "kept/a", "-m", "x", "-q", "1", "-r"]);
    cluster.publish(A, "in/x", 0..4);
    cluster.add();
    cluster.wait_even();
    cluster.publish(B, "in/x", 4..8);
    let stops = cluster.nodes[A].take().unwrap();
    stops.signal("TERM");
    let ended = stops.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    cluster.wait_even();
    cluster.publish(C, "in/x", 8..10);
    for (number, id) in ids.iter().enumerate() {
        cluster.expect_owed(B + number % 2, id, 10);
    }
    assert_eq!(cluster.client(C, &["sub", "-t", "kept/#", "-C", "1", "-W", "120"]), "x\n");
    for which in [B, C] {
        let view = cluster.view(which);
        let lost = [&view["taken_anew"], &view["owed_mismatches"], &view["moves_failed"]];
        assert!(lost.iter().all(|number| **number == 0), "{view}");
    }
}

/// Each node gives others up by its own lease.
#[test]
fn nodes_with_different_leases_say_so_once_of_each_other() {
    let mut cluster = Cluster::with_lease(2, "10s");
    let view = cluster.view(A);
    assert_eq!((&view["lease_ms"], &view["leases_differ"]), (&10_000.into(), &false.into()), "{view}");
    cluster.lease = "9s";
    cluster.add();
    cluster.wait_even();
    for (which, own) in [(A, 10_000), (C, 9_000)] {
        let view =
            until("the leases of all", || Some(cluster.view(which)).filter(|view| view["leases_differ"] == true));
        let leases = view["nodes"].as_array().unwrap().iter().map(|node| node["lease_ms"].as_u64().unwrap());
        assert_eq!((leases.collect::<Vec<_>>(), view["lease_ms"].as_u64()), (vec![10_000, 10_000, 9_000], Some(own)));
    }
    for (which, others) in [(C, &["a", "b"][..]), (A, &["c"]), (B, &["c"])] {
        let node = cluster.nodes[which].take().unwrap();
        node.signal("TERM");
        let said = node.wait().err;
        let told: Vec<&str> = said.lines().filter(|line| line.contains("different leases")).collect();
        assert_eq!(told.len(), others.len(), "{said}");
        let (own, theirs) = if which == C { ("9s", "10s") } else { ("10s", "9s") };
        for (line, other) in told.iter().zip(others) {
            let (name, other) = (format!("member={}", NAMES[which]), format!("other={other}"));
            let (own, theirs) = (format!("lease={own}"), format!("others_lease={theirs}"));
            let is_clear = [&name, &other, &own, &theirs].into_iter().all(|word| line.contains(word.as_str()));
            assert!(is_clear && line.contains("`cluster.lease`"), "{line}");
        }
    }
}

#[test]
fn an_impossible_cluster_is_refused_with_advice() {
    for (arguments, advice) in [
        (&["--bus", "nats://127.0.0.1:1"][..], "add --node NAME"),
        (&["--node", "a"], "add --bus embedded://DIRECTORY"),
        (&["--node", "a", "--bus", "embedded"], "use embedded://DIRECTORY"),
        (&["--node", "a", "--bus", "embedded://"], "names no directory"),
        (&["--node", "a/b", "--bus", "nats://127.0.0.1:1"], "name"),
        (&["--node", "a", "--bus", "nats://me:secret@"], "host:port"),
    ] {
        let ended = run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(advice) && !ended.err.contains("secret"), "{arguments:?}: {}", ended.err);
    }
}

/// Programs with the client are in `./test` where `optional` is one of the steps; its name must not have the client's, since
/// the tests with that name need servers.
#[cfg(not(feature = "kafka"))]
#[test]
fn a_bus_without_its_client_ends_the_start_with_the_feature() {
    let ended = run(&["--listen", "127.0.0.1:0", "--admin", "off", "--node", "a", "--bus", "kafka://127.0.0.1:1"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.err.contains("cargo build --release --features kafka"), "{}", ended.err);
}
