//! Messages that are owed to all nodes are sent until each has confirmed.

use crate::cluster::outgoing::{OUTGOING_VERSION, Outgoing, OutgoingMessage, read_outgoing};
use crate::events::reason::Reason;
use crate::flows::contexts::SessionEnding;
use crate::flows::contexts::{Publishing, publishing};
use crate::ids::{ConnectionKey, PartitionId, Partitions, SessionKey};
use crate::journal::keys::Key;
use crate::link::envelope::{OUTGOING_INDEX, Ticket};
use crate::link::got::Got;
use crate::message::Publication;
use crate::now::Now;
use crate::orchestrator::homes::Home;
use crate::publish::dispatch::Source;
use crate::records::image::put_publication;
use crate::records::stored::put_message as put_stored_message;
use crate::session::exchange::Exchange;
use crate::session::table::Sessions;
use crate::state::ShardState;
use crate::topics::{RouteSlot, is_own_topic};
use crate::wire::{WireError, WireWrite};
use tidegate_mqtt::QoS;

/// Bytes of the outgoing messages of a shard. A message beyond them is published at once: nodes that cannot be reached
/// at that moment miss it.
const OUTGOING_MAX_BYTES: u64 = 64 * 1024 * 1024;

impl SessionEnding<'_> {
    /// Publishes a message of a client that the client does not send again. In a cluster the message is owed to all
    /// nodes, or by an orchestrator to the brokers.
    pub(crate) fn publish_owed(&mut self, now: Now, publication: &mut Publication<'_>, session: SessionKey) {
        if !self.is_owed(publication) {
            return publishing!(self).publish_inside(now, publication, Some(session));
        }
        let Some(client_id) = self.state.sessions.get(session.0).map(|session| session.client_id.clone()) else {
            return;
        };
        self.owe(now, publication, client_id, false);
    }

    /// The same for a message of the broker about a client, whose home this shard is.
    pub(crate) fn publish_owed_of(&mut self, now: Now, publication: &mut Publication<'_>, client_id: Box<str>) {
        if self.is_owed(publication) {
            self.owe(now, publication, client_id, true);
        } else {
            publishing!(self).publish_inside(now, publication, None);
        }
    }

    /// Whether nodes may miss a message that is published now, and its QoS promises more.
    fn is_owed(&self, publication: &Publication<'_>) -> bool {
        let promised = publication.qos != QoS::AtMostOnce || publication.retain;
        let is_alone = self.homes.are_everywhere() && self.links.roster.has_no_peers();
        let full = self.peers.outgoing.bytes > OUTGOING_MAX_BYTES;
        !is_alone && promised && !full && !is_own_topic(publication.topic)
    }

    fn owe(&mut self, now: Now, publication: &mut Publication<'_>, client_id: Box<str>, is_of_broker: bool) {
        let slot = publishing!(self).route_of(publication.tenant, publication.topic);
        publication.priority = self.router.cache.traits(slot).priority.level(publication.properties);
        let message = publication.keep();
        let it = OutgoingMessage { client_id, is_of_broker, message, sent: None, ticket: None, waits: 0 };
        let number = self.peers.outgoing.new_outgoing_number(self.state);
        self.peers.outgoing.add_outgoing(self.state, number, it);
        if !self.try_outgoing(now, number) {
            self.peers.outgoing.store_outgoing(self.state, number);
        }
    }

    /// Publishes all messages that have waited until this node may.
    pub(crate) fn publish_held(&mut self, now: Now) {
        if self.peers.outgoing.by_number.is_empty() {
            return;
        }
        for number in self.peers.outgoing.held() {
            self.try_outgoing(now, number);
        }
    }

    /// Whether this process publishes the messages of this client: no other member does so at the same time.
    fn is_at_home(&self, it: &OutgoingMessage) -> bool {
        self.homes.home_of(self.state, it.partition()) == Home::Here && self.recovery.replay.is_none()
    }

    /// Whether a message would reach all its receivers.
    fn may_leave(&mut self, it: &OutgoingMessage, slot: RouteSlot) -> bool {
        if !self.is_at_home(it) {
            return false;
        }
        // Messages of clients have this way, too: none of them comes in before that.
        self.peers.outgoing.has_met_nodes |= !self.links.roster.lacks_nodes()
            && !self.peers.awaits_absent_home(&self.links.roster, self.groups, &self.state.transfers);
        self.peers.outgoing.has_met_nodes
            && !(self.peers.may_lack_receiver(&self.links.roster, &self.state.transfers)
                && self.peers.lacks_receiver(
                    self.state,
                    &self.links.roster,
                    self.router.cache.get(slot),
                    it.message.tenant,
                    it.message.retain,
                ))
    }

    /// Sends a message, if it may leave. Returns whether it has left.
    fn try_outgoing(&mut self, now: Now, number: u64) -> bool {
        let Some(it) = self.peers.outgoing.by_number.get(&number).cloned() else { return true };
        if it.message.is_expired(now.monotonic) {
            self.state.reports().discard(Reason::MessageExpired, &it.message);
            self.peers.outgoing.remove_outgoing(self.state, number);
            return true;
        }
        if self.broker_links.brokers.config.goes_to_fleet(&self.state.settings, &it.message.publication()) {
            return self.try_outgoing_to_fleet(now, number, &it);
        }
        let slot = publishing!(self).route_of(it.message.tenant, it.message.topic());
        if !self.may_leave(&it, slot) {
            return false;
        }
        let (ticket, as_ticket) = self.peers.outgoing.new_ticket(number);
        let session = it.publisher(&self.state.sessions);
        let source = Source { session, ticket: Some(as_ticket), ..Source::inside(self.links.place.shard, now) };
        let mut publication = it.message.publication();
        let (exchange, waits) = match it.sent {
            Some((name, covered)) => {
                let exchange = Exchange::left(name, covered);
                let (exchange, waits, _) =
                    publishing!(self).send_exchange_again(now, &exchange, slot, &mut publication, &source);
                (exchange, waits)
            }
            None => publishing!(self).send_first(now, slot, &mut publication, &source),
        };
        if let Some(it) = self.peers.outgoing.by_number.get_mut(&number) {
            (it.sent, it.ticket, it.waits) = (Some((exchange.name, exchange.covered)), Some(ticket), waits);
        }
        if waits == 0 {
            self.peers.outgoing.remove_outgoing(self.state, number);
        } else {
            self.peers.outgoing.store_outgoing(self.state, number);
        }
        true
    }

    /// Gives a message to the fleet, if it may leave. The batch that removes it from the outgoing messages owes it to a
    /// broker, under an id: a member that takes over either part knows it by that.
    fn try_outgoing_to_fleet(&mut self, now: Now, number: u64, it: &OutgoingMessage) -> bool {
        if !self.is_at_home(it) || !self.broker_links.gate.knows_limits() {
            return false;
        }
        let session = it.publisher(&self.state.sessions);
        publishing!(self).publish_inside(now, &mut it.message.publication(), session);
        self.peers.outgoing.remove_outgoing(self.state, number);
        true
    }
}

