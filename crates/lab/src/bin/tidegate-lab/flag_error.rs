//! Faults of single flags.

use tidegate_units::duration::LengthError;

/// Why the value of a flag is refused; clap names the flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FlagError {
    /// It is no number.
    #[error("not a number")]
    Number,
    /// It is 0, negative or infinite.
    #[error("not above 0")]
    Positive,
    /// The time scale is out of range.
    #[error("not between 0.001 and 100")]
    TimeScale,
    /// No board has this name; with the known names.
    #[error("no board; there are {0}")]
    Board(String),
    /// It is no range of ports.
    #[error("not a range such as 21000-29999")]
    Ports,
    /// A part of a level of service.
    #[error("`{0}` is neither p99=TIME nor delivered=PERCENT")]
    Level(String),
    /// A length of time.
    #[error(transparent)]
    Length(#[from] LengthError),
}
