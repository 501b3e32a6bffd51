//! Days, each with a night.

use super::{ShapeError, above_zero, rate, rows};
use crate::simulate::Trace;
use crate::simulate::random::Random;

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// A cosine between `low` at 4:00 and `high` at 16:00, with noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Day {
    /// Messages per second at night.
    pub low: f64,
    /// Messages per second in the afternoon.
    pub high: f64,
    /// How many days.
    pub days: u64,
    /// Seconds between rows.
    pub step_s: u64,
    /// Deviation of the noise as a fraction of the rate, from 0 up to 1.
    pub noise: f64,
    /// The seed of the noise.
    pub seed: u64,
}

impl Day {
    /// The trace.
    ///
    /// # Errors
    /// When a rate is negative, a number is 0, the noise is outside its range, or it would be too long.
    pub fn trace(&self) -> Result<Trace, ShapeError> {
        let (low, high) = (rate("low rate", self.low)?, rate("high rate", self.high)?);
        let days = above_zero("number of days", self.days)?;
        let step = above_zero("step", self.step_s)?;
        if !(0.0..=1.0).contains(&self.noise) {
            let expected = "a fraction from 0 to 1";
            return Err(ShapeError::Value { name: "noise", value: self.noise, expected });
        }
        let mut random = Random::new(self.seed);
        let at = |time: u64| {
            let hours = (time % DAY_S) as f64 / 3600.0;
            let height = f64::midpoint(1.0, -((hours - 4.0) / 24.0 * std::f64::consts::TAU).cos());
            ((low + (high - low) * height) * (1.0 + self.noise * random.normal())).max(0.0)
        };
        Ok(Trace::new(rows(days.saturating_mul(DAY_S), step, at)?)?)
    }
}
