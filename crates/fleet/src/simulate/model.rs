//! The model of a fleet.

use std::time::Duration;

use crate::decide::{Level, Settings, SettingsError, Sla, SlaError};
use crate::load::Signal;

/// The most resources that a level may have in a simulation.
const RESOURCES_MAX: u32 = 1_000_000;

/// The capacity of a level's resources, and the times to add and remove one. All are alike (BRK-11).
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
    /// Time from the decision to remove a resource until it is gone; it does no work, and costs money.
    pub drain: Duration,
    /// Most waiting messages for each resource; further ones are dropped. `None` for no limit.
    pub queue_limit: Option<f64>,
    /// Memory of a resource without waiting messages, bytes.
    pub idle_memory: f64,
    /// Bytes that each message takes that waits.
    pub message_memory: f64,
}

impl TierModel {
    /// Memory of an idle broker, bytes.
    pub const IDLE_MEMORY: u64 = 16 << 20;
    /// Memory of a waiting message, bytes: a small one with the queue's overhead.
    pub const MESSAGE_MEMORY: u64 = 1 << 10;

    /// Resources without a limit of waiting messages, and with the memory of small brokers.
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

/// A fleet, and its observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The brokers.
    pub brokers: TierModel,
    /// The orchestrators before them; `None` leaves them out of everything.
    pub orchestrators: Option<TierModel>,
    /// The limits of the agreement.
    pub sla: Sla,
    /// The settings of policies; their interval is the time between observations.
    pub settings: Settings,
    /// How long a message may wait and still be in time.
    pub deadline: Duration,
    /// The most messages that publishers have sent and that are not handled yet: until there are fewer, they keep further
    /// ones. `None` for publishers that do not wait.
    pub outstanding: Option<f64>,
}

/// A model that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A capacity that is not a positive number.
    #[error("a capacity of {capacity} messages/s at the {level} level serves no client: choose a number above 0")]
    Capacity {
        /// Whose capacity.
        level: Level,
        /// The given value.
        capacity: f64,
    },
    /// A limit of waiting messages, or an amount of memory, that is not a number of 0 or more.
    #[error("{amount} of {value} at the {level} level makes no sense: choose 0 or more")]
    Amount {
        /// Its name.
        amount: &'static str,
        /// Whose.
        level: Level,
        /// The given value.
        value: f64,
    },
    /// Publishers that never send.
    #[error("publishers with {value} outstanding messages send nothing: choose 1 or more")]
    Outstanding {
        /// The given value.
        value: f64,
    },
    /// A signal that the simulation does not have.
    #[error("the simulator knows of no {signal}: choose among the other signals")]
    Signal {
        /// The signal.
        signal: Signal,
    },
    /// A start outside the agreement.
    #[error("{start} {level}s at the start are outside the SLA's {least} to {most}: start within it")]
    Start {
        /// The level.
        level: Level,
        /// The given value.
        start: u32,
        /// The minimum.
        least: u32,
        /// The maximum.
        most: u32,
    },
    /// More resources than can be worked with.
    #[error("a maximum of {most} {level}s is too much to simulate: choose {RESOURCES_MAX} or fewer")]
    TooMany {
        /// The level.
        level: Level,
        /// The given value.
        most: u32,
    },
    /// Observations that do not fall on whole seconds.
    #[error("an interval of {interval:?} is no whole number of seconds: choose 1 s or more, without a fraction")]
    Interval {
        /// The given value.
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
        if let Some(value) = self.outstanding.filter(|value| !(value.is_finite() && *value >= 1.0)) {
            return Err(ModelError::Outstanding { value });
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
        if let Some((amount, value)) = amounts.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
            return Err(ModelError::Amount { amount, level, value });
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
