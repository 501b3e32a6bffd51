//! The manager, event by event.

use super::*;
use crate::messages::NodeLink;
use crate::ranking::ConnectionsInverse;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn points(change: impl FnOnce(&mut PointsSettings)) -> Points {
    let mut settings = PointsSettings { smoothing: 1.0, ..PointsSettings::default() };
    settings.reconfig.patience = 1;
    change(&mut settings);
    Points::new(settings, Box::new(ConnectionsInverse)).unwrap()
}

fn load(gateway: &str, number: u64) -> LoadReport {
    let address = format!("{gateway}.example:1883");
    LoadReport { gateway: gateway.into(), address, life: 1, number, period_ms: 2_000, ..LoadReport::default() }
}

fn nodes(gateway: &str, number: u64, names: std::ops::Range<u32>, pongs: bool) -> ConnectionReport {
    let link = |n: u32| NodeLink { id: format!("n{n}"), pong_us: pongs.then_some(5_000), transport_us: None };
    ConnectionReport {
        gateway: gateway.into(),
        number,
        part: 0,
        parts: 1,
        pinged_at_ms: number,
        window_ms: 2_000,
        pinged: u64::from(names.end - names.start),
        late: 0,
        nodes: names.map(link).collect(),
    }
}

fn handovers(actions: &[PointsAction]) -> Vec<&Handover> {
    actions.iter().filter_map(|action| if let PointsAction::HandOver(it) = action { Some(it) } else { None }).collect()
}

fn lists(actions: &[PointsAction]) -> Vec<Vec<&str>> {
    let names = |list: &GWList| list.gateways.len();
    actions
        .iter()
        .filter_map(|action| if let PointsAction::List(list) = action { Some(list) } else { None })
        .map(|list| (0..names(list)).map(|place| list.gateways[place].name.as_str()).collect())
        .collect()
}

#[test]
fn each_life_of_a_gateway_is_configured_once() {
    let mut points = points(|_| {});
    let hello = |life| HelloPoA { gateway: "a".into(), address: "a:1".into(), life };
    let answer = points.hello(&hello(7)).unwrap();
    assert_eq!(
        answer,
        PointsAction::Configure(PingConfig { gateway: "a".into(), interval_ms: 30_000, window_ms: 2_000 })
    );
    assert_eq!((points.hello(&hello(7)), points.hello(&hello(6))), (None, None));
    assert!(points.hello(&hello(8)).is_some());
}

#[test]
fn a_first_report_without_hello_is_configured() {
    let mut points = points(|_| {});
    assert_eq!(points.load(None, load("a", 1)), None, "a report from before the start does not count");
    assert!(points.load(Some(s(1)), load("a", 2)).is_some());
    assert_eq!(points.load(Some(s(3)), load("a", 3)), None);
}

#[test]
fn a_configuration_that_was_not_stored_is_sent_again() {
    let mut points = points(|_| {});
    assert!(points.load(Some(s(1)), load("a", 2)).is_some());
    points.not_configured("a");
    assert!(points.load(Some(s(3)), load("a", 3)).is_some());
    assert_eq!(points.load(Some(s(5)), load("a", 4)), None);
}

#[test]
fn a_new_manager_listens_for_one_report_of_every_gateway() {
    let mut points = points(|_| {});
    assert!(!points.has_listened(s(100)), "no gateway has reported");
    points.load(Some(s(1)), load("a", 1));
    assert!(!points.has_listened(s(2)) && points.has_listened(s(2) + LATE));
    points.load(Some(s(2)), LoadReport { period_ms: 4_000, ..load("b", 1) });
    assert!(!points.has_listened(s(4)) && points.has_listened(s(4) + LATE));
    points.load(Some(s(3)), LoadReport { period_ms: u64::MAX, ..load("c", 1) });
    assert!(points.has_listened(MAX_LISTENING + LATE), "any client of the bus may write any number");
}

#[test]
fn nodes_go_to_the_new_gateway_and_are_not_sent_twice() {
    let mut points = points(|settings| settings.reallocation.gain = 1.0);
    points.load(Some(s(1)), load("a", 1));
    points.connected(s(1), nodes("a", 1, 0..100, true));
    assert!(handovers(&points.cycle(s(1), 0)).is_empty());
    points.load(Some(s(2)), load("b", 1));
    points.connected(s(2), nodes("b", 1, 0..0, true));
    let actions = points.cycle(s(2), 5_000);
    let sent = handovers(&actions);
    assert!(
        sent.iter().all(|it| it.from == "a" && it.to == "b" && it.address == "b.example:1883" && it.at_ms == 5_000)
    );
    let first = sent.len();
    assert!(first > 40, "{first}");
    // They are on their way: neither gateway reports anything new.
    let again = points.cycle(s(3), 6_000);
    let repeated =
        handovers(&again).iter().filter(|one| handovers(&actions).iter().any(|it| it.node == one.node)).count();
    assert_eq!(repeated, 0);
}

