//! Single cases.

use std::time::Duration;

use super::super::*;
use super::kills::Run;
use super::world::{Life, settings};
use crate::level::Level;

fn action_of(run: &Run, number: usize) -> &serde_json::Value {
    run.world.history.iter().filter(|entry| entry["kind"] == "action").nth(number).unwrap()
}

fn steps(action: &serde_json::Value) -> Vec<&str> {
    action["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect()
}

fn run(brokers: Vec<(u64, u32)>) -> Run {
    Run::new(settings([2, 1], 1, 4), 0, 4, [brokers, vec![(0, 1)]])
}

#[test]
fn the_steps_agree_with_the_study() {
    let mut run = Run::new(
        settings([1, 1], 1, 4),
        1,
        4,
        [vec![(0, 1), (40_000, 2), (80_000, 1)], vec![(0, 1), (120_000, 2), (160_000, 1)]],
    );
    run.turns(220, &[], &[]);
    let all: Vec<_> = (2..6).map(|number| steps(action_of(&run, number))).collect();
    assert_eq!(all[0], ["allocate", "boot", "join"]);
    assert_eq!(all[1], ["drain", "release", "forget"]);
    assert_eq!(all[2], ["allocate", "boot", "configure", "announce"]);
    assert_eq!(all[3], ["withdraw", "ttl", "hand-over", "evict", "release"]);
    let ttl = &action_of(&run, 5)["steps"][1];
    assert!(ttl["took_ms"].as_u64().unwrap() >= 5_000, "{ttl}");
}

#[test]
fn a_drain_that_takes_too_long_returns_to_service() {
    let mut run = run(vec![(0, 2), (40_000, 1), (60_000, 2)]);
    run.turns(38, &[], &[]);
    let last = run.world.names(Level::Broker).pop().unwrap();
    run.world.stuck.insert(last.clone());
    run.turns(60, &[], &[]);
    let action = action_of(&run, 2);
    assert_eq!((action["outcome"].as_str(), steps(action)), (Some("failed"), vec!["drain", "return"]));
    assert!(action["why"].as_str().unwrap().contains("not drained within 30 s"), "{action}");
    assert_eq!(run.manager.book().phase(&last), Some(Phase::Serving));
    run.world.stuck.clear();
    run.world.traffic = false;
    run.turns(60, &[], &[]);
    run.settled(2, 1);
}

#[test]
fn a_failed_start_is_undone_and_repeated_later() {
    let mut run = run(vec![(0, 2), (40_000, 3)]);
    run.turns(38, &[], &[]);
    run.world.stillborn = true;
    run.turns(30, &[], &[]);
    let action = action_of(&run, 2);
    assert_eq!(
        (action["outcome"].as_str(), steps(action)),
        (Some("failed"), vec!["allocate", "boot", "release", "forget"])
    );
    run.world.stillborn = false;
    run.turns(60, &[], &[]);
    run.world.traffic = false;
    run.turns(20, &[], &[]);
    run.settled(3, 1);
}

#[test]
fn a_refused_allocation_fails_with_the_error() {
    let mut run = run(vec![(0, 2), (40_000, 3), (44_000, 2)]);
    run.turns(38, &[], &[]);
    run.world.refusals = 100;
    run.turns(20, &[], &[]);
    let action = action_of(&run, 2);
    assert!(action["why"].as_str().unwrap().contains("refused"), "{action}");
    run.world.refusals = 0;
    run.world.traffic = false;
    run.turns(40, &[], &[]);
    run.settled(2, 1);
}

#[test]
fn a_dead_orchestrator_returns_with_its_state() {
    let mut run = run(vec![(0, 2)]);
    run.turns(38, &[], &[]);
    let before = run.world.names(Level::Orchestrator);
    run.world.kill(Level::Orchestrator);
    run.turns(1, &[], &[]);
    assert!(run.world.endpoints.is_empty());
    run.turns(30, &[], &[]);
    assert_eq!(run.world.names(Level::Orchestrator), before);
    assert_eq!(run.world.endpoints.len(), 1);
}

#[test]
fn stopped_resources_start_again_without_healing() {
    let mut run = run(vec![(0, 2)]);
    run.turns(38, &[], &[]);
    let stopped = run.world.names(Level::Orchestrator);
    let ended = run.world.history.iter().filter(|entry| entry["kind"] == "action").count();
    run.world.kill(Level::Orchestrator);
    let mut book = run.manager.book().clone();
    book.members.get_mut(&stopped[0]).unwrap().phase = Phase::Stopped;
    run.manager.replace_book(book);
    run.world.stillborn = true;
    run.turns(12, &[], &[]);
    run.world.stillborn = false;
    run.turns(30, &[], &[]);
    assert_eq!(
        (action_of(&run, ended)["outcome"].as_str(), action_of(&run, ended)["action"].as_str()),
        (Some("failed"), Some("start"))
    );
    assert_eq!(run.world.names(Level::Orchestrator), stopped);
    assert_eq!((run.world.endpoints.len(), run.manager.book().totals.healed), (1, 0));
    run.world.traffic = false;
    run.turns(20, &[], &[]);
    run.settled(2, 1);
}

#[test]
fn a_broker_that_is_too_busy_for_a_probe_is_not_replaced() {
    let mut run = run(vec![(0, 2)]);
    run.turns(38, &[], &[]);
    run.world.busy = true;
    run.turns(60, &[], &[]);
    assert_eq!(run.manager.book().totals.healed, 0);
    run.world.busy = false;
    run.world.traffic = false;
    run.turns(60, &[], &[]);
    run.settled(2, 1);
}

#[test]
fn a_resource_that_the_book_does_not_know_is_taken_in() {
    let mut run = run(vec![(0, 3)]);
    run.turns(38, &[], &[]);
    let names = run.world.names(Level::Broker);
    // The journal is lost; the processes are not.
    let settings = settings([2, 1], 1, 4);
    let mut other = Run::new(settings, 1, 4, [vec![(0, 3)], vec![(0, 1)]]);
    std::mem::swap(&mut other.world, &mut run.world);
    other.turns(60, &[], &[]);
    assert_eq!(other.world.names(Level::Broker), names);
    other.world.traffic = false;
    other.turns(20, &[], &[]);
    other.settled(3, 1);
    let next = other.manager.book().next(Level::Broker);
    assert!(names.iter().all(|name| super::super::book::number(Level::Broker, name).unwrap() < next));
}

#[test]
fn an_orchestrator_that_dies_while_leaving_is_restarted() {
    let mut run = Run::new(settings([1, 1], 1, 4), 1, 4, [vec![(0, 1)], vec![(0, 1), (40_000, 2), (80_000, 1)]]);
    run.turns(87, &[], &[]);
    let leaving = run.world.names(Level::Orchestrator).pop().unwrap();
    run.world.things.get_mut(&leaving).unwrap().life = Life::Ended;
    run.turns(40, &[], &[]);
    run.world.traffic = false;
    run.turns(100, &[], &[]);
    run.settled(1, 1);
}

#[test]
fn templates_are_chosen_by_their_weights() {
    let mut settings = settings([6, 1], 1, 8);
    let brokers = settings.levels.get_mut(&Level::Broker).unwrap();
    brokers.templates = vec![("mosquitto".to_owned(), 2), ("rabbitmq".to_owned(), 1)];
    let mut run = Run::new(settings, 1, 8, [vec![(0, 6)], vec![(0, 1)]]);
    run.turns(20, &[], &[]);
    let of = |name: &str| run.world.things.values().filter(|thing| thing.wanted.template == name).count();
    assert_eq!((of("mosquitto"), of("rabbitmq")), (4, 2));
}

#[test]
fn a_status_names_everything_that_a_script_may_ask_for() {
    let mut run = run(vec![(0, 2)]);
    run.turns(40, &[], &[]);
    let status = run.manager.status(Moment(run.world.now), &run.world.sight());
    let broker = &status["levels"]["broker"];
    assert_eq!((&broker["serving"], &broker["min"], &broker["max"]), (&2.into(), &1.into(), &4.into()));
    assert_eq!(broker["resources"][0]["state"], "serving");
    for key in ["name", "address", "cpu", "since_ms", "pid", "owed"] {
        assert!(broker["resources"][0].get(key).is_some(), "{key}");
    }
    assert_eq!((&status["state"], &status["totals"]["actions"]), (&"running".into(), &2.into()));
    assert_eq!(run.manager.settings().interval, Duration::from_secs(5));
    assert!(!run.manager.is_busy());
}

#[test]
fn metrics_count_actions_steps_and_replacements() {
    let mut run = run(vec![(0, 2)]);
    run.turns(38, &[], &[]);
    run.world.kill(Level::Broker);
    run.turns(20, &[], &[]);
    run.manager.count_observation(Duration::from_secs(1), Duration::from_millis(250));
    run.manager.count_observation(Duration::from_secs(4), Duration::from_millis(500));
    let page = run.manager.metrics(&run.world.sight());
    for line in [
        "tidegate_fleet_resources{level=\"broker\",state=\"serving\"} 2",
        "tidegate_fleet_actions_total{level=\"broker\",action=\"replace\",outcome=\"done\"} 1",
        "tidegate_fleet_actions_total{level=\"orchestrator\",action=\"start\",outcome=\"done\"} 1",
        "tidegate_fleet_replaced_total{level=\"broker\"} 1",
        "tidegate_fleet_step_seconds_count{level=\"broker\",step=\"join\"} 2",
        "tidegate_fleet_endpoints 1",
        "tidegate_fleet_observations_total 2",
        "tidegate_fleet_observations_late_total 1",
        "tidegate_fleet_observation_seconds 0.5",
    ] {
        assert!(page.lines().any(|known| known == line), "{line}\n{page}");
    }
    // Every value has a type before it.
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap().trim_end_matches("_sum").trim_end_matches("_count");
        assert!(page.contains(&format!("# TYPE {name} ")), "{line}");
    }
}
