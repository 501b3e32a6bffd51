//! The manager is killed at every command, before and after its execution, and resumes from its book.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::super::*;
use super::world::{Life, Script, World, settings};
use crate::level::Level;

/// An event in the world, by turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Kill(Level),
    Hang,
    Mute(bool),
    Refuse(u32),
    Traffic(bool),
    TakeLast(Level),
    EmptyMachine(Level),
    AddOne(Level),
    /// An orchestrator dies and cannot start again, while it is the only such one.
    Break,
}

/// A run with its manager, which may die.
pub(super) struct Run {
    pub(super) world: World,
    settings: Settings,
    scripts: [Vec<(u64, u32)>; 2],
    pub(super) manager: Manager,
    /// The journal as it would be on a disk.
    journal: Vec<String>,
    pub(super) commands: usize,
    pub(super) deaths: usize,
}

/// When the manager dies: at which command, and whether that is still done.
pub(super) type Death = (usize, bool);

impl Run {
    pub(super) fn new(settings: Settings, least: u32, most: u32, scripts: [Vec<(u64, u32)>; 2]) -> Self {
        let world = World::new(most as usize, least as usize);
        let manager = start(&settings, &scripts, Book::default());
        Self { world, settings, scripts, manager, journal: Vec::new(), commands: 0, deaths: 0 }
    }

    /// One turn of the world and of the manager.
    pub(super) fn turn(&mut self, deaths: &[Death]) {
        self.world.turn();
        let (now, sight) = (Moment(self.world.now), self.world.sight());
        let observes = self.world.now.is_multiple_of(5_000);
        let commands = if observes { self.manager.observe(now, &sight) } else { self.manager.check(now, &sight) };
        let mut waiting: VecDeque<Command> = commands.into();
        while let Some(command) = waiting.pop_front() {
            let death = deaths.iter().find(|(at, _)| *at == self.commands);
            self.commands += 1;
            if death.is_none_or(|(_, done)| *done) {
                self.execute(&command);
            }
            if death.is_some() {
                self.deaths += 1;
                self.restart();
                return;
            }
        }
    }

    pub(super) fn execute(&mut self, command: &Command) {
        if let Command::Keep(records) = command {
            self.journal.push(serde_json::to_string(records).unwrap());
        }
        match (self.world.execute(command), command) {
            (Err(problem), _) => self.manager.failed(command, &problem),
            (Ok(()), Command::SetEndpoints(endpoints)) => self.manager.endpoints_set(endpoints, Vec::new()),
            (Ok(()), _) => {}
        }
    }

    /// A new manager reads the saved state of the old one.
    fn restart(&mut self) {
        let mut book = Book::default();
        for line in &self.journal {
            for record in serde_json::from_str::<Vec<Record>>(line).unwrap() {
                book.apply(record);
            }
        }
        self.manager = start(&self.settings, &self.scripts, book);
    }

    pub(super) fn turns(&mut self, turns: usize, deaths: &[Death], events: &[(usize, Event)]) {
        for turn in 0..turns {
            for (_, event) in events.iter().filter(|(at, _)| *at == turn) {
                self.happen(*event);
            }
            self.turn(deaths);
            assert!(self.world.violations.is_empty(), "turn {turn}: {:#?}\n{:#?}", self.world.violations, self.manager);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Kill(level) => self.world.kill(level),
            Event::Hang => {
                let broker = self
                    .world
                    .things
                    .values_mut()
                    .find(|it| it.wanted.level == Level::Broker && it.life == Life::Online);
                if let Some(broker) = broker {
                    broker.life = Life::Hanging;
                }
            }
            Event::Mute(mute) => self.world.mute = mute,
            Event::Refuse(count) => self.world.refusals = count,
            Event::Break => self.world.break_one(),
            Event::Traffic(traffic) => self.world.traffic = traffic,
            Event::TakeLast(level) => self.world.take_last(level),
            Event::EmptyMachine(level) => self.world.empty_machine(level),
            Event::AddOne(level) => {
                let stack = self.settings.stack(level).cloned();
                self.world.add_one(level, &stack.unwrap());
            }
        }
    }

