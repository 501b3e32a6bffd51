//! Whether the fleet takes messages.

use crate::engine::facets::ShardQuestions;
use crate::orchestrator::uplink::route::Gate;

impl ShardQuestions<'_> {
    /// Whether the fleet takes messages.
    pub fn fleet_is_open(&self) -> bool {
        self.engine.uplinks.gate == Gate::Open
    }
}
