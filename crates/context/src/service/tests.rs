//! Gateways with simulated nodes, on a bus within this process. Tests wait for their expected events, never for a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tidegate_bus::{Address, Bus, Position, Settings};

use super::courier::{Following, key_of};
use super::*;
use crate::groups::{MembershipChange, read_groups};
use crate::messages::{GWList, Payload, PingConfig};
use crate::partition::partition_of;
use crate::points::{Points, PointsSettings};
use crate::ranking::ConnectionsInverse;
use crate::register::Topic;
use tidegate_document::FileText;

/// After how long a test that still waits has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many groups the gateways of these tests let a node be in.
const MAX_GROUPS_OF_A_NODE: usize = 8;

#[derive(Default)]
struct State {
    /// The gateway of each node.
    at: BTreeMap<String, String>,
    contexts: BTreeMap<String, VecDeque<NodeContext>>,
    pongs: BTreeMap<String, VecDeque<(String, Instant)>>,
    lists: BTreeMap<String, GWList>,
    groups: BTreeMap<String, BTreeSet<String>>,
    changes: usize,
    handovers: usize,
    /// The message of a client at a gateway as a definer.
    said: BTreeMap<String, (String, Vec<u8>)>,
    draining: BTreeSet<String>,
    /// Gateways that were asked for their load, and report it.
    reporting: BTreeSet<String>,
    /// Nodes that answer no ping.
    silent: BTreeSet<String>,
}

/// All gateways and their nodes.
#[derive(Clone, Default)]
struct World(Arc<(Mutex<State>, Condvar)>);

impl World {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let outcome = change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
        outcome
    }

    /// Waits until something holds; says how long that took.
    fn until(&self, awaited: &str, holds: impl Fn(&State) -> bool) -> Duration {
        let began = Instant::now();
        let mut state = self.0.0.lock().unwrap();
        while !holds(&state) {
            assert!(began.elapsed() < PATIENCE, "{awaited}: {:?} {:?}", counts(&state), state.groups);
            state = self.0.1.wait_timeout(state, Duration::from_millis(200)).unwrap().0;
        }
        began.elapsed()
    }

    fn gateway(&self, courier: &Courier, name: &str) -> (Running, Bell) {
        let settings = GatewaySettings {
            name: name.into(),
            address: format!("{name}.example:1883"),
            load_period: Duration::from_millis(50),
            connection_period: Duration::from_millis(50),
            max_connections: 0,
            clustered: false,
        };
        let (bell, host) = (Bell::default(), TestHost { world: self.clone(), name: name.into() });
        let running = start_gateway(courier.clone(), settings, Box::new(host), bell.clone()).unwrap();
        (running, bell)
    }

    fn send_context(&self, gateway: &str, bell: &Bell, node: &str, context: &str) {
        let context = NodeContext { node: node.into(), context: context.into(), answer: Answer::new(drop) };
        self.change(|state| state.contexts.entry(gateway.into()).or_default().push_back(context));
        bell.ring();
    }
}

fn counts(state: &State) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for gateway in state.at.values() {
        *counts.entry(gateway.clone()).or_default() += 1;
    }
    counts
}

struct TestHost {
    world: World,
    name: String,
}

impl Host for TestHost {
    fn load(&mut self) -> Option<HostLoad> {
        let draining = self.world.change(|state| {
            state.reporting.insert(self.name.clone());
            state.draining.contains(&self.name)
        });
        Some(HostLoad { memory_total: 100, memory_available: 50, draining, ..HostLoad::default() })
    }

    fn nodes(&mut self, rtt: bool) -> Option<Vec<HostNode>> {
        let node = |(id, _): (&String, &String)| HostNode { id: id.clone(), rtt_us: rtt.then_some(700) };
        Some(self.world.change(|state| state.at.iter().filter(|(_, at)| **at == self.name).map(node).collect()))
    }

    fn ping(&mut self, nodes: &[Arc<str>], _window: Duration) -> Vec<Option<Instant>> {
        let at = Instant::now();
        self.world.change(|state| {
            let answering: Vec<_> = nodes.iter().filter(|node| !state.silent.contains(&***node)).collect();
            let pongs = answering.into_iter().map(|node| (node.to_string(), at + Duration::from_micros(300)));
            state.pongs.entry(self.name.clone()).or_default().extend(pongs);
        });
        vec![Some(at); nodes.len()]
    }

    fn forget_pings(&mut self) {}

    fn pong(&mut self) -> Option<(String, Instant)> {
        self.world.change(|state| state.pongs.get_mut(&self.name)?.pop_front())
    }

    fn advertisements(&mut self, _max: usize) -> Vec<ClientAdvertisement> {
        let said = self.world.change(|state| state.said.remove(&self.name));
        said.into_iter()
            .map(|(definer, payload)| ClientAdvertisement { definer, payload, answer: Answer::new(drop) })
            .collect()
    }

