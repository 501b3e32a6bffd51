//! The memory that the next manager's policies restore.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::super::*;
use super::world::settings;
use crate::decide::{self, Bounds, Decider, PolicyName, Sla};
use crate::level::Level;

pub(in crate::manage) fn manager(policy: PolicyName) -> Manager {
    let bounds = Bounds::new(1, 9).unwrap();
    let judge = |level: &Level| {
        let decider = Decider::new(policy, &decide::Settings::default()).unwrap();
        let judge = PolicyJudge::new(decider, Sla::new(bounds, bounds, None).unwrap());
        (*level, Box::new(judge) as Box<dyn Judge>)
    };
    let settings = settings([1, 1], 1, 9);
    Manager::new(settings, Level::ALL.iter().map(judge).collect::<BTreeMap<_, _>>(), Book::default(), 0)
}

fn wish(manager: &mut Manager, seconds: u64) -> Wish {
    let cpu = Some(0.9);
    let name = "broker-1".parse().unwrap();
    let member =
        MemberSeen { name, cpu, cores: 1.0, rate: None, queued: None, loop_lag_ms: None, drops: None, memory: None };
    let (at, level) = (Moment(seconds * 1000), Level::Broker);
    let lead_time = None;
    let members = vec![member];
    let seen = LevelSeen { at, level, serving: 1, pending: 0, leaving: 0, elsewhere: 1, lead_time, members };
    manager.decisions.judges.get_mut(&level).unwrap().judge(&seen).wish
}

#[test]
fn the_next_manager_counts_on() {
    let mut first = manager(PolicyName::Consecutive);
    first.decisions.lead_times.insert(Level::Broker, Duration::from_millis(1500));
    assert_eq!((wish(&mut first, 15), wish(&mut first, 30)), (Wish::Hold, Wish::Hold));
    let memory = first.memory();
    let mut next = manager(PolicyName::Consecutive);
    assert_eq!(next.recall(&memory), Vec::<String>::new());
    assert_eq!(next.decisions.lead_times, first.decisions.lead_times);
    assert_eq!(wish(&mut next, 45), Wish::Grow(1));
    let mut other = manager(PolicyName::Brokel);
    let problems = other.recall(&memory);
    assert!(
        problems.len() == 2 && problems[0].contains("level broker: it was remembered by consecutive"),
        "{problems:?}"
    );
    for strange in [json!(null), json!({"broker": 5}), json!({"broker": {"policy": {"by": 1}}})] {
        assert!(manager(PolicyName::Brokel).recall(&strange).len() <= 1);
    }
}

#[test]
fn the_hottest_member_is_named() {
    let mut manager = manager(PolicyName::Default);
    let member = |name: &str, cpu: f64| MemberSeen {
        name: name.parse().unwrap(),
        cpu: Some(cpu),
        cores: 1.0,
        rate: None,
        queued: None,
        loop_lag_ms: None,
        drops: None,
        memory: None,
    };
    let level = Level::Broker;
    let mut seen = LevelSeen {
        at: Moment(0),
        level,
        serving: 3,
        pending: 0,
        leaving: 0,
        elsewhere: 1,
        lead_time: None,
        members: vec![member("broker-1", 0.0), member("broker-2", 0.9), member("broker-3", 0.0)],
    };
    let judge = manager.decisions.judges.get_mut(&level).unwrap();
    let skew = judge.judge(&seen).skew.unwrap();
    assert_eq!(skew.hottest, "broker-2".parse().unwrap());
    assert!((skew.load - 0.9).abs() < 1e-9 && (skew.mean - 0.3).abs() < 1e-9, "{skew:?}");
    let shown = super::super::explain::skew(&skew);
    assert_eq!(shown["hottest"], json!("broker-2"));
    assert!((shown["ratio"].as_f64().unwrap() - 3.0).abs() < 1e-9, "{shown}");
    // A single member is not skewed.
    (seen.serving, seen.at) = (1, Moment(15_000));
    seen.members.truncate(1);
    assert_eq!(judge.judge(&seen).skew, None);
}