impl OutgoingMessage {
    /// The session of the client that publishes it; none for the broker's own.
    fn publisher(&self, sessions: &Sessions) -> Option<SessionKey> {
        if self.is_of_broker { None } else { sessions.find_session(self.message.tenant, &self.client_id) }
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
        let groups = self.groups.dealers.dealt_by_process();
        let exchange =
            self.state.exchanges.begin(source.ticket, groups, self.state.transfers.cut_away(&self.links.roster));
        self.state.exchanges.mark_in_transit(
            self.links.place,
            &self.links.roster,
            &self.state.transfers,
            &mut self.state.journal,
            exchange.name,
        );
        self.links.exchange = Some(self.state.exchanges.word(exchange.name, Got::EMPTY));
        let waits = self.route_owed(now, slot, publication, source);
        self.links.exchange = None;
        (exchange, waits)
    }
}

impl Outgoing {
    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages of a partition.
    pub(crate) fn count_of(&self, partition: PartitionId) -> u64 {
        self.by_number.values().filter(|it| it.partition() == partition).count() as u64
    }

    pub(crate) fn new_ticket(&mut self, number: u64) -> (u64, Ticket) {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.by_ticket.insert(ticket, number);
        let connection = ConnectionKey { index: OUTGOING_INDEX, generation: (ticket >> 32) as u32 };
        (ticket, Ticket { connection, sequence: ticket as u32 })
    }

    /// Numbers of the messages that are held.
    pub(crate) fn held(&self) -> Vec<u64> {
        self.by_number.iter().filter(|(_, it)| it.ticket.is_none()).map(|(number, _)| *number).collect()
    }
}

