//! The state of brokers and filters.

use crate::engine::Engine;
use crate::orchestrator::uplink::UplinkReport;

impl Engine {
    /// How all uplinks are.
    pub fn uplinks(&self) -> Vec<UplinkReport> {
        self.uplinks.brokers.all.values().map(|uplink| uplink.report(&self.state)).collect()
    }

    /// Filters that the clients of this process want of brokers.
    pub fn wanted_filters(&self) -> u64 {
        self.uplinks.wanted.len() as u64
    }
}
