//! Reports the progress of a run.

use super::outcome::Second;

/// Receives the progress of a run. Its methods must return quickly.
pub trait Progress {
    /// A second has passed in all processes.
    fn second(&mut self, second: &Second);

    /// All clients are connected and subscribed, or have failed to be; publishing begins, at this time in nanoseconds
    /// since the run's zero.
    fn began(&mut self, _at_ns: u64) {}

    /// The last message is sent; messages in flight are awaited.
    fn draining(&mut self) {}
}

/// Ignores the progress.
impl Progress for () {
    fn second(&mut self, _: &Second) {}
}