    fn contexts(&mut self, max: usize) -> Vec<NodeContext> {
        self.world.change(|state| {
            let contexts = state.contexts.entry(self.name.clone()).or_default();
            let count = max.min(contexts.len());
            contexts.drain(..count).collect()
        })
    }

    fn tell_list(&mut self, list: &[u8]) {
        let list = GWList::read(list).unwrap();
        self.world.change(|state| state.lists.insert(self.name.clone(), list));
    }

    fn hand_over(&mut self, node: &str, address: &str) {
        self.world.change(|state| {
            state.handovers += 1;
            let to = address.split('.').next().unwrap_or_default().to_owned();
            state.at.insert(node.to_owned(), to);
        });
    }

    fn set_groups(&mut self, changes: Vec<MembershipChange>) -> Vec<String> {
        self.world.change(|state| {
            let mut refused = Vec::new();
            for change in changes {
                state.changes += 1;
                let mut groups = state.groups.get(&change.node).cloned().unwrap_or_default();
                groups.extend(change.add);
                groups.retain(|group| !change.remove.contains(group));
                if groups.len() > MAX_GROUPS_OF_A_NODE {
                    refused.push(change.node);
                } else {
                    state.groups.insert(change.node, groups);
                }
            }
            refused
        })
    }
}

fn courier() -> Courier {
    let settings =
        Settings { lease: Duration::from_secs(1), max_release_time: Duration::from_millis(500), ..Settings::default() };
    Courier::new(Bus::open(&Address::Embedded, settings, Arc::new(|_| {})).unwrap(), 4)
}

fn manager(courier: &Courier, member: &str) -> Running {
    let settings = ManagerSettings { member: member.into(), cycle: Duration::from_millis(50) };
    let points = || {
        // On a busy machine reports come late: a gateway taken for gone for a moment would lose its nodes for good.
        let ping_interval = Duration::from_millis(200);
        let settings = PointsSettings { missed_windows: 40, ping_interval, ..PointsSettings::default() };
        Points::new(settings, Box::new(ConnectionsInverse)).ok()
    };
    start_manager(courier.clone(), &settings, points).unwrap()
}

fn definer(courier: &Courier, member: &str, text: &str) -> Running {
    let definition = Arc::new(read_groups(&FileText::new("g.toml", text)).unwrap());
    start_definer(courier.clone(), &DefinerSettings { member: member.into() }, definition).unwrap()
}

fn is_balanced(state: &State, gateways: &[&str]) -> bool {
    let (counts, ideal) = (counts(state), state.at.len() / gateways.len());
    gateways.iter().all(|name| counts.get(*name).copied().unwrap_or(0).abs_diff(ideal) * 50 <= ideal)
}

#[test]
fn nodes_are_balanced_over_three_gateways_and_know_them() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.extend((0..900).map(|node| (format!("n{node}"), "a".to_owned()))));
    let _gateways: Vec<_> = ["a", "b", "c"].iter().map(|name| world.gateway(&courier, name)).collect();
    // Of a gateway that comes later it would know only when it has moved nodes, which then stay for their cool-down.
    world.until("reports", |state| state.reporting.len() == 3);
    let _manager = manager(&courier, "m1");
    world.until("balance", |state| is_balanced(state, &["a", "b", "c"]));
    assert!(world.change(|state| state.handovers) < 900, "no node moves more than once to get there");
    world.until("lists", |state| {
        state.lists.len() == 3
            && state.lists.values().all(|list| list.gateways.len() == 3 && list.gateways[0].address.ends_with(":1883"))
    });
    world.until("statistics", |state| {
        state.lists.values().flat_map(|list| &list.gateways).any(|gateway| gateway.statistics.answered > 0)
    });
    // One is about to go: its nodes are moved, and it is listed no more.
    world.change(|state| state.draining.insert("b".into()));
    world.until("drain", |state| !state.at.values().any(|at| at == "b"));
    world.until("lists without it", |state| state.lists["a"].gateways.iter().all(|gateway| gateway.name != "b"));
}

