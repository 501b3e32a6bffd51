//! Traces that are made up, the same in every run.

mod day;
mod ramp;
mod sawtooth;
mod spikes;

pub use day::Day;
pub use ramp::Ramp;
pub use sawtooth::Sawtooth;
pub use spikes::Spikes;

use super::trace::{Row, TraceError};

/// The most rows that a generator makes.
const ROWS_MAX: u64 = 5_000_000;

/// A shape that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ShapeError {
    /// A number outside its range.
    #[error("the {name} is {value}: choose {expected}")]
    Value {
        /// The name.
        name: &'static str,
        /// The given value.
        value: f64,
        /// The allowed values.
        expected: &'static str,
    },
    /// The trace would be too long.
    #[error("that makes {rows} rows, and {ROWS_MAX} are the most: choose a shorter time or longer steps")]
    TooManyRows {
        /// How many rows it would have.
        rows: u64,
    },
    /// The trace itself.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// A number from 0 on.
fn rate(name: &'static str, value: f64) -> Result<f64, ShapeError> {
    if value >= 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ShapeError::Value { name, value, expected: "a number of messages/s from 0 on" })
    }
}

/// A number of seconds above 0.
fn above_zero(name: &'static str, value: u64) -> Result<u64, ShapeError> {
    if value > 0 { Ok(value) } else { Err(ShapeError::Value { name, value: 0.0, expected: "a time above 0 s" }) }
}

/// A row every `step` seconds from 0 up to `duration`.
fn rows(duration: u64, step: u64, rate: impl FnMut(u64) -> f64) -> Result<Vec<Row>, ShapeError> {
    let count = duration.div_ceil(step);
    if count > ROWS_MAX {
        return Err(ShapeError::TooManyRows { rows: count });
    }
    let times = (0..count).map(|place| place * step);
    let rates = times.clone().map(rate);
    Ok(times.zip(rates).map(|(time, rate)| Row { time_s: time as f64, rate }).collect())
}
