//! The cluster of orchestrators in the model of the world, and cases about it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::*;
use super::kills::{Event, Run};
use super::world::{Life, settings};
use crate::level::Level;
use crate::provider::ResourceName;

const PARTITIONS: usize = 64;
/// Partitions that move in a turn.
const AT_ONCE: usize = 8;
/// Turns without a sign of life after which others take over.
const LEASE: u32 = 3;

/// A cluster: each partition has one home, and members share them by themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    epoch: u64,
    /// How many partitions each member of the table works.
    shares: BTreeMap<ResourceName, usize>,
    /// Processes that were asked to take a share since their start.
    asked: BTreeSet<ResourceName>,
    /// Processes that have read a table since their start.
    informed: BTreeSet<ResourceName>,
    /// Processes that were there in the last turn.
    online: BTreeSet<ResourceName>,
    /// Turns for which members have been silent.
    silent: BTreeMap<ResourceName, u32>,
}

impl Cluster {
    pub(super) fn count(&self, name: &ResourceName) -> usize {
        self.shares.get(name).copied().unwrap_or_default()
    }

    pub(super) fn members(&self) -> usize {
        self.shares.len()
    }

    /// Whether every partition has a home. Before, no member is ready for the first time.
    pub(super) fn is_settled(&self) -> bool {
        self.shares.values().sum::<usize>() == PARTITIONS
    }

    pub(super) fn set_share(&mut self, name: &ResourceName, wanted: bool) {
        if wanted {
            self.asked.insert(name.clone());
            self.shares.entry(name.clone()).or_default();
        } else {
            self.asked.remove(name);
        }
        self.epoch += 1;
    }

    /// A turn passes: members die, and partitions move. Returns a violation of the rule that there are always as many.
    pub(super) fn turn(&mut self, _now: u64, online: &BTreeSet<ResourceName>) -> Option<String> {
        let had = !self.shares.is_empty();
        // A process that starts again has not been asked yet.
        self.asked.retain(|name| online.contains(name));
        // It reads a table in its second turn.
        self.informed = online.intersection(&self.online).cloned().collect();
        self.online.clone_from(online);
        // A member has no share before it is asked.
        for name in &self.informed {
            self.shares.entry(name.clone()).or_default();
        }
        for name in self.shares.keys() {
            let silent = self.silent.entry(name.clone()).or_default();
            *silent = if online.contains(name) { 0 } else { *silent + 1 };
        }
        let is_there = |name: &&ResourceName| online.contains(*name) && self.shares.contains_key(*name);
        let willing: Vec<ResourceName> = self.asked.iter().filter(is_there).cloned().collect();
        let heirs = if willing.is_empty() {
            self.shares.keys().filter(|name| online.contains(*name)).cloned().collect()
        } else {
            willing.clone()
        };
        // The first homes are members that are willing.
        let mut free = if self.shares.values().sum::<usize>() == 0 && !willing.is_empty() { PARTITIONS } else { 0 };
        let dead: Vec<ResourceName> =
            self.shares.keys().filter(|name| self.silent[*name] >= LEASE && !heirs.is_empty()).cloned().collect();
        for name in dead {
            free += self.shares.remove(&name).unwrap_or_default();
            self.silent.remove(&name);
            self.epoch += 1;
        }
        for at in 0..free {
            *self.shares.entry(heirs[at % heirs.len()].clone()).or_default() += 1;
        }
        self.balance(&willing, online);
        let all: usize = self.shares.values().sum();
        (had && all != PARTITIONS && all != 0).then(|| format!("{all} partitions have a home"))
    }

    fn balance(&mut self, willing: &[ResourceName], online: &BTreeSet<ResourceName>) {
        for _ in 0..AT_ONCE {
            let leaving = self
                .shares
                .iter()
                .filter(|(name, count)| **count > 0 && online.contains(*name) && !willing.contains(name));
            let leaving = leaving.map(|(name, _)| name.clone()).next();
            let most = willing.iter().max_by_key(|name| self.count(name)).cloned();
            let Some(least) = willing.iter().min_by_key(|name| self.count(name)).cloned() else { return };
            let Some(from) = leaving.clone().or(most) else { return };
            if from == least || leaving.is_none() && self.count(&from) <= self.count(&least) + 1 {
                return;
            }
            *self.shares.entry(from).or_default() -= 1;
            *self.shares.entry(least).or_default() += 1;
            self.epoch += 1;
        }
    }

