//! The settings of a manager.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::level::Level;
use crate::provider::{ResourceName, Stack};

/// The resource that a scale in removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// The member that was added last, as in the study.
    #[default]
    LastAdded,
    /// The broker with the fewest pending messages, or the orchestrator with the fewest clients; among equals the last
    /// added.
    LeastLoaded,
}

/// The policy for a drain that takes too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrainLimit {
    /// It is returned to service, and the scale in has failed.
    #[default]
    Return,
    /// The drain continues; the note of its step names the cause.
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
    /// The resource that a scale in removes.
    pub victim: Victim,
    /// How its resources are named and ordered, if the provider defines that; a scale in then removes the last one.
    pub stack: Option<Stack>,
    /// Whether another controller, such as an autoscaler, decides their number. The manager then adopts new resources,
    /// drains removed ones, and requests none from the provider.
    pub decided_elsewhere: bool,
}

/// A manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The fleet's name.
    pub fleet: String,
    /// Time between observations (BRK-41).
    pub interval: Duration,
    /// Time between looks at actions in progress.
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
    /// Time until a leaving broker or orchestrator has no pending messages.
    pub drain_limit: Duration,
    /// The policy after that.
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
