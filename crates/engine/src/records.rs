//! Messages between clients and applications that are on a bus.
//!
//! What a client publishes for applications is handed to the shell, and its acknowledgement waits for what the bus
//! says, beside all else that it waits for. The other way round a message is taken from the shell, which is told when
//! all that it promises is so.

use std::collections::{BTreeMap, VecDeque};

use tidegate_mqtt::{PublishProperties, QoS, TopicName};

use crate::addresses::SET_BY_BROKER;
use crate::engine::Engine;
use crate::event::Event;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::publish::dispatch::{Source, reach};
use crate::publish::is_own_topic;
use crate::service::InnerPublication;
use crate::telling::reason::Reason;

/// Tickets with this connection index belong to what the shell has given.
pub(crate) const AWAITED_INDEX: u32 = u32::MAX - 4;

/// Says whose acknowledgement waits for the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTicket(Ticket);

/// A message that is to be put on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationMessage {
    /// What waits for it; nothing at QoS 0, for wills and for what the broker says itself.
    pub ticket: Option<RecordTicket>,
    /// The tenant.
    pub tenant: TenantId,
    /// Who has published it; empty for the broker itself.
    pub client_id: String,
    /// The topic.
    pub topic: String,
    /// QoS as published.
    pub qos: QoS,
    /// RETAIN as published.
    pub retain: bool,
    /// Encoded MQTT 5 properties, as they are passed on.
    pub properties: Vec<u8>,
    /// When it expires, or [`Millis::NEVER`].
    pub expires_at: Millis,
    /// The payload.
    pub payload: Vec<u8>,
}

/// What the shell has given and is not told of yet.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// Confirmations that each still lacks, and its number with the shell.
    waiting: BTreeMap<u64, (u32, u64)>,
    next: u64,
    /// Taken, and told when the batch is committed.
    held: VecDeque<(u64, u64)>,
}

impl Awaited {
    fn ticket(number: u64) -> Ticket {
        let connection = ConnectionKey { index: AWAITED_INDEX, generation: (number >> 32) as u32 };
        Ticket { connection, sequence: number as u32 }
    }

    fn number(ticket: Ticket) -> u64 {
        u64::from(ticket.connection.generation) << 32 | u64::from(ticket.sequence)
    }
}

impl Engine {
    /// Hands a message for applications to the shell; says for how many confirmations its acknowledgement waits.
    #[cold]
    pub(crate) fn tell_record(
        &mut self,
        publication: &Publication<'_>,
        session: Option<SessionKey>,
        ticket: Option<Ticket>,
    ) -> u32 {
        let message = self.message_for_shell(publication, session, ticket);
        self.desk.events.push_back(Event::Record(Box::new(message)));
        u32::from(ticket.is_some())
    }

    /// Hands what a node says of itself to the shell; says for how many confirmations its acknowledgement waits.
    #[cold]
    pub(crate) fn tell_report(
        &mut self,
        publication: &Publication<'_>,
        session: Option<SessionKey>,
        ticket: Option<Ticket>,
    ) -> u32 {
        let message = self.message_for_shell(publication, session, ticket);
        self.desk.events.push_back(Event::Report(Box::new(message)));
        u32::from(ticket.is_some())
    }

    fn message_for_shell(
        &self,
        publication: &Publication<'_>,
        session: Option<SessionKey>,
        ticket: Option<Ticket>,
    ) -> ApplicationMessage {
        let client_id = session.and_then(|session| self.desk.sessions.get(session.0));
        let client_id = client_id.map_or_else(String::new, |session| session.client_id.to_string());
        ApplicationMessage {
            ticket: ticket.map(RecordTicket),
            tenant: publication.tenant,
            client_id,
            topic: publication.topic.to_owned(),
            qos: publication.qos,
            retain: publication.retain,
            properties: publication.properties.to_vec(),
            expires_at: publication.expires_at,
            payload: publication.payload.to_vec(),
        }
    }

    /// A message for the shell that nothing waits for found no room there.
    pub fn lose_report(&mut self) {
        self.desk.counters.drop_message(Reason::BusRefused);
    }

