//! The counts of the lab equal the counts of the double.

use proptest::prelude::*;

use super::outcome::LoadOutcome;
use super::plan::{
    Arrival, ClientGroup, ConnectOptions, Disturbance, LoadPlan, Node, Pace, Payload, Protocol, Publishing, Ramp, Rate,
    Role, Slow, Subscribing, Target, Topics,
};
use super::simulated::Simulated;
use crate::double::{Behaviour, Delay, Records, Stall};

const MILLI: u64 = 1_000_000;

fn publishing(pattern: &str, qos: u8, pace: Pace) -> Publishing {
    let topics = Topics::one(pattern);
    Publishing { topics, qos, retain: false, payload: Payload::fixed(32), pace, messages: None, expiry_s: None }
}

fn open(rate: f64) -> Pace {
    Pace::Open { rate: Rate::PerClient(rate), arrival: Arrival::Uniform }
}

fn plan(duration_ms: u64, groups: Vec<ClientGroup>) -> LoadPlan {
    let mut plan = LoadPlan::new(Target::tcp("double", 1883), duration_ms);
    plan.groups = groups;
    plan.protocol = Protocol::V5;
    plan.seed = 7;
    plan
}

/// Subscribers of everything, and publishers of a topic each.
fn mesh(subscribers: u32, publishers: u32, qos: u8, pace: Pace) -> Vec<ClientGroup> {
    vec![
        ClientGroup::new("subscribers", subscribers, Role::Subscriber(Subscribing::to("t/+", qos))),
        ClientGroup::new("publishers", publishers, Role::Publisher(publishing("t/{client}", qos, pace))),
    ]
}

/// Compares the counts of the lab with the counts of the double.
fn agree(outcome: &LoadOutcome, records: &Records) {
    let counts = &outcome.counts;
    assert_eq!(counts.sent, records.published);
    assert_eq!(counts.offered, counts.sent + outcome.losses.unsent);
    assert_eq!(counts.received, records.delivered);
    assert_eq!(counts.duplicates, records.duplicated);
    assert_eq!(counts.reordered, records.reordered);
    assert_eq!(counts.refused, records.refused);
    assert_eq!(counts.lost(), outcome.losses.deliveries());
    assert_eq!(counts.foreign, 0);
    let pairs = |histogram: &super::Histogram| histogram.pairs().collect::<Vec<_>>();
    assert_eq!(pairs(&outcome.latency), pairs(&records.delays), "every delay, and how often it occurred");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn published_messages_are_received(
        (subscribers, publishers, qos, rate) in (1..5_u32, 1..5_u32, 0..3_u8, 1.0..300.0),
        (drop, duplicate, reorder) in (0.0..0.3, 0.0..0.3, 0.0..0.3),
        (min_ns, spread_ns) in (0..5 * MILLI, 0..50 * MILLI),
        seed: u64,
    ) {
        let delay = Delay::Uniform { min_ns, max_ns: min_ns + spread_ns };
        let behaviour = Behaviour { delay, drop, duplicate, reorder, seed, ..Behaviour::default() };
        let (outcome, records) = Simulated::run(plan(1000, mesh(subscribers, publishers, qos, open(rate))), behaviour);
        agree(&outcome, &records);
        prop_assert_eq!(outcome.counts.due, outcome.counts.sent * u64::from(subscribers));
        prop_assert_eq!(outcome.counts.lost(), records.dropped);
        prop_assert_eq!(outcome.losses.unknown, records.dropped, "no client was away");
        let acknowledged = if qos == 0 { 0 } else { outcome.counts.sent };
        prop_assert_eq!(outcome.counts.acknowledged, acknowledged);
    }
}

#[test]
fn an_open_loop_offers_its_rate() {
    let (outcome, records) = Simulated::run(plan(2000, mesh(1, 4, 1, open(50.0))), Behaviour::default());
    agree(&outcome, &records);
    assert_eq!(outcome.counts.offered, 4 * 50 * 2);
    assert!(outcome.latency.max() < 100, "the network takes no time here");
}

