//! The model of a fleet as flags.

use std::time::Duration;

use clap::Args as ClapArgs;
use tidegate_fleet::decide::{Bounds, Settings, Sla, SlaError, Wait};
use tidegate_fleet::load::{LoadError, Signal, SignalSettings, Thresholds};
use tidegate_fleet::simulate::{Model, ModelError, TierModel};

use crate::fleet::arguments::{FlagError, fraction, time};
use tidegate_units::size;

/// The flags of the fleet's model and of policies.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Fleet")]
pub(super) struct ModelArgs {
    /// Messages per second of one broker
    #[arg(long, value_name = "N", allow_negative_numbers = true, required_unless_present_any = ["message_cost", "list", "suite"])]
    capacity: Option<f64>,
    /// Instead of --capacity: CPU time of one message, in microseconds of a broker's one core
    #[arg(long, value_name = "US", allow_negative_numbers = true, conflicts_with = "capacity")]
    message_cost: Option<f64>,
    /// Brokers at the start [default: the minimum]
    #[arg(long, value_name = "N")]
    start: Option<u32>,
    /// The least brokers
    #[arg(long, value_name = "N", default_value_t = 1)]
    min: u32,
    /// The most brokers
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max: u32,
    /// The most brokers and orchestrators together [default: no such limit]
    #[arg(long, value_name = "N")]
    max_in_all: Option<u32>,
    /// From the request for a resource until it runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    boot: Duration,
    /// From there until it holds all subscriptions and serves
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    subscription: Duration,
    /// From the decision to remove a resource until it is gone
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    drain: Duration,
    /// How long a message may wait and still be in time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    deadline: Duration,
    /// Messages per second of one orchestrator [default: orchestrators are left out]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    orchestrator_capacity: Option<f64>,
    /// The least orchestrators, and how many there are at the start
    #[arg(long, value_name = "N", default_value_t = 1)]
    orchestrator_min: u32,
    /// The most orchestrators
    #[arg(long, value_name = "N", default_value_t = 1000)]
    orchestrator_max: u32,
    /// Messages that may wait for each resource; further ones are dropped [default: no limit]
    #[arg(long, value_name = "N")]
    queue_limit: Option<u32>,
    /// Messages that publishers have unacknowledged at most, before they wait [default: they do not wait]
    #[arg(long, value_name = "N")]
    outstanding: Option<u32>,
    /// Memory of a resource for which nothing waits
    #[arg(long, value_name = "SIZE", default_value_t = size::show(TierModel::IDLE_MEMORY))]
    idle_memory: String,
    /// Memory that each message takes that waits
    #[arg(long, value_name = "SIZE", default_value_t = size::show(TierModel::MESSAGE_MEMORY))]
    message_memory: String,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// The flags of policies.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Policies")]
struct PolicyArgs {
    /// Time between observations, in whole seconds
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    interval: Duration,
    /// The upper threshold; the utilisation to size for under `default` and `hpa`
    #[arg(long, value_name = "FRACTION", default_value = "70%", value_parser = fraction)]
    upper: f64,
    /// The lower threshold of the policies with thresholds
    #[arg(long, value_name = "FRACTION", default_value = "30%", value_parser = fraction)]
    lower: f64,
    /// The factor of the aging formulas
    #[arg(long, value_name = "FRACTION", default_value = "0.5", value_parser = fraction)]
    smoothing: f64,
    /// Observations that `brokel-window` looks at
    #[arg(long, value_name = "N", default_value_t = 5)]
    window: u32,
    /// Violations in a row from which `consecutive` acts
    #[arg(long, value_name = "N", default_value_t = 3)]
    violations: u32,
    /// Observations for which the policies with thresholds rest after an action
    #[arg(long, value_name = "N", default_value_t = 2)]
    cool_down: u32,
    /// The longest peak that `default` lets pass
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    peak: Duration,
    /// How far `default` and `hpa` look back before they shrink
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    stabilisation: Duration,
    /// The length of a season for `holt-winters`; 0 for none
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = time)]
    season: Duration,
    /// The observed signals, and the value of each that counts as full: `cpu`, `message_rate=500`, `queue_depth=1000`,
    /// `waiting=2s`, `drops=10` (per second), `memory=512MiB`; repeatable, and the largest wins [default: cpu]
    #[arg(long = "signal", value_name = "NAME[=FULL]", value_parser = signal)]
    signals: Vec<(Signal, f64)>,
}

