//! An observation of a level.

use std::fmt;
use std::time::Duration;

use crate::load::Sample;

/// The level of resources (BRK-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The brokers, which work messages.
    Broker,
    /// The orchestrators, which clients are connected to.
    Orchestrator,
}

impl Level {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Broker, Self::Orchestrator];

    /// The name in settings, explanations and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Orchestrator => "orchestrator",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A level as it is observed: once per interval, in ascending order of time.
#[derive(Clone, Copy, Debug)]
pub struct LevelObservation<'a> {
    /// Since any fixed start; only differences matter.
    pub time: Duration,
    /// The level.
    pub level: Level,
    /// Resources that do work: online, and holding all subscriptions (BRK-26).
    pub serving: u32,
    /// Resources that were asked for and do not serve yet (BRK-30).
    pub pending: u32,
    /// Resources that get no new work and still run (BRK-32).
    pub leaving: u32,
    /// Resources of the other level, which count towards the maximum in all.
    pub elsewhere: u32,
    /// How long the newest resources took from the request until they served, when that has been measured.
    pub lead_time: Option<Duration>,
    /// One for each serving resource that answered.
    pub samples: &'a [Sample],
}

impl LevelObservation<'_> {
    /// Resources that serve or will.
    pub fn planned(&self) -> u32 {
        self.serving.saturating_add(self.pending)
    }

    /// Resources in any state: all cost money.
    pub fn allocated(&self) -> u32 {
        self.planned().saturating_add(self.leaving)
    }
}
