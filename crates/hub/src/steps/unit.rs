//! Units of time in functions of SQL, by the names that they have in EMQX.

use serde_json::Value;

use super::error::ComputeError;
use super::values::text_of;

/// Nanoseconds of a millisecond.
pub(super) const MILLISECOND: i128 = 1_000_000;

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl Unit {
    /// The unit of a name; seconds without one.
    ///
    /// # Errors
    /// When no unit has this name.
    pub(super) fn of(name: &Value) -> Result<Self, ComputeError> {
        if name.is_null() {
            return Ok(Self::Second);
        }
        let name = text_of(name);
        match name.as_str() {
            "second" | "seconds" => Ok(Self::Second),
            "millisecond" | "milliseconds" | "ms" => Ok(Self::Millisecond),
            "microsecond" | "microseconds" => Ok(Self::Microsecond),
            "nanosecond" | "nanoseconds" => Ok(Self::Nanosecond),
            _ => Err(ComputeError::NotUnit(name)),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Second => "seconds",
            Self::Millisecond => "milliseconds",
            Self::Microsecond => "microseconds",
            Self::Nanosecond => "nanoseconds",
        }
    }

    /// Nanoseconds of it.
    pub(super) const fn nanoseconds(self) -> i128 {
        match self {
            Self::Second => 1_000_000_000,
            Self::Millisecond => MILLISECOND,
            Self::Microsecond => 1_000,
            Self::Nanosecond => 1,
        }
    }

    /// Nanoseconds in this unit, rounded down.
    ///
    /// # Errors
    /// When the number has more than 64 bits.
    pub(super) fn value(self, nanoseconds: i128) -> Result<Value, ComputeError> {
        let number = nanoseconds.div_euclid(self.nanoseconds());
        i64::try_from(number).map(Value::from).map_err(|_| ComputeError::TimeTooLong(self.name()))
    }

    /// A time of this unit in milliseconds, rounded down; nothing where they have more than 64 bits.
    pub(super) fn milliseconds(self, time: f64) -> Option<i64> {
        let time = match self {
            Self::Second => time * 1e3,
            Self::Millisecond => time,
            Self::Microsecond => time / 1e3,
            Self::Nanosecond => time / 1e6,
        };
        (time.abs() < 9e15).then_some(time.floor() as i64)
    }
}