/// Why flags describe no model. Each text begins with the flag where that is not clear.
#[derive(Debug, thiserror::Error)]
pub(super) enum ModelFlagError {
    /// The sizes of levels, or the size of both together.
    #[error("{flags}: {source}")]
    Sla {
        /// The flags of the sizes.
        flags: &'static str,
        /// The fault.
        source: SlaError,
    },
    /// The thresholds of policies.
    #[error("--lower and --upper: {0}")]
    Thresholds(#[source] LoadError),
    /// The CPU time of one message, in microseconds.
    #[error("--message-cost: {0} microseconds are no cost: choose a number above 0")]
    MessageCost(f64),
    /// Neither a capacity nor the cost of a message.
    #[error("--capacity is needed: messages per second of one broker")]
    NoCapacity,
    /// An amount of memory.
    #[error("{flag}: `{value}` is no amount of memory: write 512MiB or 1KiB")]
    Memory {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
    },
    /// The brokers at the start.
    #[error("--start: {0}")]
    Start(#[source] ModelError),
    /// The time between observations.
    #[error("--interval: {0}")]
    Interval(#[source] ModelError),
    /// Another part of the model, which its text names.
    #[error(transparent)]
    Model(ModelError),
}

/// A signal, and the value that counts as full; CPU has its own.
#[expect(clippy::cast_precision_loss, reason = "the full value needs no more than 52 bits")]
fn signal(text: &str) -> Result<(Signal, f64), FlagError> {
    let problem = || FlagError::Signal(text.to_owned());
    let (name, full) = text.split_once('=').unwrap_or((text, ""));
    let number = || full.parse::<f64>().ok();
    let (signal, full) = match name {
        "cpu" => (Signal::Cpu, full.is_empty().then_some(1.0)),
        "message_rate" => (Signal::MessageRate, number()),
        "queue_depth" => (Signal::QueueDepth, number()),
        "waiting" => (Signal::Waiting, time(full).ok().map(|time| time.as_secs_f64())),
        "drops" => (Signal::Drops, number()),
        "memory" => (Signal::Memory, size::parse(full).map(|bytes| bytes as f64)),
        _ => return Err(problem()),
    };
    full.filter(|full| full.is_finite() && *full > 0.0).map(|full| (signal, full)).ok_or_else(problem)
}

/// The named signals; CPU alone when none is named.
fn signals(named: &[(Signal, f64)]) -> SignalSettings {
    if named.is_empty() {
        return SignalSettings::default();
    }
    let full = |signal| named.iter().rev().find(|(name, _)| *name == signal).map(|(_, full)| *full);
    SignalSettings {
        cpu: full(Signal::Cpu).is_some(),
        message_rate: full(Signal::MessageRate),
        queue_depth: full(Signal::QueueDepth),
        loop_lag: None,
        waiting: full(Signal::Waiting).map(Duration::from_secs_f64),
        drops: full(Signal::Drops),
        memory: full(Signal::Memory),
    }
}

impl ModelArgs {
    /// The model that the flags describe.
    ///
    /// # Errors
    /// The fault, with the flag where that is not clear.
    pub(super) fn model(&self) -> Result<Model, ModelFlagError> {
        let (idle, message) =
            (memory("--idle-memory", &self.idle_memory)?, memory("--message-memory", &self.message_memory)?);
        let tier = |capacity: f64, start: u32| TierModel {
            capacity,
            start,
            boot: self.boot,
            subscription: self.subscription,
            drain: self.drain,
            queue_limit: self.queue_limit.map(f64::from),
            idle_memory: idle,
            message_memory: message,
        };
        let brokers = bounds("--min and --max", self.min, self.max)?;
        let orchestrators =
            bounds("--orchestrator-min and --orchestrator-max", self.orchestrator_min, self.orchestrator_max)?;
        let sla = Sla::new(brokers, orchestrators, self.max_in_all)
            .map_err(|source| ModelFlagError::Sla { flags: "--max-in-all", source })?;
        let model = Model {
            brokers: tier(self.capacity()?, self.start.unwrap_or(self.min)),
            orchestrators: self.orchestrator_capacity.map(|capacity| tier(capacity, self.orchestrator_min)),
            sla,
            settings: self.settings()?,
            deadline: self.deadline,
            outstanding: self.outstanding.map(f64::from),
        };
        model.validate().map_err(|error| match error {
            ModelError::Start { .. } => ModelFlagError::Start(error),
            ModelError::Interval { .. } => ModelFlagError::Interval(error),
            error => ModelFlagError::Model(error),
        })?;
        Ok(model)
    }

    fn capacity(&self) -> Result<f64, ModelFlagError> {
        match (self.capacity, self.message_cost) {
            (Some(capacity), _) => Ok(capacity),
            (None, Some(cost)) if cost > 0.0 && cost.is_finite() => Ok(1e6 / cost),
            (None, Some(cost)) => Err(ModelFlagError::MessageCost(cost)),
            (None, None) => Err(ModelFlagError::NoCapacity),
        }
    }

    fn settings(&self) -> Result<Settings, ModelFlagError> {
        let policy = &self.policy;
        let thresholds = Thresholds::new(policy.lower, policy.upper);
        Ok(Settings {
            thresholds: thresholds.map_err(ModelFlagError::Thresholds)?,
            interval: policy.interval,
            smoothing: policy.smoothing,
            window: policy.window,
            violations: policy.violations,
            cool_down: Wait::Observations(policy.cool_down),
            peak: policy.peak,
            shrink_stabilisation: policy.stabilisation,
            season: policy.season,
            signals: signals(&policy.signals),
            ..Settings::default()
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory needs no more than 52 bits")]
fn memory(flag: &'static str, text: &str) -> Result<f64, ModelFlagError> {
    let bytes = size::parse(text).map(|bytes| bytes as f64);
    bytes.ok_or_else(|| ModelFlagError::Memory { flag, value: text.to_owned() })
}

fn bounds(flags: &'static str, least: u32, most: u32) -> Result<Bounds, ModelFlagError> {
    Bounds::new(least, most).map_err(|source| ModelFlagError::Sla { flags, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_and_a_full_value() {
        assert_eq!(signal("cpu"), Ok((Signal::Cpu, 1.0)));
        assert_eq!(signal("drops=10"), Ok((Signal::Drops, 10.0)));
        assert_eq!(signal("memory=2KiB"), Ok((Signal::Memory, 2048.0)));
        assert_eq!(signal("waiting=1500ms"), Ok((Signal::Waiting, 1.5)));
        for text in
            ["", "cpu=1", "drops", "drops=0", "drops=-1", "drops=inf", "memory=lots", "loop_lag=1s", "waiting=0s"]
        {
            assert!(signal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cpu_counts_alone_until_signals_are_named() {
        assert_eq!(signals(&[]), SignalSettings::default());
        let named = signals(&[(Signal::Drops, 1.0), (Signal::Drops, 2.0)]);
        assert_eq!((named.cpu, named.drops, named.memory), (false, Some(2.0), None));
    }
}