    pub(super) fn view(&self, name: &ResourceName) -> ClusterView {
        if !self.informed.contains(name) {
            return ClusterView::default();
        }
        ClusterView {
            is_member: self.shares.contains_key(name),
            wants_share: self.asked.contains(name),
            epoch: self.epoch,
            partitions: self.shares.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
            ..ClusterView::default()
        }
    }
}

/// Two orchestrators, then three, then one, while one of them and a broker die.
fn scripts() -> [Vec<(u64, u32)>; 2] {
    [vec![(0, 2)], vec![(0, 2), (60_000, 3), (140_000, 2), (260_000, 1)]]
}

const TURNS: usize = 420;

fn run(deaths: &[(usize, bool)]) -> Run {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, scripts());
    run.turns(TURNS, deaths, &[(230, Event::Kill(Level::Orchestrator)), (390, Event::Traffic(false))]);
    run.settled(2, 1);
    run
}

fn shares(run: &Run) -> Vec<usize> {
    run.world.names(Level::Orchestrator).iter().map(|name| run.world.cluster.count(name)).collect()
}

#[test]
fn each_gets_its_share_and_gives_it_back() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, scripts());
    run.turns(58, &[], &[]);
    assert_eq!(shares(&run), [32, 32]);
    let status = run.manager.status(Moment(run.world.now), &run.world.sight());
    assert_eq!(status["cluster"]["members"], serde_json::json!({"orchestrator-1": 32, "orchestrator-2": 32}));
    assert_eq!(status["levels"]["orchestrator"]["resources"][1]["partitions"], 32);
    run.turns(80, &[], &[]);
    assert!(shares(&run).len() == 3 && shares(&run).iter().all(|share| *share > 20), "{:?}", shares(&run));
    run.turns(TURNS - 138, &[], &[]);
    assert_eq!(shares(&run), [64]);
    let steps: Vec<&str> = run
        .world
        .history
        .iter()
        .filter(|entry| entry["kind"] == "action" && entry["action"] == "scale-in")
        .flat_map(|entry| entry["steps"].as_array().unwrap())
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["withdraw", "ttl", "hand-over", "evict", "release"].repeat(2));
}

#[test]
fn members_that_are_ready_only_with_partitions_start() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 2)]]);
    let is_ready = |run: &Run| {
        let sight = run.world.sight();
        run.world.names(Level::Orchestrator).iter().any(|name| sight.is_online(name))
    };
    let answers = |run: &Run| !run.world.sight().orchestrators.is_empty();
    while !answers(&run) {
        assert!(run.world.now < 50_000, "no orchestrator answers");
        run.turns(1, &[], &[]);
    }
    assert!(!is_ready(&run), "no partition has a home yet");
    run.turns(50, &[], &[]);
    assert!(is_ready(&run));
    assert_eq!(shares(&run), [32, 32]);
}

#[test]
fn a_restarted_orchestrator_gets_a_share_when_it_serves_brokers() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 2)]]);
    run.turns(100, &[], &[]);
    run.turns(3, &[], &[(0, Event::Kill(Level::Orchestrator))]);
    assert_eq!(shares(&run), [0, 64], "the other one has taken over");
    run.turns(40, &[], &[]);
    assert_eq!(shares(&run), [32, 32]);
}

#[test]
fn a_restarted_one_takes_no_share_while_all_brokers_are_dead() {
    let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], vec![(0, 2)]]);
    let kills = [Event::Kill(Level::Orchestrator), Event::Kill(Level::Broker)];
    let unseen = [Event::Mute(true), Event::Hang].into_iter().chain(kills).map(|event| (20, event));
    let events: Vec<_> = unseen.chain([(210, Event::Mute(false)), (250, Event::Traffic(false))]).collect();
    run.turns(700, &[], &events);
    run.settled(2, 2);
    assert_eq!(shares(&run), [32, 32]);
}

