//! Homes in the model of the world, and cases about them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::kills::{Event, Run};
use super::world::{Life, settings};
use crate::level::Level;
use crate::provider::ResourceName;

/// A move under way at its old home.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) to: ResourceName,
    pub(super) partitions: Vec<u16>,
    /// When it is over, if the new home answers then.
    pub(super) until: u64,
}

/// An orchestrator's stored homes, and the rules for changing them.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes {
    pub(super) table: Option<HomesTable>,
    pub(super) leaving: Option<Leaving>,
}

impl Homes {
    pub(super) fn epoch(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.epoch)
    }

    pub(super) fn own(&self, name: &ResourceName) -> Vec<u16> {
        self.table.as_ref().map(|table| table.at(name)).unwrap_or_default()
    }

    /// As `PUT /api/v1/homes` does.
    pub(super) fn set(&mut self, table: &HomesTable, if_epoch: u64, arriving: bool) -> Result<(), String> {
        let same = self.table.as_ref() == Some(table);
        if self.epoch() != if_epoch {
            return Err(format!("its table has epoch {}", self.epoch()));
        }
        if !same && self.table.is_some() && table.epoch <= self.epoch() {
            return Err("the table is older, or another one of this epoch".to_owned());
        }
        if !same && (self.leaving.is_some() || arriving) {
            return Err("a move is under way".to_owned());
        }
        self.table = Some(table.clone());
        Ok(())
    }

    /// As `POST /api/v1/homes/move` begins.
    pub(super) fn leave(&mut self, name: &ResourceName, leaving: Leaving, epoch: u64) -> Result<(), String> {
        let own = self.own(name);
        if self.epoch() != epoch || self.leaving.is_some() {
            return Err("another table is in force, or a move is under way".to_owned());
        }
        if leaving.partitions.iter().any(|partition| !own.contains(partition)) {
            return Err("not at home here".to_owned());
        }
        self.leaving = Some(leaving);
        Ok(())
    }

    /// The table of one side after a move.
    pub(super) fn moved(&mut self, leaving: &Leaving, epoch: u64) {
        if let Some(table) = &mut self.table {
            for partition in &leaving.partitions {
                table.homes[usize::from(*partition)] = leaving.to.clone();
            }
            table.epoch = table.epoch.max(epoch);
        }
    }
}

/// Violations of the rule that each partition has one home at any time, once there is a table.
pub(super) fn wrong(all: &BTreeMap<ResourceName, &Homes>) -> Option<String> {
    let newest = all.values().filter_map(|homes| homes.table.as_ref()).max_by_key(|table| table.epoch)?;
    // One without a table has served all clients, and keeps the partitions of the first table.
    let has = |name: &ResourceName, homes: &Homes, partition| {
        homes.table.as_ref().unwrap_or(newest).home(partition) == Some(name)
    };
    (0..64).find_map(|partition| {
        let owners: Vec<_> = all.iter().filter(|(name, homes)| has(name, homes, partition)).collect();
        // No orchestrator has the partitions of a given-up one until the last of the others knows.
        let is_lost = |homes: &&Homes| {
            let home = homes.table.as_ref().and_then(|table| table.home(partition));
            home.is_some_and(|home| !all.contains_key(home))
        };
        let given_up = owners.is_empty() && all.values().any(is_lost);
        (owners.len() != 1 && !given_up).then(|| format!("partition {partition} is at home at {owners:?}"))
    })
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
    let sight = run.world.sight();
    sight.orchestrators.iter().map(|(name, view)| view.partitions(name).unwrap_or_default()).collect()
}

#[test]
fn one_orchestrator_needs_no_table() {
    let mut run = Run::new(settings([2, 1], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 1)]]);
    run.turns(40, &[], &[]);
    assert!(run.world.sight().orchestrators.values().all(|view| view.homes.as_ref().unwrap().table.is_none()));
}