    /// What has become of a message for applications, or of what a node says of itself: it is on the bus, or refused. An MQTT 5 publisher is told why;
    /// another one could only be told that all is well, so its connection ends, and it has the message still.
    pub fn confirm_record(&mut self, now: Now, ticket: RecordTicket, refused: Option<Reason>) {
        let RecordTicket(ticket) = ticket;
        let Some(connection) = self.desk.connections.get(ticket.connection) else { return };
        if let Some(reason) = refused {
            self.desk.counters.drop_message(reason);
            if !connection.version.is_v5() {
                self.close_connection(now, ticket.connection, reason, None);
                self.after_frame(now);
                return;
            }
        }
        self.confirm(now, ticket, refused, false);
        self.after_frame(now);
    }

    /// Publishes a message of the broker's own, as [`Self::publish_inner`] does. [`Event::Taken`] names the number when
    /// every shard that it is for has it, and it is committed where things are stored, or says that it has to come
    /// again: a node died that had to confirm it, or clients of a dead one, whose place nobody has taken yet, would
    /// miss it. Who sends it may ask for receipts, which go to its response topic. Returns whether the topic is one
    /// that may be published to; nothing is told of one that is not.
    pub fn publish_awaited(&mut self, now: Now, message: &InnerPublication, number: u64) -> bool {
        if TopicName::new(&message.topic).is_err() || is_own_topic(&message.topic) {
            return false;
        }
        let mut publication = message.publication(self.settings.retained.available);
        let mut properties = Vec::new();
        let slot = self.route_of(publication.tenant, publication.topic);
        let traits = self.cache.traits(slot);
        if traits.is_address && !message.properties.is_empty() {
            self.add_receipts_to_response_topic(message, &mut properties);
            publication.properties = &properties;
        }
        publication.priority = traits.priority.level(publication.properties);
        if let Some(addresses) = self.settings.addresses.as_ref().filter(|_| traits.is_address) {
            publication.expires_at = addresses.expiry(now.monotonic, publication.expires_at);
        }
        if self.would_miss_somebody(slot, publication.tenant, publication.retain) {
            // A client would be sent away with it. The shell has it still, and gives it again.
            self.desk.events.push_back(Event::Taken { number, taken: false });
            return true;
        }
        let awaited = self.awaited.next;
        self.awaited.next += 1;
        let ticket = Some(Awaited::ticket(awaited));
        let source = Source { ticket, ..Source::inside(self.place.shard, now) };
        let (_, route) = self.cache.get(slot);
        let done = reach!(self).dispatch(now, route, &mut publication, &source);
        self.awaited.waiting.insert(awaited, (u32::from(done.waits) + 1, number));
        self.confirm_awaited(Awaited::ticket(awaited));
        self.after_frame(now);
        true
    }

    /// One confirmation of what the shell has given.
    #[cold]
    pub(crate) fn confirm_awaited(&mut self, ticket: Ticket) {
        let number = Awaited::number(ticket);
        let Some((waits, _)) = self.awaited.waiting.get_mut(&number) else { return };
        *waits -= 1;
        if *waits > 0 {
            return;
        }
        let Some((_, number)) = self.awaited.waiting.remove(&number) else { return };
        // Whoever confirmed has written before: its batch lies before the one that is being gathered here.
        match self.desk.journal.promised_batch() {
            Some(batch) => self.awaited.held.push_back((batch, number)),
            None => self.desk.events.push_back(Event::Taken { number, taken: true }),
        }
    }

    /// A shard that had to confirm it is no more.
    pub(crate) fn give_up_awaited(&mut self, ticket: Ticket) {
        if let Some((_, number)) = self.awaited.waiting.remove(&Awaited::number(ticket)) {
            self.desk.events.push_back(Event::Taken { number, taken: false });
        }
    }

    /// All batches up to this one are committed.
    pub(crate) fn tell_taken(&mut self, committed: u64) {
        while let Some((batch, number)) = self.awaited.held.front().copied()
            && batch <= committed
        {
            self.awaited.held.pop_front();
            self.desk.events.push_back(Event::Taken { number, taken: true });
        }
    }

    /// Copies the properties of a message to an address, and adds where receipts go, if it asks for any and says where
    /// they should go.
    fn add_receipts_to_response_topic(&mut self, message: &InnerPublication, out: &mut Vec<u8>) {
        let Ok(properties) = PublishProperties::decode(&message.properties) else { return };
        properties.copy_forwardable_without(SET_BY_BROKER, out);
        let wished = properties.response_topic.map(TopicName::as_str);
        if let Some(to) = wished.filter(|topic| !is_own_topic(topic)) {
            self.add_receipts_to(&message.topic, &properties, to, out);
        }
    }
}