#[test]
fn an_orchestrator_not_restarted_in_time_is_replaced() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 2)]]);
    run.turns(100, &[], &[]);
    let names = run.world.names(Level::Orchestrator);
    run.turns(55, &[], &[(0, Event::Break)]);
    assert!(run.world.things.contains_key(&names[0]), "it is given up before its time");
    let status = run.manager.status(Moment(run.world.now), &run.world.sight());
    let dead = &status["levels"]["orchestrator"]["resources"][0];
    assert!(dead["failed_restarts"].as_u64().unwrap() >= 3, "{dead}");
    assert!((1..60_000).contains(&dead["restart_left_ms"].as_u64().unwrap()), "{dead}");
    run.turns(10, &[], &[]);
    assert!(!run.world.things.contains_key(&names[0]), "the action waits beyond the limit");
    run.turns(80, &[], &[(60, Event::Traffic(false))]);
    run.settled(2, 2);
    assert_eq!(shares(&run), [32, 32]);
    let totals = run.manager.book().totals;
    assert_eq!((totals.given_up, run.world.names(Level::Orchestrator).contains(&names[0])), (1, false));
}

#[test]
fn an_orchestrator_not_set_aside_is_never_released() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 2)]]);
    run.turns(100, &[], &[]);
    let names = run.world.names(Level::Orchestrator);
    run.world.full_aside = true;
    run.turns(300, &[], &[(0, Event::Break)]);
    let totals = run.manager.book().totals;
    assert!(run.world.things.contains_key(&names[0]) && totals.failed > 4, "{totals:?}");
    assert_eq!(totals.given_up, 0);
    run.world.full_aside = false;
    run.turns(200, &[], &[(150, Event::Traffic(false))]);
    run.settled(2, 2);
    assert_eq!((run.manager.book().totals.given_up, run.world.things.contains_key(&names[0])), (1, false));
}

#[test]
fn one_that_does_not_come_up_keeps_no_other_down() {
    let mut run = Run::new(settings([2, 3], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 3)]]);
    run.turns(100, &[], &[]);
    let kill = (0, Event::Kill(Level::Orchestrator));
    run.turns(40, &[], &[(0, Event::Break), kill]);
    let phases = |run: &Run| run.manager.book().count(Level::Orchestrator, &[Phase::Serving]);
    assert_eq!(phases(&run), 2, "{:#?}", run.manager);
}

#[test]
fn an_orchestrator_is_given_up_when_its_successor_serves() {
    let mut run = Run::new(settings([2, 1], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 1)]]);
    run.turns(40, &[], &[]);
    let names = run.world.names(Level::Orchestrator);
    run.world.broken.insert(names[0].clone());
    run.turns(300, &[], &[(0, Event::Kill(Level::Orchestrator)), (250, Event::Traffic(false))]);
    run.settled(2, 1);
    assert_eq!((shares(&run), run.manager.book().totals.given_up), (vec![64], 1));
    assert_ne!(run.world.names(Level::Orchestrator), names);
    let done = |action: &str| {
        let is_it = |entry: &serde_json::Value| entry["action"] == action && entry["outcome"] == "done";
        run.world.history.iter().position(is_it).unwrap()
    };
    assert!(done("scale-out") < done("give-up"));
}

fn hands_over(run: &Run) -> bool {
    let action = run.manager.book().actions.get(&Level::Orchestrator);
    action.and_then(Action::step) == Some(Step::HandOver)
}

/// A run in which the second orchestrator has handed over some of its partitions.
fn half_way() -> (Run, ResourceName) {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 2), (100_000, 1)]]);
    run.turns(100, &[], &[]);
    let before = shares(&run)[1];
    let is_half_way = |run: &Run| hands_over(run) && (1..before).contains(&shares(run)[1]);
    let mut turns = 0;
    while !is_half_way(&run) {
        run.turns(1, &[], &[]);
        turns += 1;
        assert!(turns < 40, "it hands nothing over");
    }
    let leaving = run.world.names(Level::Orchestrator).pop().unwrap();
    (run, leaving)
}