#[test]
fn a_gateway_pings_by_its_last_configuration() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.insert("n".into(), "a".into()));
    let _gateway = world.gateway(&courier, "a");
    let configure = |gateway: &str, interval_ms| {
        let config = PingConfig { gateway: gateway.into(), interval_ms, window_ms: 20 };
        courier.tell(Topic::PingConfig, None, gateway, config.write());
    };
    world.until("its first report", |_| courier.counters().figures().load_reports > 0);
    // It ignores messages to other gateways, and messages older than the last one.
    configure("b", 10);
    configure("a", 3_600_000);
    configure("a", 40);
    world.until("pings as told last", |state| state.pongs.contains_key("a"));
    // A client of the bus may ask for a thousand rounds in a second, each with a report on all nodes.
    configure("a", 1);
    let counted = || courier.counters().figures();
    let (before, began) = (counted().pings, Instant::now());
    world.until("some rounds", |_| counted().pings >= before + 6);
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    configure("a", 0);
    let since = std::cell::Cell::new(counted());
    world.until("some reports without a ping between them", |_| {
        let (before, now) = (since.get(), counted());
        if now.pings > before.pings {
            since.set(now);
        }
        now.pings == before.pings && now.load_reports >= before.load_reports + 10
    });
}

#[test]
fn another_manager_takes_over_and_repeats_no_handover() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.extend((0..300).map(|node| (format!("n{node}"), "a".to_owned()))));
    let gateways: Vec<_> = ["a", "b"].iter().map(|name| world.gateway(&courier, name)).collect();
    let first = manager(&courier, "m1");
    world.until("balance", |state| is_balanced(state, &["a", "b"]));
    let _second = manager(&courier, "m2");
    drop(first);
    let before = world.change(|state| (state.handovers, state.lists["a"].number));
    let _third = world.gateway(&courier, "c");
    world.until("a list of the second manager with the third gateway", |state| {
        state.lists.get("c").is_some_and(|list| list.gateways.iter().any(|gateway| gateway.name == "c"))
    });
    // Half of the nodes were moved a moment ago: they stay under any manager.
    let moved = world.change(|state| state.handovers - before.0);
    assert!(moved <= 160, "{moved} of 300");
    drop(gateways);
}

const GROUPS: &str = r#"
    definer = "gd"
    [[group]]
    name = "fast"
    threshold = { field = "speed", above = 80, until = 70 }
    [[group]]
    name = "north"
    when = "context.latitude > 50"
"#;

fn is_in(state: &State, node: &str, groups: &[&str]) -> bool {
    state.groups.get(node).is_some_and(|are| are.iter().map(String::as_str).eq(groups.iter().copied()))
}

#[test]
fn a_context_puts_a_node_into_groups_at_its_gateway() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.insert("n".into(), "a".into()));
    let (_gateway, bell) = world.gateway(&courier, "a");
    let _definers = [definer(&courier, "d1", GROUPS), definer(&courier, "d2", GROUPS)];
    world.send_context("a", &bell, "n", r#"{"speed": 90, "latitude": 53.5}"#);
    world.until("two groups", |state| is_in(state, "n", &["fast", "north"]));
    world.send_context("a", &bell, "n", r#"{"speed": 75, "latitude": 40.0}"#);
    let took = world.until("one group", |state| is_in(state, "n", &["fast"]));
    println!("a change of groups reached the gateway after {took:?}");
    // Another gateway hears of it when the node comes there.
    let (_other, _) = world.gateway(&courier, "b");
    world.change(|state| {
        state.groups.clear();
        state.at.insert("n".into(), "b".into())
    });
    world.until("its groups at the other gateway", |state| is_in(state, "n", &["fast"]));
}

#[test]
fn an_unusable_context_on_the_bus_is_counted() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.insert("n".into(), "a".into()));
    // The test appends records before a service has made the logs.
    courier.prepare(&Topic::ALL, &Course::new("test")).unwrap();
    let _gateway = world.gateway(&courier, "a");
    let _definer = definer(&courier, "d1", GROUPS);
    let put = |node: &str, context: &str| courier.tell(Topic::ContextReport, Some("n"), node, context.into());
    put("x", "[1]");
    put("y", &" ".repeat(crate::groups::MAX_CONTEXT_BYTES + 1));
    put("n", r#"{"speed": 90}"#);
    world.until("what can be used", |state| is_in(state, "n", &["fast"]));
    let figures = courier.counters().figures();
    assert_eq!((figures.left_out_not_json, figures.left_out_too_long), (1, 1));
}

