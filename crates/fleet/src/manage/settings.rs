//! What a manager is set by.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::level::Level;
use crate::provider::{ResourceName, Stack};

/// Whom a scale in takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// The one that was added last, as the study does.
    #[default]
    LastAdded,
    /// The one that is owed least, for brokers, or has the fewest clients, for orchestrators; among equals the last
    /// added.
    LeastLoaded,
}

/// What happens to a resource whose drain takes too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrainLimit {
    /// It is returned to service, and the scale in has failed.
    #[default]
    Return,
    /// The drain goes on; the note of its step says for whom it waits.
    Wait,
}

/// One level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelSettings {
    /// Resources at the start, within the limits of the SLA.
    pub initial: u32,
    /// The most that the SLA allows.
    pub most: u32,
    /// The least that the SLA allows.
    pub least: u32,
    /// Cores of each.
    pub cores: f64,
    /// Templates with their weights, each 1 or more; several make a mixed fleet (BRK-47).
    pub templates: Vec<(String, u32)>,
    /// Whom a scale in takes.
    pub victim: Victim,
    /// How its resources are named and ordered, where the provider says so; the last one is then whom a scale in takes.
    pub stack: Option<Stack>,
    /// Whether somebody else decides how many there are, such as an autoscaler: the manager then joins what appears,
    /// drains what is taken away, and asks the provider for nothing.
    pub decided_elsewhere: bool,
}

/// A manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The fleet's name.
    pub fleet: String,
    /// Time between observations (BRK-41).
    pub interval: Duration,
    /// Time between looks at what an action waits for.
    pub check: Duration,
    /// Both levels.
    pub levels: BTreeMap<Level, LevelSettings>,
    /// The most resources that the SLA allows in all.
    pub most_in_all: Option<u32>,
    /// Observations in a row without an answer after which a resource counts as dead; one whose process has ended
    /// counts at once.
    pub down_after: u32,
    /// Time from the request until a resource answers.
    pub boot_limit: Duration,
    /// How long the partitions of a dead orchestrator wait until it is started again.
    pub restart_limit: Duration,
    /// Time until every orchestrator serves a new broker, or a new orchestrator serves every broker.
    pub join_limit: Duration,
    /// Time until a broker or orchestrator that leaves owes nothing.
    pub drain_limit: Duration,
    /// What happens then.
    pub on_drain_limit: OnDrainLimit,
    /// How long clients may hold an address of the entry point (its TTL).
    pub entry_ttl: Duration,
    /// Clients that a draining orchestrator closes per second, at most.
    pub evict_per_second: u32,
    /// How long clients of a draining orchestrator have to leave by themselves.
    pub evict_after: Duration,
}

impl Settings {
    /// The settings of a level.
    pub fn level(&self, level: Level) -> Option<&LevelSettings> {
        self.levels.get(&level)
    }

    /// How the resources of a level are named and ordered, where the provider says so.
    pub(super) fn stack(&self, level: Level) -> Option<&Stack> {
        self.level(level)?.stack.as_ref()
    }

    /// Whether a name is one that a provider gives to resources of this fleet.
    pub(super) fn is_stacked(&self, name: &ResourceName) -> bool {
        Level::ALL.iter().any(|level| self.stack(*level).is_some_and(|stack| stack.number(name).is_some()))
    }
}
