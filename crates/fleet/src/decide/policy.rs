//! The interface of policies.

use std::time::Duration;

use serde_json::Value;

use super::{Change, HeldBack, LevelObservation, Rule, Wait};
use crate::load::Signal;

/// A policy's proposal, with its reason. It need not consider the SLA, cool-downs or missing signals.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The rule.
    pub rule: Rule,
    /// The signal that mattered.
    pub signal: Option<Signal>,
    /// That signal as it was observed.
    pub observed: Option<f64>,
    /// The resulting load.
    pub value: Option<f64>,
    /// The threshold that the load was compared with.
    pub threshold: Option<f64>,
    /// The change that the rule asks for.
    pub wanted: Change,
    /// The change to make: `wanted`, or less when the policy itself reduces it.
    pub change: Change,
    /// The policy's own reasons for reducing it.
    pub held_back: Vec<HeldBack>,
    /// The reason in words.
    pub text: String,
}

impl Proposal {
    /// No change, for this reason.
    pub fn hold(rule: Rule, text: impl Into<String>) -> Self {
        Self {
            rule,
            signal: None,
            observed: None,
            value: None,
            threshold: None,
            wanted: Change::Hold,
            change: Change::Hold,
            held_back: Vec::new(),
            text: text.into(),
        }
    }

    /// The same, wanting `wanted` and held back by `cause`.
    #[must_use]
    pub fn held(mut self, wanted: Change, cause: HeldBack) -> Self {
        self.wanted = wanted;
        self.change = Change::Hold;
        self.held_back.push(cause);
        self
    }

    /// The same, with an unreduced change.
    #[must_use]
    pub fn to(mut self, change: Change) -> Self {
        self.wanted = change;
        self.change = change;
        self
    }
}

/// The rules that apply to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
    /// Whether an action waits until the one before has ended (BRK-30).
    pub one_at_a_time: bool,
    /// The cool-down before a level grows again.
    pub before_growth: Wait,
    /// The cool-down before a level shrinks again.
    pub before_shrinking: Wait,
}

/// Missing observations in a row, the last one included, after which a policy that counts observations starts again.
const GAP_MAX: u32 = 4;

/// The time since the observation before.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// How long it is.
    pub length: Duration,
    /// How long it is to be.
    pub interval: Duration,
    /// The gap before this one. Where observing takes longer than the interval, observations come at that rate, and
    /// none is missing.
    pub before: Duration,
}

/// Turns observations of one level into proposals. Its memory is bounded.
pub trait Policy: Send {
    /// Takes the next observation in and proposes.
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal;

    /// The rules that reduce its proposals.
    fn guards(&self) -> Guards;

    /// Its state, for [`recall`](Self::recall) after a restart.
    ///
    /// # Errors
    /// When it cannot be encoded.
    fn memory(&self) -> Result<Value, serde_json::Error>;

    /// Restores the state of a policy of the same name, with the same interval and signals.
    ///
    /// # Errors
    /// When it is malformed; then nothing changes.
    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error>;

    /// Whether its state is still valid after the gap. Otherwise it starts again.
    fn bridges(&mut self, gap: Gap) -> bool {
        gap.length <= gap.interval.max(gap.before).saturating_mul(GAP_MAX)
    }
}