#[test]
fn one_that_dies_while_it_hands_over_returns_to_end_that() {
    let (mut run, leaving) = half_way();
    run.world.things.get_mut(&leaving).unwrap().life = Life::Ended;
    let mut turns = 0;
    while hands_over(&run) {
        run.turns(1, &[], &[]);
        turns += 1;
        assert!(turns < 40, "it does not end that");
    }
    assert_eq!(run.world.cluster.count(&leaving), 0, "it leaves with partitions");
    run.turns(80, &[], &[(40, Event::Traffic(false))]);
    run.settled(2, 1);
    assert_eq!(shares(&run), [64]);
}

/// Whether the manager still waits when the orchestrator that leaves reports this cluster, and the other one answers or not.
fn still_hands_over(view: impl FnOnce(&ResourceName, ClusterView) -> ClusterView, other_answers: bool) -> bool {
    let (mut run, leaving) = half_way();
    let mut sight = run.world.sight();
    let cluster = &mut sight.orchestrators.get_mut(&leaving).unwrap().cluster;
    *cluster = Some(view(&leaving, cluster.clone().unwrap()));
    sight.orchestrators.retain(|name, _| other_answers || *name == leaving);
    run.manager.check(Moment(run.world.now), &sight);
    hands_over(&run)
}

#[test]
fn one_that_hands_over_must_read_the_table_to_be_released() {
    for other_answers in [true, false] {
        assert!(still_hands_over(|_, _| ClusterView::default(), other_answers), "no table, {other_answers}");
        let no_member = |_: &ResourceName, view| ClusterView { is_member: false, wants_share: false, ..view };
        assert!(still_hands_over(no_member, other_answers), "no lease, {other_answers}");
    }
    // It has read an old table, and the newest one has partitions of it.
    let old = |name: &ResourceName, view: ClusterView| {
        let partitions =
            view.partitions.into_iter().map(|(of, count)| (of.clone(), if of == name.as_str() { 0 } else { count }));
        ClusterView { wants_share: false, epoch: view.epoch - 1, partitions: partitions.collect(), ..view }
    };
    assert!(still_hands_over(old, true));
}

#[test]
fn one_that_never_was_a_member_has_nothing_to_hand_over() {
    let (mut run, leaving) = half_way();
    let mut sight = run.world.sight();
    for view in sight.orchestrators.values_mut() {
        let cluster = view.cluster.as_mut().unwrap();
        cluster.partitions.remove(leaving.as_str());
        cluster.epoch += 1;
    }
    sight.orchestrators.get_mut(&leaving).unwrap().cluster = Some(ClusterView::default());
    run.manager.check(Moment(run.world.now), &sight);
    assert!(!hands_over(&run));
}

#[test]
fn a_start_without_a_table_never_names_an_orchestrator() {
    let mut run = Run::new(settings([1, 1], 1, 4), 0, 4, [vec![(0, 1)], vec![(0, 1)]]);
    let mut failed = 0;
    for _ in 0..1_000 {
        run.world.turn();
        let mut sight = run.world.sight();
        for view in sight.orchestrators.values_mut() {
            view.cluster = Some(ClusterView::default());
        }
        let now = Moment(run.world.now);
        for command in run.manager.observe(now, &sight) {
            if let Command::SetEndpoints(endpoints) = &command {
                assert!(endpoints.is_empty(), "{endpoints:?} cannot serve: the bus has no table");
            }
            failed += u32::from(matches!(command, Command::Release(..)));
            run.execute(&command);
        }
    }
    assert!(failed > 0, "a start ends");
}

#[test]
fn the_first_home_is_healed_when_it_dies_during_the_start() {
    let dies = (13, Event::Kill(Level::Orchestrator));
    for events in [[dies].as_slice(), &[dies, dies]] {
        let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], vec![(0, 2)]]);
        run.turns(300, &[(1, false)], events);
        run.turns(60, &[], &[(0, Event::Traffic(false))]);
        run.settled(2, 2);
        assert_eq!(shares(&run), [32, 32]);
    }
}