fn number_of(ticket: Ticket) -> u64 {
    u64::from(ticket.connection.generation) << 32 | u64::from(ticket.sequence)
}

impl Outgoing {
    pub(crate) fn add_outgoing(&mut self, state: &mut ShardState, number: u64, it: OutgoingMessage) {
        self.bytes += it.cost();
        state.memory.held += it.cost();
        self.by_number.insert(number, it);
    }

    pub(crate) fn store_outgoing(&mut self, state: &mut ShardState, number: u64) {
        let Some(it) = self.by_number.get(&number).filter(|_| state.journal.is_on()) else { return };
        let now = state.journal.now;
        state.journal.put(Key::Outgoing(number), |out| {
            out.put_u8(OUTGOING_VERSION);
            it.write_head(out);
            put_stored_message(out, now, &it.message.publication());
        });
    }

    /// A message is not sent again.
    pub(crate) fn remove_outgoing(&mut self, state: &mut ShardState, number: u64) {
        let it = self.drop_outgoing(state, number);
        if let Some((name, _)) = it.and_then(|it| it.sent) {
            state.exchanges.end(name);
        }
    }

    /// Forgets a message, also in the store.
    fn drop_outgoing(&mut self, state: &mut ShardState, number: u64) -> Option<OutgoingMessage> {
        let it = self.by_number.remove(&number)?;
        self.bytes -= it.cost();
        state.memory.held -= it.cost();
        if let Some(ticket) = it.ticket {
            self.by_ticket.remove(&ticket);
        }
        if state.journal.is_on() {
            state.journal.delete(Key::Outgoing(number));
        }
        Some(it)
    }

    /// One confirmation of an outgoing message.
    #[cold]
    pub(crate) fn confirm_outgoing(&mut self, state: &mut ShardState, ticket: Ticket) {
        let ticket = number_of(ticket);
        let Some(number) = self.by_ticket.get(&ticket).copied() else { return };
        let Some(it) = self.by_number.get_mut(&number) else { return };
        it.waits = it.waits.saturating_sub(1);
        if it.waits == 0 {
            self.remove_outgoing(state, number);
        }
    }

    /// A shard that had to confirm an outgoing message is no more: the message is sent again when the node may.
    pub(crate) fn doubt_outgoing(&mut self, ticket: Ticket) {
        let Some(number) = self.by_ticket.remove(&number_of(ticket)) else { return };
        if let Some(it) = self.by_number.get_mut(&number) {
            it.ticket = None;
        }
    }

    /// Adds the outgoing messages of the store.
    pub(crate) fn restore_outgoing(
        &mut self,
        now: Now,
        state: &mut ShardState,
        number: u64,
        value: &[u8],
    ) -> Result<(), WireError> {
        self.add_outgoing(state, number, read_outgoing(value, now)?);
        Ok(())
    }

    /// Forgets the messages of partitions that live elsewhere from now on. The names of sent ones stay open: their new
    /// home sends them again under these names.
    pub(crate) fn forget_outgoing(&mut self, state: &mut ShardState, partitions: Partitions) {
        let its = self.by_number.iter().filter(|(_, it)| partitions.has(it.partition()));
        let its: Vec<u64> = its.map(|(number, _)| *number).collect();
        for number in its {
            self.drop_outgoing(state, number);
        }
    }

    /// Writes the messages of a partition into its image.
    pub(crate) fn put_outgoing(&self, out: &mut Vec<u8>, now: Now, partition: PartitionId) {
        let its: Vec<&OutgoingMessage> = self.by_number.values().filter(|it| it.partition() == partition).collect();
        out.put_u32(its.len() as u32);
        for it in its {
            it.write_head(out);
            put_publication(out, now, &it.message.publication());
        }
    }

    /// Continues the outgoing messages of a partition that has arrived.
    pub(crate) fn adopt_outgoing(&mut self, state: &mut ShardState, all: Vec<OutgoingMessage>) {
        for it in all {
            let number = self.new_outgoing_number(state);
            self.add_outgoing(state, number, it);
            self.store_outgoing(state, number);
        }
    }

    pub(crate) fn new_outgoing_number(&mut self, state: &mut ShardState) -> u64 {
        if state.journal.is_on() {
            return state.journal.new_body();
        }
        self.next_number += 1;
        self.next_number
    }
}
