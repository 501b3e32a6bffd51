//! Facts about a client before its CONNECT, from its TLS session.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::{ConnectionKey, ListenerId, Preset};

use crate::shard::Shard;
use crate::tls::ConnectionFacts;

type Find = dyn Fn(ListenerId, &ConnectionFacts) -> Preset + Send + Sync;

/// Determines facts about a client by its TLS session: its tenant, its client id. Called on the threads of shards, once
/// per TLS connection and shard that serves it, so it must be quick; never for connections without TLS.
#[derive(Clone)]
pub struct Presets(Arc<Find>);

impl Presets {
    /// Determined by this function, from the listener and the facts of the connection.
    pub fn new(find: impl Fn(ListenerId, &ConnectionFacts) -> Preset + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

impl fmt::Debug for Presets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Presets")
    }
}

impl Shard {
    /// Passes the facts of a connection to the engine after its TLS handshake, before any of its bytes.
    pub(crate) fn preset(&mut self, key: ConnectionKey) {
        let Some(presets) = self.shared.presets.clone() else { return };
        let facts = self.facts(key);
        if facts.tls.is_some() {
            let preset = (presets.0)(self.table.listener(key), &facts);
            self.engine.preset_connection(key, preset);
        }
    }
}
