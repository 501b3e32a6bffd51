//! A load that rises and falls again and again.

use super::{ShapeError, above_zero, rate, rows};
use crate::simulate::Trace;

/// `low`, then up to `high` within `rise_s`, `high` for `hold_s`, and `low` at once for `rest_s`, again and again.
/// Without a rise it is a square wave, without the others a sawtooth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sawtooth {
    /// Messages per second at the bottom.
    pub low: f64,
    /// Messages per second at the top.
    pub high: f64,
    /// How long each rise takes; 0 makes a step.
    pub rise_s: u64,
    /// How long each top lasts.
    pub hold_s: u64,
    /// How long each bottom lasts.
    pub rest_s: u64,
    /// Its duration.
    pub duration_s: u64,
}

impl Sawtooth {
    /// The trace, with a row every second. It begins with a bottom of five minutes.
    ///
    /// # Errors
    /// When a rate is negative, a period or the duration is 0, or it would be too long.
    pub fn trace(&self) -> Result<Trace, ShapeError> {
        const FIRST_S: u64 = 300;
        let (low, high) = (rate("low rate", self.low)?, rate("high rate", self.high)?);
        let (rise, hold) = (self.rise_s, self.hold_s);
        let period = above_zero("period", rise.saturating_add(hold).saturating_add(self.rest_s))?;
        let duration = above_zero("duration", self.duration_s)?;
        let at = |time: u64| {
            let Some(time) = time.checked_sub(FIRST_S) else { return low };
            let place = time % period;
            if place < rise {
                low + (high - low) * place as f64 / rise as f64
            } else if place < rise + hold {
                high
            } else {
                low
            }
        };
        Ok(Trace::new(rows(duration, 1, at)?)?)
    }
}