/// Others were sent in their place, and stayed for their cool-down.
#[test]
fn a_late_report_of_the_old_gateway_does_not_move_nodes_back() {
    let mut points = points(|settings| settings.reallocation.gain = 1.0);
    for gateway in ["a", "b"] {
        points.load(Some(s(1)), load(gateway, 1));
    }
    points.connected(s(1), nodes("a", 1, 0..100, true));
    points.connected(s(1), nodes("b", 1, 0..0, true));
    let actions = points.cycle(s(1), 0);
    let mut moved: Vec<u32> = handovers(&actions).iter().map(|it| it.node[1..].parse().unwrap()).collect();
    moved.sort_unstable();
    assert_eq!(moved, (0..50).collect::<Vec<_>>());
    // The report of the new gateway arrives first, then an earlier one of the old gateway.
    points.connected(s(2), nodes("b", 2, 0..50, true));
    assert!(handovers(&points.cycle(s(2), 0)).is_empty());
    points.connected(s(3), nodes("a", 2, 0..100, true));
    assert!(handovers(&points.cycle(s(3), 0)).is_empty(), "nothing has changed");
    // They do leave again, all of them.
    points.connected(s(4), nodes("b", 3, 0..0, true));
    assert_eq!(handovers(&points.cycle(s(4), 0)).len(), 50, "the others are free to go");
}

#[test]
fn the_list_is_sorted_by_score_and_sent_when_it_changes() {
    let mut points = points(|settings| settings.balance = false);
    for (gateway, count) in [("a", 50), ("b", 10)] {
        points.load(Some(s(1)), load(gateway, 1));
        points.connected(s(1), nodes(gateway, 1, if gateway == "a" { 0..count } else { 100..100 + count }, true));
    }
    assert_eq!(lists(&points.cycle(s(1), 0)), [["b", "a"]]);
    assert!(lists(&points.cycle(s(2), 0)).is_empty(), "nothing has changed");
    points.connected(s(3), nodes("a", 2, 0..5, true));
    assert_eq!(lists(&points.cycle(s(3), 0)), [["a", "b"]]);
    assert_eq!(
        lists(&points.cycle(s(9), 0)),
        [Vec::<&str>::new()],
        "both have been silent for more than three windows"
    );
}

#[test]
fn a_gateway_without_a_report_does_not_count_as_empty() {
    let mut points = points(|_| {});
    assert!(points.cycle(s(1), 0).is_empty(), "no gateway has reported: there is no list to send");
    points.load(Some(s(2)), load("a", 1));
    points.load(Some(s(2)), load("b", 1));
    points.connected(s(2), nodes("a", 1, 0..100, true));
    assert!(handovers(&points.cycle(s(2), 0)).is_empty());
    points.connected(s(3), nodes("b", 1, 100..200, true));
    assert!(handovers(&points.cycle(s(3), 0)).is_empty());
    // Its next life is another gateway.
    points.load(Some(s(4)), LoadReport { life: 2, ..load("b", 1) });
    points.connected(s(4), nodes("a", 2, 0..200, true));
    assert!(handovers(&points.cycle(s(4), 0)).is_empty());
    points.connected(s(5), nodes("b", 2, 0..0, true));
    assert!(!handovers(&points.cycle(s(5), 0)).is_empty());
}

#[test]
fn a_draining_gateway_gives_its_nodes_away_and_is_not_listed() {
    let mut points = points(|_| {});
    points.load(Some(s(1)), LoadReport { draining: true, ..load("a", 1) });
    points.load(Some(s(1)), load("b", 1));
    points.connected(s(1), nodes("a", 1, 0..1, true));
    points.connected(s(1), nodes("b", 1, 0..0, true));
    let actions = points.cycle(s(1), 0);
    assert_eq!((handovers(&actions).len(), lists(&actions)), (1, vec![vec!["b"]]));
}

#[test]
fn an_inactive_gateway_has_no_part_in_the_sum() {
    let mut points = points(|_| {});
    points.load(Some(s(1)), load("a", 1));
    points.load(Some(s(60)), load("b", 1));
    points.connected(s(1), nodes("a", 1, 0..100, true));
    points.connected(s(60), nodes("b", 1, 100..110, true));
    assert!(handovers(&points.cycle(s(60), 0)).is_empty());
    assert_eq!(points.counters().nodes, 10);
}

