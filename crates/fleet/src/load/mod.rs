//! From samples of resources to the load of a level.
//!
//! A level is all brokers, or all orchestrators. [`signals`] computes one number per signal of its [`Sample`]s, and an
//! [`Evaluator`] turns the series of these numbers into the load that is compared with thresholds. [`Demand`] computes
//! another value: how many resources' worth of work arrives, independent of the fleet's capacity. The module reads no
//! clock: times are arguments.

pub mod consecutive;
pub mod demand;
pub mod full_aging;
pub mod holt_winters;
pub mod live_thresholds;
pub mod raw;
pub mod sample;
pub mod signals;
pub mod thresholds;
pub mod window_aging;

pub use consecutive::Consecutive;
pub use demand::{Demand, DemandReading};
pub use full_aging::FullAging;
pub use holt_winters::{ForecastFactors, HoltWinters};
pub use live_thresholds::LiveThresholds;
pub use raw::Raw;
pub use sample::{Cpu, Sample};
pub use signals::{LevelLoads, Signal, SignalLoad, SignalSettings};
pub use thresholds::{Side, Thresholds};
pub use window_aging::WindowAging;

/// The result of an evaluator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evaluated {
    /// Too few observations to act on.
    WarmingUp {
        /// The load.
        load: f64,
        /// Number of observations until the load counts.
        remaining: u32,
    },
    /// A load that thresholds may be compared with.
    Load(f64),
}

impl Evaluated {
    /// The load, whether it counts yet or not.
    pub fn value(self) -> f64 {
        match self {
            Self::WarmingUp { load, .. } | Self::Load(load) => load,
        }
    }
}

/// Turns a series of observations of a level, `c(o)` in 0.., into its load, `l(o)` in 0...
pub trait Evaluator: Send {
    /// Processes the next observation and returns the current load.
    fn observe(&mut self, observed: f64) -> Evaluated;

    /// A description for explanations, such as `full aging, factor 0.5`.
    fn describe(&self) -> String;
}

/// A setting of an evaluator that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// A smoothing factor outside its range.
    #[error("the {name} is {value}: choose one above 0 and up to 1")]
    Factor {
        /// The factor.
        name: &'static str,
        /// The given value.
        value: f64,
    },
    /// A count of observations that is zero.
    #[error("the {name} is 0 observations: choose 1 or more")]
    NoObservations {
        /// The name of the number.
        name: &'static str,
    },
    /// More observations than are kept.
    #[error("the {name} is {value} observations: choose {most} or fewer")]
    TooMany {
        /// The name of the number.
        name: &'static str,
        /// The given value.
        value: u32,
        /// The most that is kept.
        most: u32,
    },
    /// Thresholds that leave no band.
    #[error(
        "the lower threshold {lower} and the upper threshold {upper} leave no band: choose 0 <= lower < upper <= 1"
    )]
    Thresholds {
        /// The lower threshold.
        lower: f64,
        /// The upper threshold.
        upper: f64,
    },
    /// The full value of a signal is not a positive number.
    #[error("{signal} counts as full at {value}: choose a number above 0")]
    Full {
        /// The signal.
        signal: &'static str,
        /// The given value.
        value: f64,
    },
    /// No signal was chosen.
    #[error("no signal is chosen: choose at least one, such as CPU")]
    NoSignal,
}

/// A smoothing factor is above 0 and at most 1.
fn factor(name: &'static str, value: f64) -> Result<f64, LoadError> {
    if value > 0.0 && value <= 1.0 { Ok(value) } else { Err(LoadError::Factor { name, value }) }
}

/// A count of observations is at least 1.
fn observations(name: &'static str, value: u32) -> Result<u32, LoadError> {
    if value == 0 { Err(LoadError::NoObservations { name }) } else { Ok(value) }
}
