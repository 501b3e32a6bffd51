//! Brokers leave the fleet: they are drained, removed, or not configured any more (BRK-32).

use crate::ids::BrokerLinkKey;
use crate::ids::ConnectionKey;
use crate::orchestrator::broker_link::{BrokerLink, Brokers};
use crate::state::ShardState;
use tidegate_mqtt::{Disconnect, PacketType};

impl Brokers {
    /// Whether another broker can take the messages of this one. Where the limit of this one counts, the other has one as
    /// well: without any limit no message is taken.
    pub(crate) fn has_another(&self, key: BrokerLinkKey) -> bool {
        let counts = |it: &BrokerLink| it.draining.is_none() && it.accepted.is_some();
        let needs_limit = self.all.get(&key).is_some_and(counts);
        self.all
            .iter()
            .any(|(other, it)| *other != key && it.draining.is_none() && (it.accepted.is_some() || !needs_limit))
    }

    /// A DISCONNECT to a broker; for good, it need not keep the session.
    pub(crate) fn say_goodbye(&mut self, state: &mut ShardState, key: ConnectionKey, for_good: bool) {
        let Some(connection) = state.connections.get(key) else { return };
        if connection.phase != crate::connection::Phase::Open {
            return;
        }
        let (version, max) = (connection.version, connection.max_packet_out);
        let lasting = self.of_connection(key).and_then(|key| self.all.get(&key));
        let ends = for_good && lasting.is_some_and(|broker_link| broker_link.options.lasting);
        let packet = Disconnect {
            session_expiry_interval: ends.then_some(0),
            ..Disconnect::new(tidegate_mqtt::ReasonCode::Success)
        };
        state.send(key, PacketType::Disconnect, |out| packet.encode_within(version, max, out).is_ok());
    }
}