#[test]
fn a_refused_message_is_due_and_its_loss_has_a_cause() {
    let behaviour = Behaviour { refuse: 0.2, seed: 3, ..Behaviour::default() };
    let (outcome, records) = Simulated::run(plan(1000, mesh(2, 1, 1, open(500.0))), behaviour);
    agree(&outcome, &records);
    assert!(records.refused > 50, "{}", records.refused);
    assert_eq!(outcome.losses.refused, 2 * records.refused);
    assert_eq!(outcome.counts.acknowledged, 500 - records.refused);
}

/// A broker that usually takes 1 ms and stalls once for a second, at a rate of 100 messages a second.
fn stalled(pace: Pace) -> LoadOutcome {
    let stalls = vec![Stall { at_ns: 2_000 * MILLI, for_ns: 1_000 * MILLI }];
    let behaviour = Behaviour { delay: Delay::Fixed(MILLI), stalls, ..Behaviour::default() };
    Simulated::run(plan(10_000, mesh(1, 1, 0, pace)), behaviour).0
}

#[test]
fn an_open_loop_counts_a_stall_and_a_closed_one_hides_it() {
    let open = stalled(open(100.0));
    assert_eq!(open.counts.received, 1000);
    // Those scheduled in the stall wait for its end: 1 s, 990 ms, and so on, and so the ninth part waits 10 ms and
    // more.
    let waited = open.latency.above(2 * MILLI);
    assert_eq!(waited, 100);
    assert!(open.latency.at(0.95) > 400 * MILLI, "{}", open.latency.at(0.95));
    assert!(open.latency.at(0.99) > 850 * MILLI, "{}", open.latency.at(0.99));

    let closed = stalled(Pace::Closed { window: 1 });
    assert_eq!(closed.latency.above(2 * MILLI), 1, "while it waits it asks for nothing, and so nothing else is late");
    assert!(closed.latency.at(0.999) < 2 * MILLI, "{}", closed.latency.at(0.999));
    assert!(closed.latency.max() > 990 * MILLI);
}

#[test]
fn a_delayed_generator_counts_from_the_due_times() {
    let mut simulated = Simulated::new(plan(3_000, mesh(1, 1, 0, open(100.0))), Behaviour::default());
    while simulated.now_ns() < 1_000 * MILLI {
        assert!(simulated.advance());
    }
    simulated.hold_up(500 * MILLI);
    while simulated.advance() {}
    let outcome = simulated.conclude();
    assert_eq!(outcome.counts.received, 300, "messages due meanwhile are sent nevertheless");
    assert_eq!(outcome.latency.above(MILLI), 49, "490 ms, 480 ms, and so on");
    assert!(outcome.latency.max().abs_diff(490 * MILLI) < MILLI, "{}", outcome.latency.max());
    assert!(outcome.generator.lag.max().abs_diff(490 * MILLI) < MILLI, "{}", outcome.generator.lag.max());
}

#[test]
fn a_late_message_and_a_lost_one_miss_their_deadline() {
    let delay = Delay::Mixed { usual_ns: MILLI, rare_ns: 30 * MILLI, share: 0.1 };
    let behaviour = Behaviour { delay, drop: 0.05, seed: 5, ..Behaviour::default() };
    let mut plan = plan(10_000, mesh(1, 1, 0, open(10.0)));
    plan.deadline_ms = Some(20);
    let (outcome, records) = Simulated::run(plan, behaviour);
    let late = records.delays.above(20 * MILLI);
    assert!(late > 0 && records.dropped > 0);
    assert_eq!(outcome.counts.late, late);
    assert_eq!(outcome.counts.deadline_misses, late + records.dropped);
}

#[test]
fn a_closed_loop_keeps_its_window_after_a_loss() {
    let behaviour = Behaviour { delay: Delay::Fixed(10 * MILLI), drop: 0.1, seed: 9, ..Behaviour::default() };
    let (outcome, records) = Simulated::run(plan(5_000, mesh(2, 1, 0, Pace::Closed { window: 20 })), behaviour);
    agree(&outcome, &records);
    assert!(outcome.counts.sent <= 20 * 500 + 20, "at most a window in each delay: {}", outcome.counts.sent);
    assert!(outcome.counts.sent > 20 * 300, "losses in the middle of a window do not stop it: {}", outcome.counts.sent);
}

