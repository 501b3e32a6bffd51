//! What the fleet is made of.

use std::time::Duration;

use crate::decide::{Level, Settings, SettingsError, Sla, SlaError};

/// The most resources that a level may have in a simulation.
const RESOURCES_MAX: u32 = 1_000_000;

/// What a resource of a level can do, and how long it takes to get one and to be rid of one. All are alike (BRK-11).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierModel {
    /// Messages per second of one resource, above 0.
    pub capacity: f64,
    /// Resources at the start.
    pub start: u32,
    /// From the request until it runs.
    pub boot: Duration,
    /// From there until it holds all subscriptions and serves (BRK-26).
    pub subscription: Duration,
    /// From the decision to remove one until it is gone; it does no work, and is paid for.
    pub drain: Duration,
}

/// A fleet, and how it is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The brokers.
    pub brokers: TierModel,
    /// The orchestrators before them; `None` leaves them out of everything.
    pub orchestrators: Option<TierModel>,
    /// What the agreement allows.
    pub sla: Sla,
    /// What policies are set by; their interval is the time between observations.
    pub settings: Settings,
    /// How long a message may wait and still be in time.
    pub deadline: Duration,
}

/// A model that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A capacity that is not a positive number.
    #[error("a capacity of {capacity} messages/s at the {level} level serves nobody: choose a number above 0")]
    Capacity {
        /// Whose capacity.
        level: Level,
        /// What was given.
        capacity: f64,
    },
    /// A start outside the agreement.
    #[error("{start} {level}s at the start are outside the SLA's {least} to {most}: start within it")]
    Start {
        /// Of which level.
        level: Level,
        /// What was given.
        start: u32,
        /// The minimum.
        least: u32,
        /// The maximum.
        most: u32,
    },
    /// More resources than can be worked with.
    #[error("a maximum of {most} {level}s is too much to simulate: choose {RESOURCES_MAX} or fewer")]
    TooMany {
        /// Of which level.
        level: Level,
        /// What was given.
        most: u32,
    },
    /// Observations that do not fall on whole seconds.
    #[error("an interval of {interval:?} is no whole number of seconds: choose 1 s or more, without a fraction")]
    Interval {
        /// What was given.
        interval: Duration,
    },
    /// A policy's setting.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The agreement.
    #[error(transparent)]
    Sla(#[from] SlaError),
}

impl Model {
    /// Checks everything.
    ///
    /// # Errors
    /// At the first thing that makes no sense.
    pub fn validate(&self) -> Result<(), ModelError> {
        self.settings.validate()?;
        let interval = self.settings.interval;
        if interval.subsec_nanos() != 0 {
            return Err(ModelError::Interval { interval });
        }
        self.check(Level::Broker, &self.brokers)?;
        self.orchestrators.as_ref().map_or(Ok(()), |tier| self.check(Level::Orchestrator, tier))
    }

    fn check(&self, level: Level, tier: &TierModel) -> Result<(), ModelError> {
        let capacity = tier.capacity;
        if !(capacity.is_finite() && capacity > 0.0) {
            return Err(ModelError::Capacity { level, capacity });
        }
        let bounds = self.sla.bounds(level);
        let (least, most, start) = (bounds.least(), bounds.most(), tier.start);
        if most > RESOURCES_MAX {
            return Err(ModelError::TooMany { level, most });
        }
        if !(least..=most).contains(&start) {
            return Err(ModelError::Start { level, start, least, most });
        }
        Ok(())
    }
}
