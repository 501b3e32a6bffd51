//! The connection of a broker link: CONNECT, CONNACK, probes, and which packets a broker may send.

use crate::ids::BrokerLinkKey;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::orchestrator::broker_link::{Brokers, FleetConfig};
use crate::state::ShardState;
use tidegate_mqtt::{Connect, Version};

/// The user property of a CONNECT that names the orchestrator.
pub(crate) const ORCHESTRATOR: &str = "tidegate-orchestrator";

impl Brokers {
    /// The broker link of a connection and the version that it speaks.
    pub(crate) fn broker_link_of(&self, key: ConnectionKey) -> Option<(BrokerLinkKey, Version)> {
        let broker_link = self.of_connection(key)?;
        Some((broker_link, self.all.get(&broker_link)?.version))
    }

    pub(crate) fn note_broker_link_error(&mut self, key: ConnectionKey, error: String) {
        let broker_link = self.of_connection(key);
        if let Some(broker_link) = broker_link.and_then(|broker_link| self.all.get_mut(&broker_link)) {
            broker_link.last_error = error;
        }
    }

    pub(crate) fn note_probe_answered(&mut self, now: Now, state: &mut ShardState, key: ConnectionKey) {
        let Some(broker_link_key) = self.of_connection(key) else { return };
        let Some(broker_link) = self.all.get_mut(&broker_link_key) else { return };
        broker_link.probe.asked = None;
        broker_link.probe.answered += 1;
        broker_link.probe.next = broker_link.probe.next.max(now.monotonic);
        self.set_broker_link_timer(state, broker_link_key);
    }
}

impl FleetConfig {
    /// Whether the broker links live on this shard.
    #[inline]
    pub(crate) fn has_broker_links_here(&self) -> bool {
        self.here && self.is_on()
    }

    /// Whether a client is a broker link of this orchestrator: then a broker's address leads back here, and every message
    /// would go round without end.
    pub(crate) fn is_own_broker_link(&self, connect: &Connect<'_>) -> bool {
        let Some(settings) = self.settings() else { return false };
        connect.properties.user_properties.iter().any(|pair| pair == (ORCHESTRATOR, &*settings.orchestrator))
    }
}
