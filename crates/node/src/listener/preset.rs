//! What is known of a client before its CONNECT, from what its TLS session has shown.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::{ConnectionKey, ListenerId, Preset};

use crate::shard::Shard;
use crate::tls::ConnectionFacts;

type Find = dyn Fn(ListenerId, &ConnectionFacts) -> Preset + Send + Sync;

/// Says what is known of a client by its TLS session: which tenant it belongs to, which client id it has. Asked on the
/// threads of shards, once per TLS connection and shard that serves it, so it must be quick; never for connections
/// without TLS.
#[derive(Clone)]
pub struct Presets(Arc<Find>);

impl Presets {
    /// Found by this function, from the listener and what is known of the connection.
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
    /// Tells the engine what is known of a connection whose TLS handshake is done, before any of its bytes.
    pub(crate) fn preset(&mut self, key: ConnectionKey) {
        let Some(presets) = self.shared.presets.clone() else { return };
        let facts = self.facts(key);
        if facts.tls.is_some() {
            let preset = (presets.0)(self.table.listener(key), &facts);
            self.engine.preset_connection(key, preset);
        }
    }
}