#[test]
fn a_message_limit_ends_a_run_and_excludes_the_warm_up() {
    let mut groups = mesh(1, 2, 1, open(100.0));
    let Role::Publisher(publishing) = &mut groups[1].role else { panic!("the publishers") };
    publishing.messages = Some(30);
    let mut plan = plan(60_000, groups);
    plan.warm_up_ms = 500;
    let (outcome, records) = Simulated::run(plan, Behaviour::default());
    assert_eq!((outcome.counts.sent, outcome.counts.received, outcome.counts.warm_up), (60, 60, 100));
    assert_eq!(records.published, 160);
    assert!(outcome.last_ns < 1_000 * MILLI, "{}", outcome.last_ns);
    assert!(outcome.measured_seconds() < 0.5, "{}", outcome.measured_seconds());
}

#[test]
fn an_absent_client_loses_messages_with_a_known_cause() {
    let mut groups = mesh(4, 1, 0, open(100.0));
    groups[0].disturbances = vec![Disturbance::Storm { share: 0.5, at_ms: 1_005, offline_ms: 500 }];
    let (outcome, records) = Simulated::run(plan(3_000, groups), Behaviour::default());
    agree(&outcome, &records);
    assert_eq!(outcome.losses.disconnect, 2 * 50);
    assert_eq!(outcome.losses.deliveries(), 2 * 50);
    assert_eq!(outcome.connections.accepted, 5 + 2);
    assert_eq!(outcome.connections.lost, 0, "they went on their own");
}

#[test]
fn the_longest_silence_is_exact_and_includes_the_end() {
    let longest = |storm: Option<(u64, u64)>| {
        let mut groups = mesh(1, 1, 0, open(100.0));
        let storm = storm.map(|(at_ms, offline_ms)| Disturbance::Storm { share: 1.0, at_ms, offline_ms });
        groups[0].disturbances = storm.into_iter().collect();
        Simulated::run(plan(3_000, groups), Behaviour::default()).0.silence_ns.unwrap() / MILLI
    };
    assert!(longest(None) < 15, "messages come every 10 ms");
    assert!((500..520).contains(&longest(Some((1_005, 500)))));
    assert!((1_980..2_020).contains(&longest(Some((1_005, 10_000)))), "nothing came after that");
}

#[test]
fn a_client_away_too_long_loses_messages_to_expiry() {
    for (offline_ms, expired, disconnected) in [(2_500, 2 * 250, 0), (500, 0, 2 * 50)] {
        let mut groups = mesh(4, 1, 0, open(100.0));
        groups[0].disturbances = vec![Disturbance::Storm { share: 0.5, at_ms: 1_005, offline_ms }];
        let Role::Publisher(publishing) = &mut groups[1].role else { panic!("a publisher") };
        publishing.expiry_s = Some(1);
        let mut plan = plan(5_000, groups);
        plan.protocol = Protocol::V5;
        let (outcome, records) = Simulated::run(plan, Behaviour::default());
        agree(&outcome, &records);
        assert_eq!((outcome.losses.expiry, outcome.losses.disconnect), (expired, disconnected));
    }
}

#[test]
fn requests_return_and_a_survey_is_answered_by_all() {
    let asking = |filter: &str| Role::Requester {
        requests: publishing("ask/{client}", 1, open(20.0)),
        answers: Subscribing::to(filter, 1),
    };
    let (from, to) = ("ask".to_owned(), "answer".to_owned());
    let subscribing = Subscribing::to("ask/+", 1);
    let delay = Delay::Fixed(3 * MILLI);
    let relay = Role::Relay {
        subscribing: subscribing.clone(),
        from: from.clone(),
        to: to.clone(),
        qos: 1,
        work_us: 0,
        encoding: None,
    };
    let groups = vec![ClientGroup::new("service", 1, relay), ClientGroup::new("nodes", 3, asking("answer/{client}"))];
    let (outcome, _) = Simulated::run(plan(1_000, groups), Behaviour { delay, ..Behaviour::default() });
    assert_eq!(outcome.latency.count(), 60);
    assert!(outcome.latency.min().abs_diff(6 * MILLI) < MILLI / 100, "there and back");
    assert!(outcome.groups[0].latency.max().abs_diff(3 * MILLI) < MILLI / 100, "there");
    assert_eq!((outcome.counts.due, outcome.counts.lost()), (120, 0));

    let respondents = Role::Respondent { subscribing, from, to, qos: 1 };
    let groups = vec![ClientGroup::new("asked", 5, respondents), ClientGroup::new("asks", 1, asking("answer/#"))];
    let behaviour = Behaviour { delay, ..Behaviour::default() };
    let (outcome, _) = Simulated::run(plan(1_000, groups), behaviour);
    assert_eq!(outcome.groups[1].counts.received, 20 * 5);
    assert_eq!((outcome.counts.duplicates, outcome.counts.lost()), (0, 0));
}

