//! Facts about a client before its CONNECT, from its TLS session or from the node that relays it.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::{ListenerId, Preset, TenantId};

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

    /// The facts about a client of a listener.
    pub(crate) fn find(&self, listener: ListenerId, facts: &ConnectionFacts) -> Preset {
        (self.find)(listener, facts)
    }

    /// The mark of the name of a tenant.
    pub(crate) fn mark(&self, tenant: TenantId) -> u32 {
        (self.mark)(tenant)
    }
}

impl fmt::Debug for Presets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Presets")
    }
}
