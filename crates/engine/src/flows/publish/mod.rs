//! A PUBLISH: routed, decided by stages, dispatched, answered.

pub(crate) mod admission;
pub(crate) mod completion;
pub(crate) mod dead_letter;
pub(crate) mod dispatch;
pub(crate) mod fan_out;
pub(crate) mod pipeline;
pub(crate) mod stages;
pub(crate) mod turn_share;

use crate::connection::{Answer, Connection, Outcome};
use crate::event::{Attempt, Delay};
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::Answering;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::Parking;
use crate::flows::contexts::Publishing;
use crate::flows::contexts::publishing;
use crate::ids::{ConnectionKey, SessionKey, ShardId, TenantId};
use crate::journal::Mark;
use crate::journal::keys::Key;
use crate::message::Publication;
use crate::now::Now;
use crate::publish::inbound::Inbound;
use crate::session::refused::{Digest, RefusedMessage};
use crate::topics::RouteSlot;
use tidegate_mqtt::{PacketId, QoS, RawPublish, ReasonCode, TopicName};

impl Publishing<'_> {
    /// The route of a packet's topic. A topic in the cache is known to be valid.
    #[inline]
    pub(crate) fn slot_of(&mut self, tenant: TenantId, topic: &[u8]) -> Result<RouteSlot, Refused> {
        if let Some(slot) = self.router.cache.lookup(self.router.index.epoch(), tenant, topic) {
            return Ok(slot);
        }
        self.new_slot(tenant, topic)
    }

    #[cold]
    pub(crate) fn new_slot(&mut self, tenant: TenantId, topic: &[u8]) -> Result<RouteSlot, Refused> {
        if topic.is_empty() {
            return Err(Refused::new(Reason::ProtocolError, "PUBLISH has neither a topic nor a topic alias"));
        }
        let name =
            TopicName::from_utf8(topic).map_err(|error| Refused::new(Reason::InvalidTopicName, error.to_string()))?;
        self.state.settings.check_topic_levels(name.as_str())?;
        Ok(publishing!(self).make_route(tenant, name.as_str()))
    }
}

impl Deciding<'_> {
    /// Retains a message that is on its way in.
    #[cold]
    pub(crate) fn retain_inbound(&mut self, it: &Inbound<'_>) -> Option<Reason> {
        if it.tenant == TenantId::BROKER_LINK && self.broker_links.brokers.config.brokers_decide() {
            return None;
        }
        let topic = self.router.cache.topic_of(it);
        let publisher = self.publisher_of(it).map_or(0, |(tenant, name)| crate::ids::hash_name(tenant, name));
        let mut publication = it.publication(&topic);
        publication.publisher = publisher;
        publication.beyond_quota = crate::state::is_of_own(it.session, (&self.state.sessions, &self.state.connections));
        publication.priority = self.router.cache.traits(it.slot).priority.level(it.properties);
        publishing!(self).retain_of(it.now, &mut publication, it.session)
    }
}

impl Answering<'_> {
    /// Whether a QoS 2 message of a broker is new; a repetition is only acknowledged again ([MQTT-4.3.3-10]).
    pub(crate) fn takes_packet_id(&mut self, session: SessionKey, id: PacketId) -> bool {
        self.state.sessions.take_packet_id(&mut self.state.journal, session, id)
    }

    /// Answers a QoS 2 message that repeats one whose packet id is taken, after the confirmations that are still open.
    pub(crate) fn answer_repetition(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        id: PacketId,
        waits: u32,
    ) {
        // The repeated message may have been written only just now.
        let stored = self.state.sessions.is_stored(session);
        self.answer(now, key, id, Answer::PubRec(Ok(ReasonCode::Success), None), waits, stored);
    }

    #[inline]
    pub(crate) fn answer_publish(
        &mut self,
        now: Now,
        key: ConnectionKey,
        raw: &RawPublish<'_>,
        (outcome, digest): (Outcome, Option<Digest>),
        waits: u32,
        mark: Mark,
    ) {
        let Some(id) = raw.packet_id else { return };
        let promises = self.state.journal.has_written_since(mark);
        let answer = match raw.qos {
            QoS::ExactlyOnce => Answer::PubRec(outcome, digest),
            _ => Answer::PubAck(outcome),
        };
        self.answer(now, key, id, answer, waits, promises);
    }

    /// A QoS 2 exchange that ends with an error code leaves its packet identifier free ([MQTT-4.3.3-9]). A message that
    /// others have got is kept in mind, since its client sends it again if the code is lost.
    pub(crate) fn forget_received(&mut self, key: ConnectionKey, id: PacketId, refused: Option<RefusedMessage>) {
        let Some(session) = self.state.connections.session_of(key) else { return };
        self.state.sessions.end_exchange(&mut self.state.exchanges, session, id);
        let Some(session) = self.state.sessions.get_mut(session.0) else { return };
        if !session.flow.as_mut().is_some_and(|flow| flow.received.remove(id)) {
            return;
        }
        if let Some(stored) = session.stored {
            self.state.journal.delete(Key::Received(stored, id));
        }
        if let Some(message) = refused {
            let listener = self.state.settings.listener(session.listener);
            // A client from another node keeps the Receive Maximum of its CONNACK.
            let promised = self.state.connections.get(key).and_then(Connection::promised);
            let most = listener.map_or(1, |listener| listener.receive_maximum);
            let most = usize::from(promised.map_or(most, |terms| most.max(terms.receive_maximum)));
            let stored = session.stored;
            session.rare_mut().refused.keep(&mut self.state.journal, stored, (id, message), most);
        }
    }
}

impl Parking<'_> {
    /// Subscriptions use the links like messages: a connection that fills them waits until they have drained.
    pub(crate) fn wait_for_full_links(&mut self, now: Now, key: ConnectionKey) {
        let full = self.links.roster.others().into_iter().filter(|shard| self.links.is_full(*shard));
        let full = full.fold(0, |bits, shard| bits | 1u64 << shard.0);
        if full != 0 {
            self.wait_for_links(now, key, full);
        }
    }

    /// The publisher waits until the links that it has filled have drained.
    #[cold]
    pub(crate) fn wait_for_links(&mut self, now: Now, key: ConnectionKey, mut full: u64) {
        self.state.reports().tell_delayed(Delay::Link, key);
        while full != 0 {
            let shard = ShardId(full.trailing_zeros() as u16);
            full &= full - 1;
            if self.links.wait(shard, key) {
                self.park(now, key);
            }
        }
    }
}

impl Publishing<'_> {
    /// Retains a message of a session, and reports a refusal for that session.
    pub(crate) fn retain_of(
        &mut self,
        now: Now,
        publication: &mut Publication<'_>,
        session: Option<SessionKey>,
    ) -> Option<Reason> {
        let refused = self.retain(now, publication, Some(now.monotonic));
        // The topic's home may be another shard, which refuses for the same reason and does not know the publisher.
        let told =
            refused.or_else(|| self.state.journal.has_no_room_to_retain(publication).then_some(Reason::StoreFull));
        if let Some((reason, session)) = told.zip(session) {
            self.state.reports().tell_denied(Attempt::Retain, session, publication.topic, reason);
        }
        refused
    }
}
