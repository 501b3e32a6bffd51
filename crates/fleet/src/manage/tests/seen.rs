//! The input of judges.

use std::time::Duration;

use super::super::seen::MessageRates;
use super::super::*;
use super::kills::Run;
use super::world::settings;
use crate::level::Level;
use crate::provider::ResourceName;

fn started() -> Run {
    let mut run = Run::new(settings([1, 2], 1, 4), 1, 4, [vec![(0, 1)], vec![(0, 2)]]);
    run.turns(38, &[], &[]);
    run
}

/// The fleet, with the number of messages that each orchestrator has sent to the broker; `None` for one that does not
/// answer.
fn sight(run: &Run, sent: [Option<u64>; 2], owed: u64) -> Sight {
    let mut sight = run.world.sight();
    let names: Vec<ResourceName> = sight.orchestrators.keys().cloned().collect();
    for (name, sent) in names.iter().zip(sent) {
        match (sent, sight.orchestrators.get_mut(name)) {
            (Some(sent), Some(view)) => view.brokers.values_mut().for_each(|it| (it.sent, it.owed) = (sent, owed)),
            _ => drop(sight.orchestrators.remove(name)),
        }
    }
    sight
}

fn seen(run: &mut Run, at: u64, sent: [Option<u64>; 2], owed: u64) -> MemberSeen {
    let sight = sight(run, sent, owed);
    run.manager.seen(Level::Broker, Moment(1_000_000 + at), &sight).members.remove(0)
}

#[test]
fn a_missing_counter_is_unknown_and_its_return_is_no_burst() {
    let mut run = started();
    run.manager.rates = MessageRates::default();
    assert_eq!(seen(&mut run, 0, [Some(1_000), Some(1_000)], 0).rate, None, "nothing to compare with yet");
    let known = seen(&mut run, 1_000, [Some(1_010), Some(1_020)], 3);
    assert_eq!((known.rate, known.queued), (Some(30.0), Some(6)));
    let partly = seen(&mut run, 2_000, [Some(1_020), None], 3);
    assert_eq!((partly.rate, partly.queued), (None, None));
    let nothing = seen(&mut run, 3_000, [None, None], 3);
    assert_eq!((nothing.rate, nothing.queued, nothing.waiting()), (None, None, None));
    // One has sent 20 in two seconds, the other 60 in three.
    let again = seen(&mut run, 4_000, [Some(1_040), Some(1_080)], 0);
    assert_eq!((again.rate, again.queued), (Some(30.0), Some(0)));
}

#[test]
fn drops_of_brokers_are_shared_and_need_all_orchestrators() {
    let mut run = Run::new(settings([2, 2], 1, 4), 1, 4, [vec![(0, 2)], vec![(0, 2)]]);
    run.turns(38, &[], &[]);
    run.manager.rates = MessageRates::default();
    let mut seen = |level, at: u64, lost: [Option<u64>; 2]| -> Vec<Option<f64>> {
        let mut sight = run.world.sight();
        for (view, lost) in sight.orchestrators.values_mut().zip(lost) {
            (view.dropped, view.dropped_fleet_full) = (lost.map(|lost| lost * 2), lost);
        }
        let members = run.manager.seen(level, Moment(1_000_000 + at), &sight).members;
        members.into_iter().map(|member| member.drops).collect()
    };
    assert_eq!(seen(Level::Broker, 0, [Some(0), Some(0)]), [None, None], "nothing to compare with yet");
    assert_eq!(seen(Level::Broker, 1_000, [Some(30), Some(10)]), [Some(20.0), Some(20.0)]);
    assert_eq!(seen(Level::Broker, 2_000, [Some(30), None]), [None, None], "one of them does not tell");
    assert_eq!(seen(Level::Orchestrator, 2_000, [Some(30), Some(40)]), [None, None]);
    assert_eq!(seen(Level::Orchestrator, 4_000, [Some(40), Some(40)]), [Some(10.0), Some(0.0)]);
}

#[test]
fn memory_is_the_number_of_the_provider() {
    let mut run = started();
    assert_eq!(seen(&mut run, 0, [Some(1), Some(1)], 0).memory, Some(64 << 20));
}

#[test]
fn a_reset_counter_is_no_standstill() {
    let mut run = started();
    run.manager.rates = MessageRates::default();
    seen(&mut run, 0, [Some(1_000), Some(1_000)], 0);
    assert_eq!(seen(&mut run, 1_000, [Some(1_000), Some(50)], 0).rate, Some(50.0));
}

#[test]
fn the_waiting_time_is_backlog_over_rate() {
    let member = |queued, rate| MemberSeen {
        name: "broker-1".parse().unwrap(),
        cpu: None,
        cores: 1.0,
        rate,
        queued,
        loop_lag_ms: None,
        drops: None,
        memory: None,
    };
    assert_eq!(member(Some(50), Some(100.0)).waiting(), Some(Duration::from_millis(500)));
    assert_eq!(member(Some(0), Some(0.0)).waiting(), Some(Duration::ZERO));
    assert_eq!(member(Some(5), Some(0.0)).waiting(), None);
    assert_eq!(member(None, Some(1.0)).waiting(), None);
}
