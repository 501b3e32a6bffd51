//! Reports the events of single messages.

use crate::event::{Attempt, Delay, Event, LogEvent};
use crate::events::outcome::DeliveryOutcome;
use crate::events::reason::Reason;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::message::{MessageRef, Publication};
use crate::session::BlockedPublisher;
use crate::session::overflow::Arriving;
use crate::state::Reporting;

impl Reporting<'_> {
    /// Counts and tells a message that a session does not get.
    #[cold]
    pub(crate) fn drop_for(&mut self, reason: Reason, to: SessionKey, topic: &str) {
        self.counters.drop_message(reason);
        self.tell_dropped(reason, to, topic, None);
    }

    /// Counts a message that a session does not get, tells it, and keeps it as a dead letter if that is wanted.
    #[cold]
    pub(crate) fn discard_for(&mut self, reason: Reason, to: SessionKey, message: &MessageRef) {
        self.discard(reason, message);
        self.report_outcome_of(to, message, DeliveryOutcome::Dropped(reason));
        self.tell_dropped(reason, to, message.topic(), None);
    }

    /// The same for an accepted message that a broker of a fleet does not take, and no other one gets.
    #[cold]
    pub(crate) fn give_up(&mut self, reason: Reason, broker: SessionKey, message: &MessageRef) {
        self.counters.given_up += 1;
        self.discard_for(reason, broker, message);
    }

    /// The same for a message that may not be kept yet.
    #[cold]
    pub(crate) fn discard_publication_for(
        &mut self,
        reason: Reason,
        to: SessionKey,
        publication: &mut Publication<'_>,
    ) {
        self.discard_publication(reason, publication);
        self.report_outcome(
            to,
            publication.topic,
            publication.properties,
            publication.qos,
            DeliveryOutcome::Dropped(reason),
        );
        self.tell_dropped(reason, to, publication.topic, None);
    }

    /// The same for the message that is arriving.
    #[cold]
    pub(crate) fn discard_arriving(&mut self, reason: Reason, arriving: &Arriving<'_>) {
        let message = &arriving.delivery.message;
        self.discard(reason, message);
        self.report_outcome_of(arriving.to, message, DeliveryOutcome::Dropped(reason));
        self.tell_dropped(reason, arriving.to, message.topic(), arriving.publisher);
    }

    fn tell_dropped(&mut self, reason: Reason, to: SessionKey, topic: &str, by: Option<BlockedPublisher>) {
        let Some(session) = self.sessions.get(to.0) else { return };
        self.counters.drop_for_pipeline(&session.client_id, 1);
        let tenant = session.tenant;
        let Some(omitted) = self.event_limit.take(self.now, tenant, &session.client_id) else { return };
        // That of another shard is not known here.
        let publisher = by.filter(|by| by.shard == self.shard).and_then(|by| self.client_of(by.connection));
        let (client_id, topic) = (session.client_id.to_string(), topic.to_owned());
        self.events.push_back(Event::Log(LogEvent::Dropped { client_id, tenant, topic, reason, publisher, omitted }));
    }

    /// Tells that a session may not be sent messages of a topic; the route counts them.
    #[cold]
    pub(crate) fn tell_withheld(&mut self, to: SessionKey, topic: &str) {
        self.tell_dropped(Reason::NotAuthorized, to, topic, None);
    }

    /// Tells a message that a session did not get which is not there any more.
    #[cold]
    pub(crate) fn tell_given_up(&mut self, reason: Reason, (tenant, client_id): (TenantId, &str), topic: &str) {
        let Some(omitted) = self.event_limit.take(self.now, tenant, client_id) else { return };
        let (client_id, topic) = (client_id.to_owned(), topic.to_owned());
        let publisher = None;
        self.events.push_back(Event::Log(LogEvent::Dropped { client_id, tenant, topic, reason, publisher, omitted }));
    }

    /// Reports that a client was denied an action.
    #[cold]
    pub(crate) fn tell_denied(&mut self, attempt: Attempt, by: SessionKey, topic: &str, reason: Reason) {
        let Some(session) = self.sessions.get(by.0) else { return };
        let (tenant, name) = (session.tenant, session.client_id.clone());
        self.tell_denied_named(attempt, (tenant, &name), topic, reason, None);
    }

    /// The same by the name of a client or a principal, and whose queue had no room.
    #[cold]
    pub(crate) fn tell_denied_named(
        &mut self,
        attempt: Attempt,
        (tenant, name): (TenantId, &str),
        topic: &str,
        reason: Reason,
        whose: Option<SessionKey>,
    ) {
        let whose = whose.and_then(|whose| self.sessions.get(whose.0));
        let held_up_by = whose.map(|session| session.client_id.to_string());
        let Some(omitted) = self.event_limit.take(self.now, tenant, name) else { return };
        let (client_id, topic) = (name.to_owned(), topic.to_owned());
        self.events.push_back(Event::Log(LogEvent::Denied {
            client_id,
            tenant,
            attempt,
            topic,
            reason,
            held_up_by,
            omitted,
        }));
    }

    /// Tells that a publisher has to wait.
    #[cold]
    pub(crate) fn tell_delayed(&mut self, delay: Delay, key: ConnectionKey) {
        let Some(client_id) = self.client_of(key) else { return };
        let Some(tenant) = self.connections.get(key).map(|connection| connection.tenant) else { return };
        let Some(omitted) = self.event_limit.take(self.now, tenant, &client_id) else { return };
        self.events.push_back(Event::Log(LogEvent::Delayed { key, client_id, tenant, delay, omitted }));
    }

    /// The name of a client or a principal.
    fn client_of(&self, key: ConnectionKey) -> Option<String> {
        match self.connections.get(key)?.session {
            Some(session) => Some(self.sessions.get(session.0)?.client_id.to_string()),
            None => self.event_limit.principals.get(&key).map(ToString::to_string),
        }
    }
}
