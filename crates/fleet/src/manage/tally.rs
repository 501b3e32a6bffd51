//! What a manager has done since it was started, for its metrics.

use std::collections::BTreeMap;

use super::action::{Action, Outcome};
use super::explain;
use super::machine::Manager;
use super::moment::Moment;
use crate::level::Level;

/// Counts of one manager; they begin anew with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Actions that have ended, by level, kind and outcome.
    pub actions: BTreeMap<(Level, &'static str, &'static str), u64>,
    /// Steps that have ended, by level and step: how many, and how long they took together, milliseconds.
    pub steps: BTreeMap<(Level, &'static str), (u64, u64)>,
    /// Members that were replaced or started again because they had died, by level.
    pub replaced: BTreeMap<Level, u64>,
}

impl Manager {
    /// What this manager has done.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts an action that ends.
    pub(super) fn count_ended(&mut self, action: &Action, outcome: &Outcome, now: Moment) {
        let (level, kind) = (action.level, explain::kind(action.kind));
        let outcome_name = if *outcome == Outcome::Done { "done" } else { "failed" };
        *self.tally.actions.entry((level, kind, outcome_name)).or_default() += 1;
        for record in &action.steps {
            let (count, took) = self.tally.steps.entry((level, explain::step(record.step))).or_default();
            *count += 1;
            *took += record.ended.unwrap_or(now).since(record.started);
        }
        if *outcome == Outcome::Done {
            let healed = action.healed();
            *self.tally.replaced.entry(level).or_default() += healed;
        }
    }
}
