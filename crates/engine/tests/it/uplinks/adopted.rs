//! Connections of a dead orchestrator to its brokers, which another one works off.

use tidegate_engine::{OrchestratorMoves, RoutingPolicy, UplinkState};

use crate::harness::*;

fn world() -> World {
    World::with(1, |settings| fleet_settings(settings, RoutingPolicy::TopicHash))
}

#[test]
fn pending_messages_of_a_dead_orchestrator_reach_a_broker() {
    let dead = world();
    let broker = dead.broker("a");
    broker.now(|ways| ways.withholds_acknowledgements = true);
    dead.connect(v5("publisher")).publish(message("t", "1").qos1());
    assert_eq!(dead.owed(), 1);
    let images = dead.engine(0, |engine, now| OrchestratorMoves::of(engine).uplink_images(now));
    let [image] = &images[..] else { panic!("one broker") };
    assert_eq!(image.broker, "a");

    let heir = world();
    let own = heir.broker("b");
    let left = heir.broker_unknown("a@dead", Ways::default());
    let name = heir
        .engine(0, |engine, now| OrchestratorMoves::of(engine).adopt_uplink(now, "dead", image, 1, fleet::lasting()));
    assert_eq!(name.as_deref(), Ok("a@dead"));
    heir.run();
    let report = left.report();
    assert_eq!((report.state, report.owed()), (UplinkState::Drained, 0), "{report:?}");
    let taken = |broker: &Broker| broker.report().counters.acknowledged;
    assert_eq!(taken(&own) + taken(&left), 1, "one of the brokers has the pending message");
    let before = taken(&left);
    heir.connect(v5("publisher")).publish(message("t", "2").qos1());
    heir.run();
    assert_eq!((taken(&own) + taken(&left), taken(&left)), (2, before), "nothing else is given to it");
    let mut settling = heir.engine(0, |engine, now| OrchestratorMoves::of(engine).begin_settling_of(now, "a@dead"));
    heir.run();
    assert!(heir.engine(0, |engine, now| engine.settle(now, &mut settling)), "it has brought all that it had");
    heir.engine(0, |engine, now| engine.remove_uplink(now, "a@dead", false)).expect("it owes nothing");
}
