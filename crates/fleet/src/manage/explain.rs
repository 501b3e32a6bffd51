//! The history as JSON.

use serde_json::{Value, json};

use super::action::{Action, Kind, Outcome, Step};
use super::decisions::{Decisions, Judged};
use super::judge::{HottestMember, Wish};
use super::moment::Moment;
use crate::level::Level;

/// A kind of action in words.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Start | Kind::Resume => "start",
        Kind::ScaleOut => "scale-out",
        Kind::ScaleIn => "scale-in",
        Kind::Replace => "replace",
        Kind::Restart => "restart",
        Kind::Adopt => "adopt",
        Kind::Evacuate => "evacuate",
        Kind::GiveUp => "give-up",
    }
}

pub(super) fn step(step: Step) -> &'static str {
    match step {
        Step::Discard => "discard",
        Step::SetAside => "set-aside",
        Step::Allocate => "allocate",
        Step::Boot => "boot",
        Step::Join => "join",
        Step::Configure => "configure",
        Step::Announce => "announce",
        Step::Withdraw => "withdraw",
        Step::Ttl => "ttl",
        Step::Drain => "drain",
        Step::HandOver => "hand-over",
        Step::Evict => "evict",
        Step::Return => "return",
        Step::Release => "release",
        Step::Forget => "forget",
    }
}

/// An observation: the state of each level, the decision with its rule, and the action.
pub(super) fn observation(number: u64, decisions: &Decisions, now: Moment) -> Value {
    let levels: serde_json::Map<String, Value> =
        decisions.all().map(|(level, judged)| (level.name().to_owned(), self::judged(judged))).collect();
    json!({"kind": "observation", "observation": number, "at_ms": now.0, "levels": levels})
}

/// How unevenly a level is loaded: its hottest member, and that one's load over the mean.
pub(super) fn skew(skew: &HottestMember) -> Value {
    let ratio = (skew.mean > 0.0).then(|| skew.load / skew.mean);
    json!({"hottest": skew.hottest, "load": skew.load, "mean": skew.mean, "ratio": ratio})
}

/// The last decision about a level.
pub(super) fn judged(judged: &Judged) -> Value {
    let (wish, count) = match judged.decision.wish {
        Wish::Hold => ("hold", 0),
        Wish::Grow(count) => ("grow", count),
        Wish::Shrink(count) => ("shrink", count),
    };
    let member = |member: &super::MemberSeen| {
        json!({
            "name": member.name, "cpu": member.cpu, "cores": member.cores, "rate": member.rate,
            "queued": member.queued, "loop_lag_ms": member.loop_lag_ms, "drops": member.drops, "memory": member.memory,
            "waiting_ms": member.waiting().map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        })
    };
    json!({
        "seen": {
            "serving": judged.seen.serving, "pending": judged.seen.pending, "leaving": judged.seen.leaving,
            "members": judged.seen.members.iter().map(member).collect::<Vec<_>>(),
        },
        "load": judged.decision.load,
        "skew": judged.decision.skew.as_ref().map(skew),
        "wish": wish,
        "count": count,
        "reason": judged.decision.reason,
        "details": judged.decision.details,
        "did": judged.did,
    })
}

/// An action with its steps and how long each took.
pub(super) fn action(action: &Action, now: Moment) -> Value {
    let steps: Vec<Value> = action
        .steps
        .iter()
        .map(|record| {
            let ended = record.ended.unwrap_or(now);
            json!({
                "step": step(record.step), "started_ms": record.started.0, "ended_ms": record.ended.map(|at| at.0),
                "took_ms": ended.since(record.started), "note": record.note,
            })
        })
        .collect();
    json!({
        "number": action.number,
        "action": kind(action.kind),
        "level": action.level.name(),
        "targets": action.targets,
        "replaces": action.old,
        "reason": action.reason,
        "observation": action.observation,
        "failing": action.failing,
        "started_ms": action.started.0,
        "took_ms": now.since(action.started),
        "steps": steps,
    })
}

/// An action that has ended.
pub(super) fn ended(ended: &Action, outcome: &Outcome, now: Moment) -> Value {
    let mut value = action(ended, now);
    if let Some(object) = value.as_object_mut() {
        object.insert("kind".to_owned(), json!("action"));
        object.insert("at_ms".to_owned(), json!(now.0));
        let (outcome, why) = match outcome {
            Outcome::Done => ("done", Value::Null),
            Outcome::Failed(why) => ("failed", json!(why)),
        };
        object.insert("outcome".to_owned(), json!(outcome));
        object.insert("why".to_owned(), why);
    }
    value
}

/// The action that each level would begin now, with the reason against it.
pub(super) fn plan(number: u64, decisions: &Decisions) -> Value {
    let levels: serde_json::Map<String, Value> = Level::ALL
        .iter()
        .map(|level| {
            let judged = decisions.of(*level).map_or(Value::Null, judged);
            (level.name().to_owned(), judged)
        })
        .collect();
    json!({"observation": number, "levels": levels})
}
