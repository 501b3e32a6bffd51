//! Messages that are owed to all nodes are sent until each has confirmed.

use crate::cluster::exchanges::{Exchange, Got};
use crate::cluster::outgoing::OutgoingMessage;
use crate::flows::cluster::ending::SessionEnding;
use crate::flows::publish::publishing::Publishing;
use crate::flows::publish::publishing::publishing;
use crate::ids::SessionKey;
use crate::message::Publication;
use crate::now::Now;
use crate::orchestrator::homes::Home;
use crate::publish::dispatch::Source;
use crate::telling::reason::Reason;
use crate::topics::{RouteSlot, is_own_topic};
use tidegate_mqtt::QoS;

/// Bytes of the outgoing messages of a shard. A message beyond them is published at once: nodes that cannot be reached
/// at that moment miss it.
const OUTGOING_MAX_BYTES: u64 = 64 * 1024 * 1024;

impl SessionEnding<'_> {
    /// Publishes a message of a client that the client does not send again. In a cluster the message is owed to all
    /// nodes.
    pub(crate) fn publish_owed(&mut self, now: Now, publication: &mut Publication<'_>, session: SessionKey) {
        let promised = publication.qos != QoS::AtMostOnce || publication.retain;
        let is_alone = self.homes.are_everywhere() && self.links.roster.has_no_peers();
        let full = self.outgoing.bytes > OUTGOING_MAX_BYTES;
        if is_alone
            || !promised
            || full
            || self.uplinks.brokers.config.goes_to_fleet(publication)
            || is_own_topic(publication.topic)
        {
            return publishing!(self).publish_inside(now, publication, Some(session));
        }
        let Some(client_id) = self.desk.sessions.get(session.0).map(|session| session.client_id.clone()) else {
            return;
        };
        let slot = publishing!(self).route_of(publication.tenant, publication.topic);
        publication.priority = self.cache.traits(slot).priority.level(publication.properties);
        let it = OutgoingMessage { client_id, message: publication.keep(), sent: None, ticket: None, waits: 0 };
        let number = self.outgoing.new_outgoing_number(self.desk);
        self.outgoing.add_outgoing(self.desk, number, it);
        if !self.try_outgoing(now, number) {
            self.outgoing.store_outgoing(self.desk, number);
        }
    }

    /// Publishes all messages that have waited until this node may.
    pub(crate) fn publish_held(&mut self, now: Now) {
        if self.outgoing.by_number.is_empty() {
            return;
        }
        for number in self.outgoing.held() {
            self.try_outgoing(now, number);
        }
    }

    /// Whether a message would reach all that it is for.
    fn may_leave(&mut self, it: &OutgoingMessage, slot: RouteSlot) -> bool {
        if self.homes.home_of(self.desk, it.partition()) != Home::Here || self.recovery.replay.is_some() {
            return false;
        }
        // Messages of clients have this way, too: none of them comes in before that.
        self.outgoing.has_met_nodes |= !self.links.roster.lacks_nodes()
            && !self.peers.awaits_somebody(&self.links.roster, self.groups, &self.desk.transfers);
        self.outgoing.has_met_nodes
            && !(self.peers.misses_somebody(&self.links.roster, &self.desk.transfers)
                && self.peers.would_miss_somebody(
                    self.desk,
                    &self.links.roster,
                    self.cache.get(slot),
                    it.message.tenant,
                    it.message.retain,
                ))
    }

    /// Sends a message, if it may leave. Says whether it has left.
    fn try_outgoing(&mut self, now: Now, number: u64) -> bool {
        let Some(it) = self.outgoing.by_number.get(&number).cloned() else { return true };
        if it.message.is_expired(now.monotonic) {
            self.desk.reports().discard(Reason::MessageExpired, &it.message);
            self.outgoing.remove_outgoing(self.desk, number);
            return true;
        }
        let slot = publishing!(self).route_of(it.message.tenant, it.message.topic());
        if !self.may_leave(&it, slot) {
            return false;
        }
        let (ticket, as_ticket) = self.outgoing.new_ticket(number);
        let session = self.desk.sessions.find_session(it.message.tenant, &it.client_id);
        let source = Source { session, ticket: Some(as_ticket), ..Source::inside(self.place.shard, now) };
        let mut publication = it.message.publication();
        let (exchange, waits) = match it.sent {
            Some((name, covered)) => {
                let exchange = Exchange::left(name, covered);
                let (exchange, waits, _) =
                    publishing!(self).send_exchange_again(now, exchange, slot, &mut publication, &source);
                (exchange, waits)
            }
            None => publishing!(self).send_first(now, slot, &mut publication, &source),
        };
        if let Some(it) = self.outgoing.by_number.get_mut(&number) {
            (it.sent, it.ticket, it.waits) = (Some((exchange.name, exchange.covered)), Some(ticket), waits);
        }
        if waits == 0 {
            self.outgoing.remove_outgoing(self.desk, number);
        } else {
            self.outgoing.store_outgoing(self.desk, number);
        }
        true
    }
}

impl Publishing<'_> {
    /// Sends a message for the first time. Returns how many confirmations it waits for.
    fn send_first(
        &mut self,
        now: Now,
        slot: RouteSlot,
        publication: &mut Publication<'_>,
        source: &Source,
    ) -> (Exchange, u32) {
        let groups = self.groups.dealers.dealt_by_process(&self.links.roster);
        let exchange =
            self.desk.exchanges.begin(source.ticket, groups, self.desk.transfers.cut_away(&self.links.roster));
        self.desk.exchanges.mark_in_transit(
            self.links.place,
            &self.links.roster,
            &self.desk.transfers,
            &mut self.desk.journal,
            exchange.name,
        );
        self.links.exchange = Some(self.desk.exchanges.word(exchange.name, Got::NOBODY));
        let waits = self.route_owed(now, slot, publication, source);
        self.links.exchange = None;
        (exchange, waits)
    }
}
