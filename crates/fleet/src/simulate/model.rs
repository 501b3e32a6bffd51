//! What the fleet is made of.

use std::time::Duration;

use crate::decide::{Level, Settings, SettingsError, Sla, SlaError};
use crate::load::Signal;

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
    /// Messages that may wait for each resource; what comes beyond is dropped. `None` for no limit.
    pub queue_limit: Option<f64>,
    /// Bytes that a resource holds for which nothing waits.
    pub idle_memory: f64,
    /// Bytes that each message takes that waits.
    pub message_memory: f64,
}

impl TierModel {
    /// What a broker holds that does nothing, in bytes.
    pub const IDLE_MEMORY: u64 = 16 << 20;
    /// What a message takes that waits, in bytes: a small one with what a queue keeps of it.
    pub const MESSAGE_MEMORY: u64 = 1 << 10;

    /// Resources without a limit of what waits, and with the memory of small brokers.
    #[must_use]
    pub fn new(capacity: f64, start: u32) -> Self {
        Self {
            capacity,
            start,
            boot: Duration::from_secs(30),
            subscription: Duration::ZERO,
            drain: Duration::from_secs(15),
            queue_limit: None,
            idle_memory: Self::IDLE_MEMORY as f64,
            message_memory: Self::MESSAGE_MEMORY as f64,
        }
    }
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
    /// A limit of what waits, or an amount of memory, that is no number of 0 or more.
    #[error("{what} of {value} at the {level} level makes no sense: choose 0 or more")]
    Amount {
        /// Of what.
        what: &'static str,
        /// Whose.
        level: Level,
        /// What was given.
        value: f64,
    },
    /// A signal that nothing is known of here.
    #[error("the simulator knows of no {signal}: choose among the other signals")]
    Signal {
        /// Which.
        signal: Signal,
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
        if self.settings.signals.loop_lag.is_some() {
            return Err(ModelError::Signal { signal: Signal::LoopLag });
        }
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
        let amounts = [
            ("a queue limit", tier.queue_limit.unwrap_or_default()),
            ("an idle memory", tier.idle_memory),
            ("a memory for each message", tier.message_memory),
        ];
        if let Some((what, value)) = amounts.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
            return Err(ModelError::Amount { what, level, value });
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
