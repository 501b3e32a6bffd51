//! Facts about a client go to the engine before its CONNECT, and to its home.

use tidegate_engine::ConnectionKey;

use crate::proxy_protocol::RelayedTenant;
use crate::shard::facets::AcceptCalls;

impl AcceptCalls<'_> {
    /// Passes the facts of a connection to the engine after its TLS handshake, before any of its bytes.
    pub(crate) fn preset(&mut self, key: ConnectionKey) {
        let Some(presets) = self.shard.shared.presets.clone() else { return };
        let facts = self.shard.sockets().facts(key);
        if facts.tls.is_some() || facts.relayed_tenant.is_some() {
            let preset = presets.find(self.shard.table.listener(key), &facts);
            self.shard.engine.control().preset_connection(key, preset);
        }
    }

    /// The tenant of a connection, as far as its listener and its TLS session determine it, for the client's home.
    pub(crate) fn tenant_to_relay(&mut self, key: ConnectionKey) -> Option<RelayedTenant> {
        let presets = self.shard.shared.presets.clone()?;
        let facts = self.shard.sockets().facts(key);
        let preset = presets.find(self.shard.table.listener(key), &facts);
        let tenant = preset.settled.or(preset.instead_of_listener)?;
        Some(RelayedTenant { tenant, settled: preset.settled.is_some(), mark: presets.mark(tenant) })
    }
}
