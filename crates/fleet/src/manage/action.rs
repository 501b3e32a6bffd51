//! An action and its steps.

use serde::{Deserialize, Serialize};

use super::moment::Moment;
use crate::level::Level;
use crate::provider::ResourceName;

/// Longest note of a step, bytes; it is cut there.
const MAX_NOTE: usize = 500;

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The first resources of a level.
    Start,
    /// More resources (BRK-31).
    ScaleOut,
    /// Fewer resources (BRK-32, BRK-33).
    ScaleIn,
    /// Dead brokers give way to new ones (LAV-30).
    Replace,
    /// Dead orchestrators start again on their stored state (LAV-30): their sessions and accepted messages are there.
    Restart,
    /// Orchestrators that were stopped with their fleet start again on their stored state.
    Resume,
    /// A resource of this fleet that the book does not know is taken in.
    Adopt,
    /// Another controller removes a resource: it is drained while it still answers.
    Evacuate,
    /// An orchestrator that could not be restarted within the limit is given up: its stored state is set aside. Other
    /// members of the cluster have taken over its partitions.
    GiveUp,
}

impl Kind {
    /// Whether its targets existed before and start again on their stored state, so that they are never removed.
    pub(super) fn starts_again(self) -> bool {
        matches!(self, Self::Restart | Self::Resume)
    }
}

/// One step of an action. Each may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Remains of dead brokers are removed.
    Discard,
    /// The remains of an orchestrator end, and its stored state is kept where it is not started again.
    SetAside,
    /// The provider is asked.
    Allocate,
    /// The action waits until it answers.
    Boot,
    /// Every orchestrator connects to the broker and subscribes, until it says that the broker serves (BRK-26).
    Join,
    /// The orchestrator gets the list of all brokers, until it reports that it serves each.
    Configure,
    /// Its address is added to the entry point.
    Announce,
    /// Its address leaves the entry point.
    Withdraw,
    /// Until no client can hold its address from the entry point any more.
    Ttl,
    /// Orchestrators send no more messages to the broker, until none are pending.
    Drain,
    /// The orchestrator's partitions move to others, until it has none.
    HandOver,
    /// The orchestrator's clients move or are closed, until there are none and no message is pending.
    Evict,
    /// It returns to service.
    Return,
    /// The provider takes it away.
    Release,
    /// No orchestrator knows it any more.
    Forget,
}

/// How an action ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It did not, and why.
    Failed(String),
}

/// A step as it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The step.
    pub step: Step,
    /// When it began.
    pub started: Moment,
    /// When its condition was met.
    pub ended: Option<Moment>,
    /// A note for people: the resource that it waits for, the error. It is not stored while it changes.
    pub note: String,
}

/// An action with its steps so far; the last one is in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Counted from 1 over all levels.
    pub number: u64,
    /// The kind.
    pub kind: Kind,
    /// At which level.
    pub level: Level,
    /// Why, in a sentence.
    pub reason: String,
    /// The observation that caused it.
    pub observation: u64,
    /// The resources that it adds, removes or starts again.
    pub targets: Vec<ResourceName>,
    /// The resources that it replaces.
    pub old: Vec<ResourceName>,
    /// Whether orchestrators forget a broker before it is released: for a provider that holds it until it has no
    /// connections.
    #[serde(default)]
    pub forget_first: bool,
    /// The reason of its undoing; `None` while it goes forward.
    pub failing: Option<String>,
    /// When it began.
    pub started: Moment,
    /// The steps so far.
    pub steps: Vec<StepRecord>,
}

impl Action {
    /// How many dead resources it restarts or replaces if it succeeds.
    pub(super) fn healed(&self) -> u64 {
        let dead = match self.kind {
            Kind::Replace => self.old.len(),
            Kind::Restart => self.targets.len(),
            _ => 0,
        };
        u64::try_from(dead).unwrap_or(u64::MAX)
    }

    /// The step that is under way.
    pub fn step(&self) -> Option<Step> {
        self.steps.last().map(|record| record.step)
    }

    /// When the step that is under way began.
    pub fn step_started(&self) -> Moment {
        self.steps.last().map_or(self.started, |record| record.started)
    }

    /// Ends the step that is under way and begins the next one.
    pub(super) fn begin(&mut self, step: Step, now: Moment) {
        self.end_step(now);
        self.steps.push(StepRecord { step, started: now, ended: None, note: String::new() });
    }

    pub(super) fn end_step(&mut self, now: Moment) {
        if let Some(record) = self.steps.last_mut() {
            record.ended.get_or_insert(now);
        }
    }

    pub(super) fn note(&mut self, note: &str) {
        if let Some(record) = self.steps.last_mut() {
            record.note = note.chars().take(MAX_NOTE).collect();
        }
    }

    /// The step after this one while the action succeeds.
    pub(super) fn next(&self, step: Step) -> Option<Step> {
        let order = self.order();
        let place = order.iter().position(|known| *known == step)?;
        order.get(place + 1).copied()
    }

    /// The steps of an action that succeeds, or is being undone.
    fn order(&self) -> &'static [Step] {
        use Step::{
            Allocate, Announce, Boot, Configure, Discard, Drain, Evict, Forget, HandOver, Join, Release, Return,
            SetAside, Ttl, Withdraw,
        };
        let returned = self.steps.iter().any(|record| record.step == Return);
        match (self.kind, self.level) {
            _ if returned => &[Return],
            (Kind::GiveUp, _) => &[SetAside],
            (Kind::Evacuate, Level::Broker) => &[Drain, Forget, Release],
            (Kind::ScaleIn, Level::Broker) if self.forget_first => &[Drain, Forget, Release],
            (Kind::ScaleIn, Level::Broker) => &[Drain, Release, Forget],
            (Kind::ScaleIn | Kind::Evacuate, Level::Orchestrator) => &[Withdraw, Ttl, HandOver, Evict, Release],
            (_, Level::Broker) if self.failing.is_some() && self.forget_first => &[Drain, Forget, Release],
            (_, Level::Broker) if self.failing.is_some() => &[Drain, Release, Forget],
            (_, Level::Orchestrator) if self.failing.is_some() => &[Withdraw, Ttl, HandOver, Evict, Release],
            (Kind::Replace, Level::Broker) => &[Discard, Allocate, Boot, Join, Forget],
            (Kind::Adopt, Level::Broker) => &[Boot, Join],
            (_, Level::Broker) => &[Allocate, Boot, Join],
            (Kind::Adopt, Level::Orchestrator) => &[Boot, Configure, Announce],
            (_, Level::Orchestrator) => &[Allocate, Boot, Configure, Announce],
        }
    }

    pub(super) fn first(&self) -> Step {
        self.order().first().copied().unwrap_or(Step::Boot)
    }
}