#[test]
fn each_gets_its_share_and_gives_it_back() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, scripts());
    run.turns(58, &[], &[]);
    assert!(shares(&run).iter().all(|share| *share > 16), "{:?}", shares(&run));
    run.turns(80, &[], &[]);
    assert_eq!(shares(&run).len(), 3);
    assert!(shares(&run).iter().all(|share| *share > 8), "{:?}", shares(&run));
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
fn partitions_of_a_dead_orchestrator_wait_for_it() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 2)]]);
    run.turns(100, &[], &[]);
    let before = shares(&run);
    run.world.kill(Level::Orchestrator);
    run.turns(40, &[], &[]);
    assert_eq!(shares(&run), before);
}

#[test]
fn an_orchestrator_not_restarted_in_time_loses_its_partitions() {
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
    assert!(!run.world.things.contains_key(&names[0]), "it is waited for beyond the limit");
    run.turns(80, &[], &[(60, Event::Traffic(false))]);
    run.settled(2, 2);
    assert_eq!(shares(&run).iter().sum::<usize>(), 64);
    assert!(shares(&run).iter().all(|share| *share > 16), "{:?}", shares(&run));
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
    assert_eq!((totals.given_up, shares(&run)[0] > 0), (0, true));
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
fn no_orchestrator_is_given_up_without_a_successor() {
    let mut run = Run::new(settings([2, 1], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 1)]]);
    run.turns(40, &[], &[]);
    let names = run.world.names(Level::Orchestrator);
    run.world.broken.insert(names[0].clone());
    run.turns(300, &[], &[(0, Event::Kill(Level::Orchestrator))]);
    assert_eq!((run.world.names(Level::Orchestrator), run.manager.book().totals.given_up), (names, 0));
}

#[test]
fn a_move_with_one_that_is_given_up_ends_where_it_is() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 2)]]);
    let names = |run: &Run| run.world.names(Level::Orchestrator);
    let moves =
        |run: &Run| run.world.sight().orchestrators.values().any(|it| it.homes.as_ref().unwrap().moving.is_some());
    let mut turns = 0;
    while !moves(&run) {
        run.turns(1, &[], &[]);
        turns += 1;
        assert!(turns < 100, "nothing moves");
    }
    let last = names(&run).pop().unwrap();
    run.world.things.get_mut(&last).unwrap().life = Life::Ended;
    run.world.broken.insert(last.clone());
    run.turns(200, &[], &[(150, Event::Traffic(false))]);
    run.settled(2, 2);
    assert_eq!((run.manager.book().totals.given_up, names(&run).contains(&last)), (1, false));
}

#[test]
fn one_that_dies_while_it_hands_over_comes_back_to_end_that() {
    let mut run = Run::new(settings([2, 2], 1, 3), 1, 3, [vec![(0, 2)], vec![(0, 2), (100_000, 1)]]);
    let hands_over = |run: &Run| {
        let action = run.manager.book().actions.get(&Level::Orchestrator);
        action.and_then(Action::step) == Some(Step::HandOver)
    };
    // In the middle: some of its partitions have moved.
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
    run.world.things.get_mut(&leaving).unwrap().life = Life::Ended;
    run.turns(80, &[], &[(40, Event::Traffic(false))]);
    run.settled(2, 1);
    assert_eq!(shares(&run), [64]);
}

#[test]
fn the_first_home_is_healed_when_it_dies_during_the_start() {
    let dies = (13, Event::Kill(Level::Orchestrator));
    for events in [[dies].as_slice(), &[dies, dies]] {
        let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [vec![(0, 2)], vec![(0, 2)]]);
        run.turns(300, &[(1, false)], events);
        run.turns(60, &[], &[(0, Event::Traffic(false))]);
        run.settled(2, 2);
        assert_eq!(shares(&run).iter().sum::<usize>(), 64);
    }
}

#[test]
fn a_manager_may_be_killed_at_any_command_about_homes() {
    let commands = run(&[]).commands;
    for at in 0..commands {
        // After this one, and its successor before its first.
        run(&[(at, true), (at + 1, false)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_dies_whenever_each_partition_has_one_home(
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
        prop_assert_eq!(shares(&run).iter().sum::<usize>(), 64);
        prop_assert!(shares(&run).iter().all(|share| *share > 16));
    }
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
