//! The connection of an uplink: CONNECT, CONNACK, probes, and which packets a broker may send.

use crate::ids::ConnectionKey;
use crate::ids::UplinkKey;
use crate::now::Now;
use crate::orchestrator::uplink::{Brokers, FleetConfig};
use crate::state::ShardState;
use tidegate_mqtt::{Connect, Version};

/// The user property of a CONNECT that names the orchestrator.
pub(crate) const ORCHESTRATOR: &str = "tidegate-orchestrator";

impl Brokers {
    /// The uplink of a connection and the version that it speaks.
    pub(crate) fn uplink_of(&self, key: ConnectionKey) -> Option<(UplinkKey, Version)> {
        let uplink = self.of_connection(key)?;
        Some((uplink, self.all.get(&uplink)?.version))
    }

    pub(crate) fn note_uplink_error(&mut self, key: ConnectionKey, error: String) {
        let uplink = self.of_connection(key);
        if let Some(uplink) = uplink.and_then(|uplink| self.all.get_mut(&uplink)) {
            uplink.last_error = error;
        }
    }

    pub(crate) fn note_probe_answered(&mut self, now: Now, state: &mut ShardState, key: ConnectionKey) {
        let Some(uplink_key) = self.of_connection(key) else { return };
        let Some(uplink) = self.all.get_mut(&uplink_key) else { return };
        uplink.probe.asked = None;
        uplink.probe.answered += 1;
        uplink.probe.next = uplink.probe.next.max(now.monotonic);
        self.set_uplink_timer(state, uplink_key);
    }
}

impl FleetConfig {
    /// Whether the uplinks live on this shard.
    #[inline]
    pub(crate) fn has_uplinks_here(&self) -> bool {
        self.here && self.is_on()
    }

    /// Whether a client is an uplink of this orchestrator: then a broker's address leads back here, and every message
    /// would go round without end.
    pub(crate) fn is_own_uplink(&self, connect: &Connect<'_>) -> bool {
        let Some(settings) = self.settings() else { return false };
        connect.properties.user_properties.iter().any(|pair| pair == (ORCHESTRATOR, &*settings.orchestrator))
    }
}
