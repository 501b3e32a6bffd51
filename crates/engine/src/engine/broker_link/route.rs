//! Whether the fleet takes messages.

use crate::engine::facets::ShardQuestions;
use crate::orchestrator::broker_link::route::Gate;

impl ShardQuestions<'_> {
    /// Whether the fleet takes messages.
    pub fn fleet_is_open(&self) -> bool {
        self.engine.broker_links.gate == Gate::Open
    }
}
