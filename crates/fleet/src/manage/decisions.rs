//! The judges of the levels, and their last decisions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::judge::{Judge, LevelDecision, LevelSeen};
use super::moment::Moment;
use crate::level::Level;

/// The last decision of a level.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) seen: LevelSeen,
    pub(super) decision: LevelDecision,
    /// The action, for people.
    pub(super) did: String,
}

/// Owns the judges, their last decisions, and the measured lead times that they decide by.
#[derive(Default)]
pub(super) struct Decisions {
    pub(super) judges: BTreeMap<Level, Box<dyn Judge>>,
    /// How long a new resource took to serve, by level.
    pub(super) lead_times: BTreeMap<Level, Duration>,
    judged: BTreeMap<Level, Judged>,
}

impl Decisions {
    /// One judge per level; `ended` is when the last action of each level ended.
    pub(super) fn new(judges: BTreeMap<Level, Box<dyn Judge>>, ended: &BTreeMap<Level, Moment>) -> Self {
        let mut decisions = Self { judges, ..Self::default() };
        for (level, at) in ended {
            decisions.note_action(*level, *at);
        }
        decisions
    }

    /// Judges a level; `None` if it has no judge.
    pub(super) fn judge(&mut self, seen: &LevelSeen) -> Option<LevelDecision> {
        Some(self.judges.get_mut(&seen.level)?.judge(seen))
    }

    /// Informs the judge of a level about an action that changes its next observations.
    pub(super) fn note_action(&mut self, level: Level, at: Moment) {
        if let Some(judge) = self.judges.get_mut(&level) {
            judge.note_action(at);
        }
    }

    pub(super) fn keep(&mut self, judged: Judged) {
        self.judged.insert(judged.seen.level, judged);
    }

    /// The last decision of a level.
    pub(super) fn of(&self, level: Level) -> Option<&Judged> {
        self.judged.get(&level)
    }

    /// The last decision of each level that has one.
    pub(super) fn all(&self) -> impl Iterator<Item = (Level, &Judged)> {
        self.judged.iter().map(|(level, judged)| (*level, judged))
    }
}
