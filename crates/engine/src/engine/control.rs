//! Facts about a connection before its CONNECT, and memory that is freed.

use crate::connection::Phase;
use crate::connection::Preset;
use crate::engine::facets::ControlCalls;
use crate::ids::ConnectionKey;

impl ControlCalls<'_> {
    /// Sets the facts known about a client before its CONNECT arrives, such as the names in its certificate.
    pub fn preset_connection(&mut self, key: ConnectionKey, preset: Preset) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        if connection.phase != Phase::AwaitConnect {
            return;
        }
        if let Some(tenant) = preset.instead_of_listener {
            connection.tenant = tenant;
        }
        if preset.settled.is_some() || preset.client_id.is_some() {
            connection.extra_mut().preset = Some(Box::new(preset));
        }
    }

    /// Gives memory back after a peak: every container keeps as much as it holds. Looks at every session.
    pub fn shrink(&mut self) {
        self.engine.state.shrink();
        self.engine.layouts.trim();
        self.engine.links.shrink();
        self.engine.fan_outs.shrink();
        self.engine.router.cache.clear();
        self.engine.retaining.store.values.shrink();
    }
}