#[test]
fn a_definer_that_returns_repeats_nothing() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.extend(["n", "m"].map(|node| (node.to_owned(), "a".to_owned()))));
    let (_gateway, bell) = world.gateway(&courier, "a");
    let first = definer(&courier, "d1", GROUPS);
    world.send_context("a", &bell, "n", r#"{"speed": 90}"#);
    world.until("a group", |state| is_in(state, "n", &["fast"]));
    drop(first);
    // Without a definer, one stays within the hysteresis, the other one comes into a group.
    world.send_context("a", &bell, "n", r#"{"speed": 75}"#);
    world.send_context("a", &bell, "m", r#"{"speed": 95}"#);
    let before = world.change(|state| state.changes);
    let _second = definer(&courier, "d2", GROUPS);
    world.until("what happened meanwhile", |state| is_in(state, "m", &["fast"]));
    world.send_context("a", &bell, "m", r#"{"speed": 10}"#);
    world.until("what happens now", |state| is_in(state, "m", &[]));
    let (changes, n) = world.change(|state| (state.changes - before, state.groups["n"].clone()));
    assert_eq!((changes, n.len()), (2, 1), "only the other node's groups were told");
}

#[test]
fn a_client_can_be_a_definer() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.insert("n".into(), "a".into()));
    let (_a, bell) = world.gateway(&courier, "a");
    let say = |definer: &str, text: &str| {
        world.change(|state| state.said.insert("a".into(), (definer.into(), text.into())));
        bell.ring();
    };
    say("mine", r#"{"definer": "mine", "node": "n", "groups": ["g1"]}"#);
    world.until("its group", |state| is_in(state, "n", &["g1"]));
    say("other", r#"{"definer": "mine", "node": "n", "groups": ["stolen"]}"#);
    say("mine", r#"{"definer": "mine", "members": {"n": ["g2"]}}"#);
    world.until("its other group", |state| is_in(state, "n", &["g2"]));
}

/// A gateway that is started again reads the partitions side by side: in another partition, the report on one node
/// could come after the report that has replaced it.
#[test]
fn a_definers_messages_keep_their_order_for_later_gateways() {
    let (world, courier) = (World::default(), courier());
    let (_gateway, bell) = world.gateway(&courier, "a");
    let of_one = |node: usize| format!(r#"{{"definer": "mine", "node": "n{node}", "groups": ["g1"]}}"#);
    let of_all = r#"{"definer": "mine", "node": "n1", "groups": ["g2"], "members": {"n0": ["g2"]}}"#.to_owned();
    for text in (0..8).map(of_one).chain([of_all]) {
        world.change(|state| state.said.insert("a".into(), ("mine".into(), text.into())));
        bell.ring();
        world.until("a gateway takes it", |state| state.said.is_empty());
    }
    let (heard, partitions) = (Bell::default(), 0..courier.partitions());
    let read = |partition| Following::new(&courier, Topic::GroupAdvertisement, partition, Position::START, &heard);
    let (mut logs, mut keys, began) = (partitions.map(read).collect::<Vec<_>>(), Vec::new(), Instant::now());
    while !keys.contains(&(partition_of(b"mine", courier.partitions()), "mine".to_owned())) {
        assert!(began.elapsed() < PATIENCE, "{keys:?}");
        for (partition, log) in (0..).zip(&mut logs) {
            let records = log.take(&courier, &heard, 16);
            keys.extend(records.iter().map(|record| (partition, key_of(record).unwrap().to_owned())));
        }
        heard.wait_until(Instant::now() + Duration::from_millis(20));
    }
    let wanted = (0..8).map(|node| format!("mine/n{node}")).chain(["mine".to_owned()]);
    let wanted: Vec<_> = wanted.map(|key| (partition_of(b"mine", courier.partitions()), key)).collect();
    assert_eq!(keys, wanted);
}

#[test]
fn definers_with_other_rules_stand_side_by_side() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.insert("n".into(), "a".into()));
    let (_gateway, bell) = world.gateway(&courier, "a");
    let other = "definer = 'other'\n[[group]]\nname = 'all'\nwhen = 'true'\n";
    let _definers = [definer(&courier, "d", GROUPS), definer(&courier, "d", other)];
    world.send_context("a", &bell, "n", r#"{"speed": 90}"#);
    world.until("groups of both", |state| is_in(state, "n", &["all", "fast"]));
}

#[test]
fn a_node_in_too_many_groups_is_counted_and_set_as_a_whole() {
    let (world, courier) = (World::default(), courier());
    world.change(|state| state.at.insert("n1".into(), "a".into()));
    let (_gateway, bell) = world.gateway(&courier, "a");
    let say = |groups: std::ops::Range<usize>| {
        let groups: Vec<String> = groups.map(|group| format!("\"g{group}\"")).collect();
        let said = format!(r#"{{"definer":"mine","node":"n1","groups":[{}]}}"#, groups.join(","));
        world.change(|state| state.said.insert("a".into(), ("mine".into(), said.into_bytes())));
        bell.ring();
    };
    let are = |wanted: std::ops::Range<usize>| {
        let wanted: BTreeSet<String> = wanted.map(|group| format!("g{group}")).collect();
        world.until("groups", |state| state.groups.get("n1") == Some(&wanted));
    };
    say(0..3);
    are(0..3);
    say(2..12);
    while courier.counters().figures().left_out_groups == 0 {
        std::thread::yield_now();
    }
    are(0..3);
    // It leaves groups that it never came to be in, and stays in some of them.
    say(4..10);
    are(4..10);
    assert_eq!(courier.counters().figures().left_out_groups, 1);
}
