//! Waits between actions.

use std::time::Duration;

/// The wait after an action has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The number of observations; 0 is no wait.
    Observations(u32),
    /// So long.
    Time(Duration),
}
