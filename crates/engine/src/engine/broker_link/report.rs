//! The state of brokers and filters.

use crate::engine::facets::ShardQuestions;
use crate::orchestrator::broker_link::BrokerLinkReport;

impl ShardQuestions<'_> {
    /// How all broker links are.
    pub fn broker_links(&self) -> Vec<BrokerLinkReport> {
        self.engine
            .broker_links
            .brokers
            .all
            .values()
            .map(|broker_link| broker_link.report(&self.engine.state))
            .collect()
    }

    /// Filters that the clients of this process want of brokers.
    pub fn wanted_filters(&self) -> u64 {
        self.engine.broker_links.wanted.len() as u64
    }
}
