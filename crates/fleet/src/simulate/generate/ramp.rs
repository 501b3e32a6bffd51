//! A load that rises, stays, and falls.

use super::{ShapeError, above_zero, rate, rows};
use crate::simulate::Trace;

/// `low` for `hold_s`, up to `high` within `rise_s`, `high` for `hold_s`, down again within `rise_s`, and `low` for
/// `hold_s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// Messages per second before and after.
    pub low: f64,
    /// Messages per second at the top.
    pub high: f64,
    /// How long it rises, and how long it falls; 0 makes steps.
    pub rise_s: u64,
    /// Time for which it stays, seconds.
    pub hold_s: u64,
}

impl Ramp {
    /// The trace, with a row every second.
    ///
    /// # Errors
    /// When a rate is negative, `hold_s` is 0, or it would be too long.
    pub fn trace(&self) -> Result<Trace, ShapeError> {
        let (low, high) = (rate("low rate", self.low)?, rate("high rate", self.high)?);
        let hold = above_zero("time to hold", self.hold_s)?;
        let (top, fall) = (hold + self.rise_s, 2 * hold + self.rise_s);
        let rise = self.rise_s as f64;
        let at = |time: u64| {
            if time < hold || time >= fall + self.rise_s {
                low
            } else if time < top {
                low + (high - low) * (time - hold) as f64 / rise
            } else if time < fall {
                high
            } else {
                high - (high - low) * (time - fall) as f64 / rise
            }
        };
        Ok(Trace::new(rows(3 * hold + 2 * self.rise_s, 1, at)?)?)
    }
}
