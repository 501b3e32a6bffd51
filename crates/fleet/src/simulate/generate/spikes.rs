//! Peaks over a base load.

use super::{ShapeError, above_zero, rate, rows};
use crate::simulate::Trace;

/// `base` all the time, and `height` for `length_s` every `every_s`, the first one after `every_s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spikes {
    /// Messages per second between spikes.
    pub base: f64,
    /// Messages per second in a spike.
    pub height: f64,
    /// How long a spike lasts.
    pub length_s: u64,
    /// From one spike to the next.
    pub every_s: u64,
    /// Its duration.
    pub duration_s: u64,
}

impl Spikes {
    /// The trace, with a row every second.
    ///
    /// # Errors
    /// When a rate is negative, a time is 0, spikes are longer than the pauses between them, or the trace would be too
    /// long.
    pub fn trace(&self) -> Result<Trace, ShapeError> {
        let (base, height) = (rate("base rate", self.base)?, rate("height", self.height)?);
        let every = above_zero("time between spikes", self.every_s)?;
        let length = above_zero("length of a spike", self.length_s)?;
        if length >= every {
            let expected = "one shorter than the time between spikes";
            return Err(ShapeError::Value { name: "length of a spike", value: length as f64, expected });
        }
        let duration = above_zero("duration", self.duration_s)?;
        let at = |time: u64| if time >= every && time % every < length { height } else { base };
        Ok(Trace::new(rows(duration, 1, at)?)?)
    }
}
