//! A provider that names resources itself, releases only the last one, and serves others, too.

use super::super::*;
use super::kills::{Death, Event, Run};
use super::world::settings;
use crate::level::Level;
use crate::provider::Stack;

/// A fleet on such a provider.
fn start(brokers: Vec<(u64, u32)>, orchestrators: Vec<(u64, u32)>) -> Run {
    let mut settings = settings([2, 1], 1, 4);
    for (level, name) in [(Level::Broker, "b"), (Level::Orchestrator, "o")] {
        if let Some(settings) = settings.levels.get_mut(&level) {
            settings.stack = Some(Stack { name: name.to_owned(), first: 0 });
        }
    }
    let mut run = Run::new(settings, 0, 4, [brokers, orchestrators]);
    run.world.stacked = true;
    run
}

/// The same, where another controller decides.
fn watched() -> Run {
    let anything = || Vec::new();
    start(anything(), anything())
}

fn names(run: &Run, level: Level) -> Vec<String> {
    run.world.names(level).iter().map(ToString::to_string).collect()
}

/// The actions of a run: kind, outcome, targets and steps.
fn actions(run: &Run) -> Vec<String> {
    let ended = run.world.history.iter().filter(|entry| entry["kind"] == "action");
    let words = |value: &serde_json::Value| {
        value.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    ended
        .map(|action| {
            let steps: Vec<_> =
                action["steps"].as_array().unwrap().iter().map(|it| it["step"].as_str().unwrap()).collect();
            let (kind, outcome) = (action["action"].as_str().unwrap(), action["outcome"].as_str().unwrap());
            format!("{kind} {outcome} {}: {}", words(&action["targets"]).join(","), steps.join(" "))
        })
        .collect()
}

#[test]
fn the_last_one_is_drained_forgotten_and_released() {
    let mut run = start(vec![(0, 2), (40_000, 3), (80_000, 1)], vec![(0, 1), (120_000, 2), (160_000, 1)]);
    run.turns(320, &[], &[(200, Event::Traffic(false))]);
    run.settled(1, 1);
    assert_eq!(
        actions(&run)[2..],
        [
            "scale-out done b-2: allocate boot join",
            "scale-in done b-2: drain forget release",
            "scale-in done b-1: drain forget release",
            "scale-out done o-1: allocate boot configure announce",
            "scale-in done o-1: withdraw ttl hand-over evict release",
        ]
    );
    assert_eq!(run.world.late, 0, "a pod was killed although it owed something");
}

#[test]
fn pods_of_an_autoscaler_are_joined_and_drained() {
    let mut run = watched();
    let events = [
        (40, Event::AddOne(Level::Broker)),
        (60, Event::AddOne(Level::Orchestrator)),
        (90, Event::TakeLast(Level::Broker)),
        (130, Event::TakeLast(Level::Orchestrator)),
        (200, Event::Traffic(false)),
    ];
    run.turns(220, &[], &events);
    run.settled(2, 1);
    assert_eq!(
        actions(&run)[2..],
        [
            "adopt done b-2: boot join",
            "adopt done o-1: boot configure announce",
            "evacuate done b-2: drain forget release",
            "evacuate done o-1: withdraw ttl hand-over evict release",
        ]
    );
    assert_eq!(run.world.late, 0, "a pod was killed although it owed something");
}

#[test]
fn one_whose_machine_is_emptied_is_drained_and_taken_in_again() {
    let mut run = watched();
    let events = [
        (40, Event::EmptyMachine(Level::Broker)),
        (93, Event::EmptyMachine(Level::Orchestrator)),
        (200, Event::Traffic(false)),
    ];
    run.turns(220, &[], &events);
    run.settled(2, 1);
    assert_eq!(
        actions(&run)[2..],
        [
            "evacuate done b-0: drain forget release",
            "adopt done b-0: boot join",
            "evacuate done o-0: withdraw ttl hand-over evict release",
            "adopt done o-0: boot configure announce",
        ]
    );
}

#[test]
fn a_dead_one_returns_under_its_name() {
    let mut run = watched();
    let events = [(40, Event::Kill(Level::Broker)), (80, Event::Hang), (120, Event::Traffic(false))];
    run.turns(160, &[], &events);
    run.settled(2, 1);
    assert_eq!(actions(&run)[2..], ["restart done b-0: allocate boot join", "restart done b-0: allocate boot join"]);
}

#[test]
fn a_scale_in_gives_way_to_an_added_pod() {
    let mut run = start(vec![(0, 2), (40_000, 1), (55_000, 3)], vec![(0, 1)]);
    run.turns(38, &[], &[]);
    let last = run.world.names(Level::Broker).pop().unwrap();
    run.world.stuck.insert(last);
    run.turns(12, &[], &[(10, Event::AddOne(Level::Broker))]);
    run.world.stuck.clear();
    run.turns(60, &[], &[(20, Event::Traffic(false))]);
    run.settled(3, 1);
    let failed = run.world.history.iter().find(|entry| entry["outcome"] == "failed").unwrap();
    assert!(failed["why"].as_str().unwrap().contains("another controller has added b-2"), "{failed}");
    assert_eq!(actions(&run)[2..], ["scale-in failed b-1: drain return", "adopt done b-2: boot join"]);
}

#[test]
fn no_resource_is_requested_if_another_controller_decides() {
    let mut settings = settings([2, 1], 1, 4);
    for level in settings.levels.values_mut() {
        level.stack = Some(Stack { name: "b".to_owned(), first: 0 });
        level.decided_elsewhere = true;
    }
    let mut run = Run::new(settings, 0, 4, [Vec::new(), Vec::new()]);
    run.turns(30, &[], &[]);
    assert!(run.manager.is_started() && names(&run, Level::Broker).is_empty());
    let mut judge = DecidedElsewhere::default();
    let seen = LevelSeen {
        at: Moment(0),
        level: Level::Broker,
        serving: 0,
        pending: 0,
        leaving: 0,
        elsewhere: 0,
        lead_time: None,
        members: Vec::new(),
    };
    assert_eq!(judge.judge(&seen).wish, Wish::Hold);
}

/// Every kind of action and every kind of interference once.
fn all(deaths: &[Death]) -> Run {
    let mut run = start(vec![(0, 2), (40_000, 3), (80_000, 2)], vec![(0, 1), (300_000, 2), (340_000, 1)]);
    let events = [
        (120, Event::AddOne(Level::Orchestrator)),
        (150, Event::TakeLast(Level::Orchestrator)),
        (190, Event::EmptyMachine(Level::Broker)),
        (230, Event::Kill(Level::Broker)),
        (260, Event::TakeLast(Level::Broker)),
        (400, Event::Traffic(false)),
    ];
    run.turns(480, deaths, &events);
    run.settled(2, 1);
    run
}

#[test]
fn a_manager_may_be_killed_at_any_command() {
    let commands = all(&[]).commands;
    for at in 0..commands {
        for done in [false, true] {
            let run = all(&[(at, done)]);
            assert!(run.deaths == 1 || run.commands <= at);
        }
    }
}
