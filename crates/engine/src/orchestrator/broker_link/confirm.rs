//! Returned messages are settled in the store when all shards have them.
//!
//! A message that returned at QoS 1 is on its way to the other shards in memory only. Were it settled at once, it
//! would be lost with the process, if its broker forgot it too. Exactly-once messages are written down on their way,
//! and need not wait.

use crate::orchestrator::broker_link::Brokers;
use crate::orchestrator::broker_link::Settlement;
use crate::publish::layouts::Layouts;
use crate::state::ShardState;
use std::collections::BTreeMap;

use tidegate_mqtt::PacketId;

use super::id::MessageId;
use crate::ids::{ConnectionKey, SessionKey};
use crate::session::InFlight;

/// Messages that have returned and that other shards have not confirmed. Bounded by the brokers' windows.
#[derive(Debug, Default)]
pub(crate) struct Confirming {
    by_packet: BTreeMap<(ConnectionKey, PacketId), MessageId>,
    /// The entries to delete then, and the broker that owed each.
    settled: BTreeMap<MessageId, Vec<(SessionKey, InFlight)>>,
}

impl Confirming {
    /// Whether no settled message waits for other shards.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.settled.is_empty()
    }

    /// Notes a settled message if it is not confirmed yet; returns true in that case.
    pub(super) fn holds(&mut self, id: &MessageId, session: SessionKey, in_flight: &InFlight) -> bool {
        let Some(settled) = self.settled.get_mut(id) else { return false };
        settled.push((session, InFlight { delivery: None, numbers: in_flight.numbers }));
        true
    }

    /// A broker is removed, and all that is stored of it.
    pub(crate) fn forget_session(&mut self, session: SessionKey) {
        for settled in self.settled.values_mut() {
            settled.retain(|(of, _)| *of != session);
        }
    }
}

impl super::BrokerLinks {
    /// Whether a returned message waits for other shards.
    #[inline]
    pub(crate) fn is_confirming(&self) -> bool {
        !self.settlement.confirming.by_packet.is_empty()
    }
}

impl Settlement {
    /// A message has returned in this packet, which is answered when other shards have it.
    pub(crate) fn begin_confirming(
        &mut self,
        state: &mut ShardState,
        key: ConnectionKey,
        packet: PacketId,
        id: &MessageId,
    ) {
        if !state.journal.is_on() {
            return;
        }
        let confirming = &mut self.confirming;
        confirming.by_packet.insert((key, packet), *id);
        confirming.settled.entry(*id).or_default();
    }

    /// All shards have the message of a packet that is being answered.
    #[cold]
    pub(crate) fn note_confirmed(
        &mut self,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        key: ConnectionKey,
        packet: PacketId,
    ) {
        let confirming = &mut self.confirming;
        let Some(id) = confirming.by_packet.remove(&(key, packet)) else { return };
        for (session, in_flight) in confirming.settled.remove(&id).unwrap_or_default() {
            brokers.forget_settled(state, layouts, session, &in_flight);
        }
    }

    /// The connection of received messages has ended: no more acknowledgements are sent on it.
    pub(crate) fn end_confirming(
        &mut self,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        key: ConnectionKey,
    ) {
        let packets = self.confirming.by_packet.keys();
        let packets: Vec<PacketId> = packets.filter(|(on, _)| *on == key).map(|(_, packet)| *packet).collect();
        for packet in packets {
            self.note_confirmed(state, layouts, brokers, key, packet);
        }
    }
}
