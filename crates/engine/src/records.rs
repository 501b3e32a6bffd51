//! Messages between clients and applications that are on a bus.
//!
//! What a client publishes for applications is handed to the shell, and its acknowledgement waits for what the bus
//! says, beside all else that it waits for. The other way round the shell publishes as a principal.

use crate::publish::publishing::Publishing;
use tidegate_mqtt::QoS;

use crate::engine::Engine;
use crate::event::Event;
use crate::ids::{SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::telling::reason::Reason;

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

impl Engine {
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
}

impl Publishing<'_> {
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
}
