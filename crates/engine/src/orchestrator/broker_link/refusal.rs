//! A filter that no broker takes is refused to the client, and so is one that any broker refuses where brokers decide
//! what their users may do (BRK-10).

use super::filters::{FilterSync, WantedFilters};
use crate::ids::BrokerLinkKey;
use crate::ids::ShardId;
use crate::link::envelope::Ticket;
use crate::orchestrator::broker_link::Brokers;
use tidegate_mqtt::{PacketId, SubAck};

impl WantedFilters {
    /// Who waits for brokers to answer, and all who wait behind others.
    pub(crate) fn who_waits(&self, wait: u64) -> Vec<Ticket> {
        let first = self.waits.get(&wait).map(|waiter| waiter.ticket);
        first.into_iter().chain(self.behind.iter().map(|(_, _, ticket)| *ticket)).collect()
    }

    /// All who wait behind others: they may have asked for the same filter.
    pub(crate) fn who_waits_behind(&self) -> Vec<(ShardId, Ticket)> {
        self.behind.iter().map(|(_, shard, ticket)| (*shard, *ticket)).collect()
    }
}

impl FilterSync {
    /// The filters that it was asked for under a packet id, each with the number of the wait that its answer ends.
    pub(crate) fn asked_under(&self, id: PacketId) -> Vec<(Box<str>, u64)> {
        let changes = self.asked.iter().filter(|(asked, _)| *asked == id).flat_map(|(_, changes)| changes);
        changes.map(|change| (change.filter.clone(), change.wait)).collect()
    }
}

impl WantedFilters {
    /// Counts the brokers that have refused filters with a waiting SUBACK.
    pub(crate) fn note_sub_ack(&mut self, brokers: &Brokers, key: BrokerLinkKey, ack: &SubAck<'_>) {
        let Some(broker_link) = brokers.all.get(&key) else { return };
        let changes = broker_link.filters.asked.iter().filter(|(id, _)| *id == ack.packet_id);
        let codes = changes.flat_map(|(_, changes)| changes).zip(ack.reason_codes.iter());
        for (change, code) in codes.filter(|(_, code)| code.is_error()) {
            if let Some(waiter) = self.waits.get_mut(&change.wait) {
                waiter.answers.refused += 1;
                waiter.answers.code = code;
            }
        }
    }
}
