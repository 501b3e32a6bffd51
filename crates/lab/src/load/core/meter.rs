//! The numbers of the current second.

use crate::load::histogram::Histogram;
use crate::load::outcome::Second;

/// The numbers of the current second.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Its counts so far.
    pub(crate) current: Second,
    /// Its latencies so far.
    pub(crate) latency: Histogram,
}

impl Meter {
    /// Ends the second and begins the next.
    pub(crate) fn end_second(&mut self, connected: u64, cpu_ns: u64) -> Second {
        let next = Second { second: self.current.second + 1, ..Second::default() };
        let mut ended = std::mem::replace(&mut self.current, next);
        ended.connected = connected;
        ended.cpu_ns = cpu_ns;
        ended.p50_ns = self.latency.at(0.5);
        ended.p99_ns = self.latency.at(0.99);
        ended.max_ns = self.latency.max();
        self.latency.clear();
        ended
    }
}
