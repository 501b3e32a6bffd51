//! Facts about a client before its CONNECT, from its TLS session or from the node that relays it.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::{ConnectionKey, ListenerId, Preset, TenantId};

use crate::proxy_protocol::RelayedTenant;
use crate::shard::facets::AcceptCalls;
use crate::tls::ConnectionFacts;

type Find = dyn Fn(ListenerId, &ConnectionFacts) -> Preset + Send + Sync;
type Mark = dyn Fn(TenantId) -> u32 + Send + Sync;

/// Determines facts about a client by its listener, its TLS session and the node that relays it: its tenant, its client
/// id. Called on the threads of shards, once per connection that has a TLS session, that another node relays, or that
/// leaves for another node, and per shard that serves it. So it must be quick.
#[derive(Clone)]
pub struct Presets {
    find: Arc<Find>,
    mark: Arc<Mark>,
}

impl Presets {
    /// Determined by this function, from the listener and the facts of the connection.
    pub fn new(find: impl Fn(ListenerId, &ConnectionFacts) -> Preset + Send + Sync + 'static) -> Self {
        Self { find: Arc::new(find), mark: Arc::new(|_| 0) }
    }

    /// With a mark of the name of each tenant, by [`tenant_mark`](crate::proxy_protocol::tenant_mark).
    #[must_use]
    pub fn marking(self, mark: impl Fn(TenantId) -> u32 + Send + Sync + 'static) -> Self {
        Self { mark: Arc::new(mark), ..self }
    }
}

impl fmt::Debug for Presets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Presets")
    }
}

impl AcceptCalls<'_> {
    /// Passes the facts of a connection to the engine after its TLS handshake, before any of its bytes.
    pub(crate) fn preset(&mut self, key: ConnectionKey) {
        let Some(presets) = self.shard.shared.presets.clone() else { return };
        let facts = self.shard.sockets().facts(key);
        if facts.tls.is_some() || facts.relayed_tenant.is_some() {
            let preset = (presets.find)(self.shard.table.listener(key), &facts);
            self.shard.engine.control().preset_connection(key, preset);
        }
    }

    /// The tenant of a connection, as far as its listener and its TLS session determine it, for the client's home.
    pub(crate) fn tenant_to_relay(&mut self, key: ConnectionKey) -> Option<RelayedTenant> {
        let presets = self.shard.shared.presets.clone()?;
        let facts = self.shard.sockets().facts(key);
        let preset = (presets.find)(self.shard.table.listener(key), &facts);
        let tenant = preset.settled.or(preset.instead_of_listener)?;
        Some(RelayedTenant { tenant, settled: preset.settled.is_some(), mark: (presets.mark)(tenant) })
    }
}
