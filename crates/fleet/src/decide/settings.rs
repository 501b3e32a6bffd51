//! The settings of policies.

use std::time::Duration;

use super::Wait;
use crate::load::{ForecastFactors, LoadError, SignalSettings, Thresholds};

/// Settings of all policies; each reads its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The band of the policies with thresholds (BRK-42). The upper one is also the utilisation that the others size
    /// for.
    pub thresholds: Thresholds,
    /// Time between observations; the study's is 15 s (BRK-41).
    pub interval: Duration,
    /// The smoothing factor of the aging formulas, above 0 and up to 1.
    pub smoothing: f64,
    /// Observations from which full aging counts, 1 or more.
    pub view: u32,
    /// Observations that window aging looks at, 1 to 3600.
    pub window: u32,
    /// Violations in a row from which `consecutive` acts, 1 or more.
    pub violations: u32,
    /// Cool-down of the study's policies after an action, both ways.
    pub cool_down: Wait,
    /// How far the load may be from the target, as a fraction of it, before it is corrected: 0 up to 1.
    pub tolerance: f64,
    /// How far back the highest recommendation counts before a level shrinks.
    pub shrink_stabilisation: Duration,
    /// How far back the lowest recommendation counts before a level grows under `hpa-stabilised`.
    pub grow_stabilisation: Duration,
    /// Time from the request of a resource until it serves, before any was measured.
    pub lead_time: Duration,
    /// The longest peak that is plausible: `default` does not act on anything shorter.
    pub peak: Duration,
    /// How long working a backlog off may take: `default` sizes for it.
    pub backlog_target: Duration,
    /// `default` acts on a backlog that would take longer than this, at any demand.
    pub backlog_limit: Duration,
    /// How long a message may wait before `latency` grows.
    pub latency_target: Duration,
    /// Time between two steps of shrinking under `default`.
    pub shrink_pause: Duration,
    /// The length of a season of the forecast; zero for none.
    pub season: Duration,
    /// Smoothing factors of the forecast.
    pub forecast: ForecastFactors,
    /// The signals that count.
    pub signals: SignalSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            interval: Duration::from_secs(15),
            smoothing: 0.5,
            view: 2,
            window: 5,
            violations: 3,
            cool_down: Wait::Observations(2),
            tolerance: 0.1,
            shrink_stabilisation: Duration::from_secs(300),
            grow_stabilisation: Duration::from_secs(60),
            lead_time: Duration::from_secs(30),
            peak: Duration::from_secs(30),
            backlog_target: Duration::from_secs(120),
            backlog_limit: Duration::from_secs(900),
            latency_target: Duration::from_secs(1),
            shrink_pause: Duration::from_secs(60),
            season: Duration::from_secs(86_400),
            forecast: ForecastFactors::default(),
            signals: SignalSettings::default(),
        }
    }
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// Of an evaluator.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A duration that must not be zero.
    #[error("the {name} is zero: choose a time above it")]
    Zero {
        /// The name.
        name: &'static str,
    },
    /// A duration that would make a policy remember too much.
    #[error("the {name} of {} s is more than {most} observations of {} s: choose a shorter one or a longer interval",
        given.as_secs(), interval.as_secs())]
    TooLong {
        /// The name.
        name: &'static str,
        /// The given value.
        given: Duration,
        /// The time between observations.
        interval: Duration,
        /// The most observations that are remembered.
        most: u32,
    },
    /// A tolerance outside its range.
    #[error("the tolerance is {value}: choose one from 0 up to, but not including, 1")]
    Tolerance {
        /// The given value.
        value: f64,
    },
}

impl Settings {
    /// The most observations of a window; at a higher rate the oldest are dropped earlier.
    pub const REMEMBERED_MAX: u32 = 4096;

    /// The shortest measured time that counts as this one: observations come a little early or late.
    pub(super) fn least_measured(&self, nominal: Duration) -> Duration {
        nominal.saturating_sub(self.interval / 10)
    }

    /// Checks everything.
    ///
    /// # Errors
    /// At the first setting that makes no sense.
    pub fn validate(&self) -> Result<(), SettingsError> {
        self.signals.validate()?;
        if !(0.0..1.0).contains(&self.tolerance) {
            return Err(SettingsError::Tolerance { value: self.tolerance });
        }
        let above_zero = [
            ("interval", self.interval),
            ("backlog target", self.backlog_target),
            ("backlog limit", self.backlog_limit),
            ("latency target", self.latency_target),
        ];
        for (name, time) in above_zero {
            if time.is_zero() {
                return Err(SettingsError::Zero { name });
            }
        }
        let remembered = [
            ("stabilisation before shrinking", self.shrink_stabilisation),
            ("stabilisation before growth", self.grow_stabilisation),
            ("longest peak", self.peak),
        ];
        for (name, given) in remembered {
            if given.as_secs_f64() / self.interval.as_secs_f64() > f64::from(Self::REMEMBERED_MAX) {
                let (interval, most) = (self.interval, Self::REMEMBERED_MAX);
                return Err(SettingsError::TooLong { name, given, interval, most });
            }
        }
        Ok(())
    }
}

/// The next whole number, with a grain of salt for rounding; at most `u32::MAX`.
#[expect(clippy::cast_sign_loss, reason = "negative numbers become 0, as intended")]
pub(super) fn ceil(value: f64) -> u32 {
    (value - 1e-9 * value.abs().max(1.0)).ceil() as u32
}
