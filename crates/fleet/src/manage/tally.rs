//! Counters of a manager since its start, for its metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::{Action, Outcome};
use super::explain;
use super::moment::Moment;
use crate::level::Level;

/// The observations of one manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    /// How many there were.
    pub all: u64,
    /// Of those, how many began more than half an interval late.
    pub late: u64,
    /// How long the last one took, milliseconds.
    pub took_ms: u64,
}

/// Counters of one manager; they start at 0 with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Actions that have ended, by level, kind and outcome.
    pub actions: BTreeMap<(Level, &'static str, &'static str), u64>,
    /// Steps that have ended, by level and step: how many, and how long they took together, milliseconds.
    pub steps: BTreeMap<(Level, &'static str), (u64, u64)>,
    /// Members that were replaced or started again because they had died, by level.
    pub replaced: BTreeMap<Level, u64>,
    /// Observations.
    pub observations: Observations,
}

impl Tally {
    /// Counts an observation that began so late, and took so long with everything that followed from it at once.
    pub(super) fn count_observation(&mut self, interval: Duration, late: Duration, took: Duration) {
        let observations = &mut self.observations;
        observations.all += 1;
        observations.late += u64::from(late > interval / 2);
        observations.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    }

    /// Counts an action that ends.
    pub(super) fn count_ended(&mut self, action: &Action, outcome: &Outcome, now: Moment) {
        let (level, kind) = (action.level, explain::kind(action.kind));
        let outcome_name = if *outcome == Outcome::Done { "done" } else { "failed" };
        *self.actions.entry((level, kind, outcome_name)).or_default() += 1;
        for record in &action.steps {
            let (count, took) = self.steps.entry((level, explain::step(record.step))).or_default();
            *count += 1;
            *took += record.ended.unwrap_or(now).since(record.started);
        }
        if *outcome == Outcome::Done {
            let healed = action.healed();
            *self.replaced.entry(level).or_default() += healed;
        }
    }
}
