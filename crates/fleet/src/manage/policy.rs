//! A policy of [`decide`](crate::decide) as the judge of a level.

use std::time::Duration;

use serde_json::Value;

use super::judge::{HottestMember, Judge, LevelDecision, LevelSeen, MemberSeen, Wish, after};
use super::moment::Moment;
use crate::decide::{Change, Decider, LevelObservation, MemoryError, Sla};
use crate::load::{Cpu, Sample};

/// A decider with the agreement that it decides under.
#[derive(Debug)]
pub struct PolicyJudge {
    decider: Decider,
    sla: Sla,
}

impl PolicyJudge {
    /// A judge that decides as `decider` does.
    pub fn new(decider: Decider, sla: Sla) -> Self {
        Self { decider, sla }
    }
}

impl Judge for PolicyJudge {
    fn judge(&mut self, seen: &LevelSeen) -> LevelDecision {
        let samples: Vec<Sample> = seen.members.iter().map(sample).collect();
        let observation = LevelObservation {
            time: Duration::from_millis(seen.at.0),
            level: seen.level,
            serving: seen.serving,
            pending: seen.pending,
            leaving: seen.leaving,
            elsewhere: seen.elsewhere,
            lead_time: seen.lead_time,
            samples: &samples,
        };
        let hottest = self.decider.hottest(&observation);
        let decision = self.decider.decide(&observation, &self.sla);
        let wish = match decision.change {
            Change::Hold => Wish::Hold,
            Change::Grow(count) => Wish::Grow(count),
            Change::Shrink(count) => Wish::Shrink(count),
        };
        // A member that leaves or is dead is replaced: fewer serve for now than suit.
        let is_settled =
            seen.leaving == 0 && decision.explanation.value.is_some() && decision.explanation.held_back.is_empty();
        LevelDecision {
            wish,
            suits: (wish != Wish::Hold || is_settled).then(|| after(seen, wish)),
            load: decision.explanation.value,
            details: decision.explanation.to_json(),
            reason: decision.reason,
            skew: hottest.and_then(|hottest| {
                let member = seen.members.get(hottest.index)?;
                Some(HottestMember { hottest: member.name.clone(), load: hottest.load, mean: hottest.mean })
            }),
        }
    }

    fn note_action(&mut self, at: Moment) {
        self.decider.note_action(Duration::from_millis(at.0));
    }

    fn memory(&self) -> Option<Value> {
        let memory = self.decider.memory();
        memory.inspect_err(|error| tracing::warn!(%error, "cannot save the state of a policy")).ok()
    }

    fn recall(&mut self, memory: &Value) -> Result<(), MemoryError> {
        self.decider.recall(memory)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a load needs no more than 52 bits")]
fn sample(member: &MemberSeen) -> Sample {
    Sample {
        cpu: member.cpu.map(|cpu| Cpu { used: cpu * member.cores, allocated: member.cores }),
        message_rate: member.rate,
        queued: member.queued.map(|queued| queued as f64),
        loop_lag: member.loop_lag_ms.and_then(|lag| Duration::try_from_secs_f64(lag / 1000.0).ok()),
        waiting: member.waiting(),
        drop_rate: member.drops,
        memory: member.memory.map(|memory| memory as f64),
    }
}
