//! Who is told how a run goes.

use super::outcome::Second;

/// Is told how a run goes. Nothing waits for it: what it does must be short.
pub trait Progress {
    /// A second has passed in all processes.
    fn second(&mut self, second: &Second);

    /// All clients are connected and subscribed, or have failed to be; publishing begins, at this time in nanoseconds
    /// since the run's zero.
    fn began(&mut self, _at_ns: u64) {}

    /// The last message is sent; what is under way is waited for.
    fn draining(&mut self) {}
}

/// Nobody.
impl Progress for () {
    fn second(&mut self, _: &Second) {}
}
