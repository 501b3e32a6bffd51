//! How a case ends.

/// Why a case stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The broker broke the specification. The text names the expected and the received behaviour.
    Failed(String),
    /// The broker legitimately lacks a feature that the case needs. The text names it.
    Skipped(String),
}

/// The result of a step of a case: a value to go on with, or the reason to stop.
pub type Outcome<T = ()> = Result<T, Stop>;

/// Stops the case as failed.
///
/// # Errors
/// Always: the failure with this text.
pub(crate) fn failed<T>(fault: impl Into<String>) -> Outcome<T> {
    Err(Stop::Failed(fault.into()))
}

/// Stops the case as not applicable to this broker.
///
/// # Errors
/// Always: the skip with this text.
pub(crate) fn skipped<T>(why: impl Into<String>) -> Outcome<T> {
    Err(Stop::Skipped(why.into()))
}

/// Stops the case as failed, with a formatted text, unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::outcome::Stop::Failed(format!($($message)+)));
        }
    };
}

pub(crate) use ensure;
