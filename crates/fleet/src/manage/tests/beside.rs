//! Events beside the action of a level: adoptions, and the entry point.

use super::super::*;
use super::kills::Run;
use super::world::{Life, Thing, settings};
use crate::level::Level;
use crate::provider::attached::ATTACHED;
use crate::provider::{Allocation, ResourceName};

fn run(brokers: Vec<(u64, u32)>, orchestrators: Vec<(u64, u32)>) -> Run {
    Run::new(settings([2, 1], 1, 5), 0, 5, [brokers, orchestrators])
}

fn attach(run: &mut Run, name: &str, life: Life) -> ResourceName {
    let name: ResourceName = name.parse().unwrap();
    let template = ATTACHED.to_owned();
    let wanted = Allocation { name: name.clone(), level: Level::Broker, template, cores: 1.0 };
    run.world.things.insert(name.clone(), Thing { wanted, life });
    name
}

#[test]
fn an_attached_broker_that_does_not_answer_holds_nothing_up() {
    let mut run = run(vec![(0, 2), (60_000, 3)], vec![(0, 1)]);
    let old = attach(&mut run, "old", Life::Hanging);
    run.turns(38, &[], &[]);
    assert_eq!(run.world.names(Level::Broker).len(), 3, "the fleet has not started beside the attached resources");
    let status = run.manager.status(Moment(run.world.now), &run.world.sight());
    let shown = status["levels"]["broker"]["resources"].as_array().unwrap();
    let shown = shown.iter().find(|resource| resource["name"] == "old").unwrap();
    assert_eq!((&shown["state"], &shown["note"]), (&"dead".into(), &"hangs".into()));
    run.world.kill(Level::Broker);
    run.turns(20, &[], &[]);
    assert_eq!(run.manager.book().totals.healed, 1);
    run.turns(30, &[], &[]);
    let serving = run.manager.book().count(Level::Broker, &[Phase::Serving]);
    assert_eq!((serving, run.manager.book().phase(&old)), (3, None), "it did not grow");
    run.world.things.get_mut(&old).unwrap().life = Life::Online;
    run.turns(15, &[], &[]);
    assert_eq!(run.manager.book().phase(&old), Some(Phase::Serving));
}

#[test]
fn a_delayed_adoption_delays_no_other() {
    let mut run = run(vec![(0, 2), (60_000, 3)], vec![(0, 1)]);
    run.turns(38, &[], &[]);
    let one = attach(&mut run, "one", Life::Online);
    let other = attach(&mut run, "other", Life::Online);
    run.turns(3, &[], &[]);
    // It hangs once it is being joined, which may take until a limit.
    run.world.things.get_mut(&one).unwrap().life = Life::Hanging;
    run.world.kill(Level::Broker);
    run.turns(12, &[], &[]);
    assert_eq!(run.manager.book().phase(&other), Some(Phase::Serving));
    assert_eq!(run.manager.book().totals.healed, 1, "{:#?}", run.manager.book());
}

#[test]
fn a_refused_change_of_the_entry_point_is_retried_first() {
    let mut run = run(vec![(0, 2)], vec![(0, 1), (40_000, 2), (80_000, 1)]);
    run.turns(38, &[], &[]);
    run.world.refuses_names = true;
    run.turns(40, &[], &[]);
    assert_eq!(run.world.endpoints.len(), 1);
    run.world.refuses_names = false;
    run.turns(1, &[], &[]);
    assert_eq!(run.world.endpoints.len(), 2, "the change was not repeated");
    run.world.refuses_names = true;
    run.turns(20, &[], &[]);
    let leaving = run.manager.book().actions.get(&Level::Orchestrator).cloned().unwrap();
    assert_eq!(leaving.step(), Some(Step::Withdraw), "it went on although the entry point still names it");
    run.world.refuses_names = false;
    run.world.traffic = false;
    run.turns(60, &[], &[]);
    run.settled(2, 1);
}

#[test]
fn one_that_cannot_be_named_keeps_no_other_from_being_named() {
    let mut run = run(vec![(0, 2)], vec![(0, 1)]);
    run.turns(38, &[], &[]);
    let sight = run.world.sight();
    let name = run.world.names(Level::Orchestrator)[0].clone();
    let endpoints = run.world.endpoints.clone();
    run.manager.endpoints_set(&endpoints, vec![(name, "no such host".to_owned())]);
    assert_eq!(run.manager.endpoints().count(), 0);
    let commands = run.manager.check(Moment(run.world.now), &sight);
    assert!(commands.iter().any(|command| matches!(command, Command::SetEndpoints(all) if all.len() == 1)));
}