#[test]
fn a_handover_from_before_a_restart_is_not_sent_again() {
    let mut points = points(|settings| settings.reallocation.gain = 1.0);
    points.load(Some(s(1_000)), load("a", 1));
    points.load(Some(s(1_000)), load("b", 1));
    points.connected(s(1_000), nodes("a", 1, 0..4, true));
    points.connected(s(1_000), nodes("b", 1, 0..0, true));
    for (node, age) in [("n0", 30), ("n1", 30), ("n2", 30), ("n3", 601)] {
        let handover =
            Handover { node: node.into(), from: "b".into(), to: "a".into(), address: "a:1".into(), at_ms: 0 };
        points.remember(s(1_000), s(age), &handover);
    }
    let actions = points.cycle(s(1_000), 0);
    assert_eq!(handovers(&actions).iter().map(|it| it.node.as_str()).collect::<Vec<_>>(), ["n3"]);
}

#[test]
fn silence_of_nodes_makes_the_window_longer_for_all_gateways() {
    let mut points = points(|settings| settings.reconfig.damping = 1.0);
    points.load(Some(s(0)), load("a", 1));
    points.load(Some(s(0)), load("b", 1));
    points.cycle(s(0), 0);
    points.connected(s(20), nodes("a", 1, 0..10, false));
    points.connected(s(20), nodes("b", 1, 100..110, true));
    assert!(points.cycle(s(29), 0).iter().all(|action| !matches!(action, PointsAction::Configure(_))));
    let sent: Vec<_> =
        points.cycle(s(30), 0).into_iter().filter(|action| matches!(action, PointsAction::Configure(_))).collect();
    let config = |gateway: &str| {
        PointsAction::Configure(PingConfig { gateway: gateway.into(), interval_ms: 30_000, window_ms: 4_000 })
    };
    assert_eq!(sent, [config("a"), config("b")], "half of the pongs: twice the window");
    let statistics = points.statistics("b");
    assert_eq!((statistics.answered, statistics.ping_rate()), (10, Some(1.0)));
}

#[test]
fn numbers_beyond_all_measure_do_no_harm() {
    let mut points = points(|_| {});
    let most = u64::MAX;
    let absurd = |gateway: &str| LoadReport {
        period_ms: most,
        life: most,
        loop_lag_ms: most,
        connections: most,
        max_connections: most,
        queue_bytes: most,
        ..load(gateway, most)
    };
    for gateway in ["a", "b"] {
        points.load(Some(s(0)), absurd(gateway));
    }
    points.cycle(s(0), most);
    for (gateway, names) in [("a", 0..3), ("b", 3..5)] {
        let mut report = nodes(gateway, most, names, true);
        (report.window_ms, report.pinged, report.late) = (most, most, most);
        report.nodes[0].pong_us = Some(most);
        points.connected(s(20), report);
    }
    let sent = points.cycle(s(30), most);
    assert_eq!(lists(&sent), [["b", "a"]]);
    assert_eq!(points.counters().nodes, 5);
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let with = |smoothing| {
        let settings = PointsSettings { smoothing, ..PointsSettings::default() };
        Points::new(settings, Box::new(ConnectionsInverse)).is_err()
    };
    assert!(with(0.0) && with(1.1) && !with(1.0));
}

#[test]
fn nodes_of_a_cluster_are_listed_and_left_to_it() {
    let mut points = points(|settings| settings.reallocation.gain = 1.0);
    for number in 1..=3 {
        let now = s(2 * number);
        for (gateway, held) in [("a", 0..300), ("b", 300..310)] {
            points.load(Some(now), LoadReport { clustered: true, draining: gateway == "b", ..load(gateway, number) });
            points.connected(now, nodes(gateway, number, held, true));
        }
        points.load(Some(now), load("c", number));
        points.connected(now, nodes("c", number, 400..410, true));
        let actions = points.cycle(now, 0);
        assert!(handovers(&actions).is_empty(), "{actions:?}");
        let list =
            actions.iter().find_map(|action| if let PointsAction::List(list) = action { Some(list) } else { None });
        if let Some(list) = list {
            let listed: Vec<_> = list.gateways.iter().map(|it| (&*it.name, it.nodes, it.ideal)).collect();
            assert_eq!(listed, [("c", 10, 10), ("a", 300, 300)], "the draining gateway is not in it");
        }
    }
    assert_eq!(points.counters().nodes, 320);
}