#[test]
fn each_shared_message_is_due_to_one_member() {
    let mut sharing = Subscribing::to("t/+", 1);
    sharing.shared = Some("workers".to_owned());
    let mut groups = mesh(3, 2, 1, open(100.0));
    groups.push(ClientGroup::new("workers", 4, Role::Subscriber(sharing)));
    let behaviour = Behaviour { drop: 0.1, seed: 2, ..Behaviour::default() };
    let (outcome, records) = Simulated::run(plan(1_000, groups), behaviour);
    agree(&outcome, &records);
    assert_eq!(outcome.counts.due, 200 * (3 + 1));
    assert_eq!(outcome.counts.lost(), records.dropped);
}

#[test]
fn a_ladder_lets_clients_in_step_by_step() {
    let mut plan = plan(100, vec![ClientGroup::new("idle", 10, Role::Idle)]);
    plan.ramp = Ramp::Steps { clients: 4, every_ms: 1_000 };
    plan.groups[0].connect = ConnectOptions { keep_alive_s: 1, ..ConnectOptions::default() };
    let mut simulated = Simulated::new(plan, Behaviour { refuse_client: 0.3, seed: 1, ..Behaviour::default() });
    let mut begun = Vec::new();
    while simulated.advance() {
        begun.push((simulated.now_ns() / MILLI, simulated.core.dialled()));
    }
    assert!(begun.contains(&(0, 4)) && begun.contains(&(1_000, 8)) && begun.contains(&(2_000, 10)), "{begun:?}");
    let outcome = simulated.conclude();
    assert!(
        begun.last().is_some_and(|(at_ms, _)| *at_ms >= 2_100),
        "without publishers, clients stay for the time: {begun:?}"
    );
    assert_eq!(outcome.connections.accepted + outcome.connections.refused, 10);
    assert!(outcome.connections.refused > 0);
}