#[test]
fn a_manager_may_be_killed_at_any_command_about_members() {
    let commands = run(&[]).commands;
    for at in 0..commands {
        // After this one, and its successor before its first.
        run(&[(at, true), (at + 1, false)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_dies_whenever_all_partitions_have_homes(
        deaths in proptest::collection::vec((0_usize..900, any::<bool>()), 0..12),
        events in proptest::collection::vec((10_usize..300, prop_oneof![
            Just(Event::Kill(Level::Orchestrator)),
            Just(Event::Mute(true)),
            Just(Event::Mute(false)),
            Just(Event::Break),
            (1_u32..4).prop_map(Event::Refuse),
        ]), 0..8),
        sizes in proptest::collection::vec((0_u64..300, 1_u32..5), 0..8),
    ) {
        let mut orchestrators = vec![(0, 2)];
        orchestrators.extend(sizes.iter().map(|(at, count)| (at * 1_000, *count)));
        orchestrators.sort_unstable();
        orchestrators.push((300_000, 2));
        let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], orchestrators]);
        let mut events = events;
        events.push((310, Event::Mute(false)));
        events.push((400, Event::Traffic(false)));
        run.turns(1000, &deaths, &events);
        run.settled(2, 2);
        prop_assert_eq!(shares(&run), vec![32, 32]);
    }
}

#[test]
fn the_last_orchestrator_is_replaced_if_it_cannot_restart() {
    // Orchestrator 2 leaves at second 21, so 1 is the last one.
    let sizes = vec![(0, 2), (21_000, 1), (300_000, 2)];
    let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], sizes]);
    run.turns(1000, &[], &[(30, Event::Break), (400, Event::Traffic(false))]);
    run.settled(2, 2);
    assert_eq!(shares(&run), vec![32, 32]);
    assert!(run.world.names(Level::Orchestrator).iter().all(|name| name.as_str() != "orchestrator-1"));
}

#[test]
fn an_heir_waits_until_no_dead_orchestrator_can_return() {
    // All four are dead when the provider answers again. Only the first one cannot be started, for longer than its limit.
    let sizes = vec![(0, 2), (0, 4), (300_000, 2)];
    let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], sizes]);
    let kill = (85, Event::Kill(Level::Orchestrator));
    let events = [
        (60, Event::Break),
        (85, Event::Mute(true)),
        kill,
        kill,
        kill,
        (310, Event::Mute(false)),
        (400, Event::Traffic(false)),
    ];
    run.turns(1000, &[], &events);
    run.settled(2, 2);
    assert_eq!(shares(&run), vec![32, 32]);
}

#[test]
fn an_evicted_orchestrator_that_missed_its_return_serves() {
    // Orchestrator 2 leaves at second 15. None answers from second 24, before it has left, until second 310.
    let sizes = vec![(0, 2), (1_000, 1), (300_000, 2)];
    let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], sizes]);
    let kill = Event::Kill(Level::Orchestrator);
    let events =
        [(21, kill), (24, Event::Mute(true)), (25, kill), (310, Event::Mute(false)), (400, Event::Traffic(false))];
    run.turns(1000, &[], &events);
    run.settled(2, 2);
    assert_eq!(shares(&run), vec![32, 32]);
}

#[test]
fn the_manager_does_not_end_a_drain_of_an_operator() {
    let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], vec![(0, 2)]]);
    run.turns(100, &[], &[]);
    let name = run.world.names(Level::Orchestrator)[0].clone();
    run.execute(&Command::Evict { at: name.clone(), server_reference: None });
    run.turns(100, &[], &[]);
    assert!(run.world.sight().orchestrators[&name].draining);
}

#[test]
fn orchestrators_may_die_unseen_while_another_joins() {
    let mut run =
        Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], vec![(0, 2), (16_000, 4), (31_000, 1), (300_000, 2)]]);
    let kill = (66, Event::Kill(Level::Orchestrator));
    let events = [
        (64, Event::Kill(Level::Orchestrator)),
        (66, Event::Mute(true)),
        kill,
        kill,
        (310, Event::Mute(false)),
        (400, Event::Traffic(false)),
    ];
    run.turns(1000, &[], &events);
    run.settled(2, 2);
    assert_eq!(shares(&run).iter().sum::<usize>(), 64);
}
