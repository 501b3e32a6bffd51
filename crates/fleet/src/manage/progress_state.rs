//! The states of a step of an action.

/// The progress of a step.
pub(super) enum Progress {
    /// Its condition is not met yet; the text says which.
    Wait(String),
    /// Its condition is met.
    Done,
    /// Its condition will not be met, and why.
    Fail(String),
}