    /// The fleet has its intended size, and no resource is left over.
    pub(super) fn settled(&self, brokers: usize, orchestrators: usize) {
        let book = self.manager.book();
        let about = || format!("{:#?}\n{:#?}", self.world, book);
        let known: Vec<_> = book.members.keys().collect();
        let there: Vec<_> = self.world.things.keys().collect();
        assert_eq!(known, there, "the book and the provider differ: {}", about());
        let all_serve = book.members.values().all(|member| member.phase == Phase::Serving);
        assert!(all_serve && book.actions.is_empty(), "{}", about());
        let counts = (self.world.names(Level::Broker).len(), self.world.names(Level::Orchestrator).len());
        assert_eq!(counts, (brokers, orchestrators), "{}", about());
        assert_eq!(self.world.owed(), 0, "{}", about());
        let sight = self.world.sight();
        for view in sight.orchestrators.values() {
            let states: Vec<_> = view.brokers.values().map(|broker| broker.state).collect();
            assert_eq!(states, vec![BrokerState::Serving; brokers], "{}", about());
        }
        assert_eq!(self.world.endpoints.len(), orchestrators, "{}", about());
    }
}

fn start(settings: &Settings, scripts: &[Vec<(u64, u32)>; 2], book: Book) -> Manager {
    let judge = |script: &Vec<(u64, u32)>| Box::new(Script(script.clone())) as Box<dyn Judge>;
    let judges = BTreeMap::from([(Level::Broker, judge(&scripts[0])), (Level::Orchestrator, judge(&scripts[1]))]);
    Manager::new(settings.clone(), judges, book, 0)
}

/// Every kind of action once: start, growth and shrinking of both levels, and the death of one of each.
fn scripts() -> [Vec<(u64, u32)>; 2] {
    [vec![(0, 2), (40_000, 3), (80_000, 2)], vec![(0, 1), (120_000, 2), (160_000, 1)]]
}

const EVENTS: &[(usize, Event)] = &[
    (210, Event::Kill(Level::Broker)),
    (250, Event::Kill(Level::Orchestrator)),
    (290, Event::Hang),
    (350, Event::Traffic(false)),
];
const TURNS: usize = 400;

fn run(deaths: &[Death]) -> Run {
    let mut run = Run::new(settings([2, 1], 1, 3), 1, 3, scripts());
    run.turns(TURNS, deaths, EVENTS);
    run.settled(2, 1);
    run
}

#[test]
fn every_kind_of_action_ends() {
    let run = run(&[]);
    let totals = run.manager.book().totals;
    // Two starts, four changes of size, and three that healed.
    assert_eq!((totals.actions, totals.healed, totals.failed), (9, 3, 0));
    let ended = run.world.history.iter().filter(|entry| entry["kind"] == "action");
    assert!(ended.clone().all(|entry| entry["outcome"] == "done" && entry["steps"][0]["ended_ms"].is_u64()));
    assert_eq!(ended.count(), 9);
}

#[test]
fn a_manager_may_be_killed_at_any_command() {
    let commands = run(&[]).commands;
    for at in 0..commands {
        for done in [false, true] {
            let run = run(&[(at, done)]);
            assert!(run.deaths == 1 || run.commands <= at);
        }
    }
}

#[test]
fn a_manager_may_be_killed_several_times_in_a_row() {
    let commands = run(&[]).commands;
    for at in 0..commands {
        run(&[(at, true), (at + 1, false), (at + 2, true), (at + 4, false)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_dies_whenever_nothing_is_lost_or_left(
        deaths in proptest::collection::vec((0_usize..600, any::<bool>()), 0..12),
        events in proptest::collection::vec((20_usize..200, prop_oneof![
            Just(Event::Kill(Level::Broker)),
            Just(Event::Kill(Level::Orchestrator)),
            Just(Event::Hang),
            Just(Event::Mute(true)),
            Just(Event::Mute(false)),
            (1_u32..4).prop_map(Event::Refuse),
        ]), 0..8),
        sizes in proptest::collection::vec((0_u64..200, 1_u32..5), 0..6),
    ) {
        let mut brokers = vec![(0, 2)];
        brokers.extend(sizes.iter().map(|(at, count)| (at * 1_000, *count)));
        brokers.sort_unstable();
        brokers.push((200_000, 2));
        let mut run = Run::new(settings([2, 2], 1, 4), 0, 4, [brokers, vec![(0, 2)]]);
        let mut events = events;
        events.push((210, Event::Mute(false)));
        events.push((250, Event::Traffic(false)));
        run.turns(700, &deaths, &events);
        run.settled(2, 2);
    }
}
