//! Whether the fleet takes messages.

use crate::engine::Engine;
use crate::orchestrator::uplink::route::Gate;

impl Engine {
    /// Whether the fleet takes messages.
    pub fn fleet_is_open(&self) -> bool {
        self.uplinks.gate == Gate::Open
    }
}