#[test]
fn a_relay_with_work_to_do_takes_one_message_after_the_other() {
    let requests = Role::Requester {
        requests: publishing("ask/{client}", 1, open(1.0)),
        answers: Subscribing::to("answer/{client}", 1),
    };
    let relay = Role::Relay {
        subscribing: Subscribing::to("ask/+", 1),
        from: "ask".to_owned(),
        to: "answer".to_owned(),
        qos: 1,
        work_us: 400_000,
        encoding: None,
    };
    let mut nodes = ClientGroup::new("nodes", 2, requests);
    nodes.rounds = true;
    let mut plan = plan(3_000, vec![ClientGroup::new("service", 1, relay), nodes]);
    plan.drain_ms = 10_000;
    let (outcome, _) = Simulated::run(plan, Behaviour::default());
    let rounds = outcome.groups[1].rounds.clone().unwrap();
    assert_eq!((rounds.nodes, rounds.complete, rounds.offered, rounds.returned), (2, 2, 6, 6));
    // Two a second take 0.8 s of a second, with half a second between them: no client waits.
    assert!(outcome.latency.max().abs_diff(400 * MILLI) < MILLI, "{}", outcome.latency.max());
    assert_eq!(rounds.order.iter().map(|step| step.returned).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn work_that_comes_faster_than_it_is_done_waits() {
    let requests = Role::Requester {
        requests: publishing("ask/{client}", 0, open(10.0)),
        answers: Subscribing::to("answer/{client}", 0),
    };
    let (subscribing, from, to) = (Subscribing::to("ask/+", 0), "ask".to_owned(), "answer".to_owned());
    let relay = Role::Relay { subscribing, from, to, qos: 0, work_us: 200_000, encoding: None };
    let mut plan = plan(1_000, vec![ClientGroup::new("service", 1, relay), ClientGroup::new("node", 1, requests)]);
    plan.drain_ms = 10_000;
    let (outcome, _) = Simulated::run(plan, Behaviour::default());
    assert_eq!(outcome.groups[1].counts.received, 10);
    assert!(
        outcome.latency.max().abs_diff(1_100 * MILLI) < 2 * MILLI,
        "the tenth came after 0.9 s and is done after 2 s"
    );
}

#[test]
fn clients_are_dealt_to_all_places_and_go_where_they_are_sent() {
    let mut plan = plan(1_000, mesh(4, 2, 1, open(10.0)));
    plan.target.others = vec![Node { host: "double".to_owned(), port: 1884 }];
    plan.groups[1].connect.places = 1;
    let mut simulated = Simulated::new(plan, Behaviour::default());
    while simulated.core.phase() != super::core::Phase::Publishing {
        assert!(simulated.advance());
    }
    let places: Vec<_> = (0..6).map(|client| simulated.core.clients().address_of(client * 2)).collect();
    assert_eq!(places, [0, 1, 0, 1, 0, 0]);
    let mut packet = Vec::new();
    let disconnect = tidegate_mqtt::Disconnect {
        server_reference: Some("double:1884"),
        ..tidegate_mqtt::Disconnect::new(tidegate_mqtt::ReasonCode::UseAnotherServer)
    };
    disconnect.encode(tidegate_mqtt::Version::V5, &mut packet).unwrap();
    simulated.core.received(0, &packet, simulated.now_ns()).unwrap();
    while simulated.advance() {}
    let outcome = simulated.conclude();
    assert_eq!(outcome.connections.handed_over, 1);
    assert_eq!(outcome.connections.at_places, [3, 3]);
    assert_eq!(outcome.connections.lost, 0);
}

#[test]
fn an_addressed_client_does_not_subscribe() {
    let mut groups = mesh(2, 1, 1, open(10.0));
    let Role::Subscriber(subscribing) = &mut groups[0].role else { panic!("the subscribers") };
    subscribing.addressed = true;
    let (outcome, records) = Simulated::run(plan(1_000, groups), Behaviour::default());
    assert_eq!((outcome.subscribing.count(), records.delivered), (0, 0));
    assert_eq!(outcome.counts.due, 20, "all is due to them all the same");
}

#[test]
fn slow_readers_do_not_count_in_the_latency_of_all() {
    let mut groups = mesh(1, 1, 0, open(100.0));
    let mut slow = ClientGroup::new("slow", 1, Role::Subscriber(Subscribing::to("t/+", 0)));
    let Role::Subscriber(subscribing) = &mut slow.role else { panic!("a subscriber") };
    subscribing.slow = Some(Slow { bytes: 1, every_ms: 1_000 });
    groups.push(slow);
    let behaviour = Behaviour { drop: 0.1, seed: 4, ..Behaviour::default() };
    let (outcome, _) = Simulated::run(plan(1_000, groups), behaviour);
    assert_eq!(outcome.latency.count(), outcome.groups[0].counts.received);
    assert!(outcome.losses.overflow > 0, "{:?}", outcome.losses);
}

#[test]
fn refusals_are_counted_by_their_reason() {
    let refuse =
        Behaviour { refuse: 0.3, refuse_client: 0.3, refuse_subscription: 0.3, seed: 6, ..Behaviour::default() };
    let (outcome, records) = Simulated::run(plan(1_000, mesh(20, 10, 1, open(10.0))), refuse);
    let refusals = [records.clients_refused, records.refused, records.subscriptions_refused];
    assert!(refusals.iter().all(|times| *times > 1), "{refusals:?}");
    let told: Vec<(&str, u64)> = outcome.problems.iter().map(|(problem, times)| (problem.as_str(), *times)).collect();
    let begins = [
        "client: server unavailable (0x88); look",
        "message: quota exceeded (0x97); raise",
        "subscription: not authorized (0x87); give",
    ];
    assert_eq!(told.len(), begins.len(), "{told:?}");
    for ((begin, due), (problem, times)) in begins.into_iter().zip(refusals).zip(told) {
        assert!(problem.starts_with(&format!("the broker refused a {begin}")), "{problem}");
        assert_eq!(times, due, "{problem}");
    }
    let nothing = Simulated::run(plan(100, mesh(2, 2, 1, open(100.0))), Behaviour::default()).0;
    assert!(nothing.problems.is_empty(), "{:?}", nothing.problems);
}
