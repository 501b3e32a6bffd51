//! The seam between a policy and what holds for all of them.

use std::time::Duration;

use serde_json::Value;

use super::{Change, HeldBack, LevelObservation, Rule};
use crate::load::Signal;

/// What a policy would do, and why. It need not look at the SLA, at cool-downs or at missing signals.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The rule it comes from.
    pub rule: Rule,
    /// The signal that mattered.
    pub signal: Option<Signal>,
    /// That signal as it was observed.
    pub observed: Option<f64>,
    /// The load that was made of it.
    pub value: Option<f64>,
    /// What the load was compared with.
    pub threshold: Option<f64>,
    /// What the rule asks for.
    pub wanted: Change,
    /// What of it is to be done: `wanted`, or less when something of the policy's own held it back.
    pub change: Change,
    /// What of the policy's own held it back.
    pub held_back: Vec<HeldBack>,
    /// The reason in words.
    pub text: String,
}

impl Proposal {
    /// To do nothing, for this reason.
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

    /// The same, with a change that nothing holds back.
    #[must_use]
    pub fn to(mut self, change: Change) -> Self {
        self.wanted = change;
        self.change = change;
        self
    }
}

/// For how long nothing is done after an action has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// So many observations; 0 is no wait.
    Observations(u32),
    /// So long.
    Time(Duration),
}

/// What a policy wants to be held back by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
    /// Whether an action waits until the one before has ended (BRK-30).
    pub one_at_a_time: bool,
    /// The cool-down before a level grows again.
    pub before_growth: Wait,
    /// The cool-down before a level shrinks again.
    pub before_shrinking: Wait,
}

/// Observations that may be missing in a row, the last of them included, until a policy that counts observations begins
/// anew.
const GAP_MAX: u32 = 4;

/// The time since the observation before.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// How long it is.
    pub length: Duration,
    /// How long it is to be.
    pub interval: Duration,
    /// How long the gap before it was. Where it takes longer to observe than the interval is, observations come no
    /// faster, and none is missing.
    pub before: Duration,
}

/// Turns what is seen of one level into what would be done about it. It remembers what it needs, within bounds.
pub trait Policy: Send {
    /// Takes the next observation in and proposes.
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal;

    /// What holds its proposals back.
    fn guards(&self) -> Guards;

    /// What it remembers, for [`recall`](Self::recall) after a restart.
    ///
    /// # Errors
    /// When it cannot be told.
    fn memory(&self) -> Result<Value, serde_json::Error>;

    /// Takes up what a policy of the same name has remembered at the same interval with the same signals.
    ///
    /// # Errors
    /// When it cannot be understood; nothing is taken up then.
    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error>;

    /// Whether what it remembers still says something of now, the newest of it being from before the gap. Otherwise it
    /// begins anew.
    fn bridges(&mut self, gap: Gap) -> bool {
        gap.length <= gap.interval.max(gap.before).saturating_mul(GAP_MAX)
    }
}
