//! The state of brokers and filters.

use crate::engine::facets::ShardQuestions;
use crate::orchestrator::uplink::UplinkReport;

impl ShardQuestions<'_> {
    /// How all uplinks are.
    pub fn uplinks(&self) -> Vec<UplinkReport> {
        self.engine.uplinks.brokers.all.values().map(|uplink| uplink.report(&self.engine.state)).collect()
    }

    /// Filters that the clients of this process want of brokers.
    pub fn wanted_filters(&self) -> u64 {
        self.engine.uplinks.wanted.len() as u64
    }
}
