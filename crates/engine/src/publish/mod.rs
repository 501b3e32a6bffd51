//! PUBLISH from a client: `handle_publish` checks it and finds its topic, `stages` decide about it, `pipeline` acts on
//! what they answer and routes it, `dispatch` and `deliver` take it to its subscribers, `completion` answers it.

pub(crate) mod admission;
pub(crate) mod answering;
pub(crate) mod completion;
pub(crate) mod dead_letter;
pub(crate) mod deciding;
pub(crate) mod deliver;
pub(crate) mod dispatch;
pub(crate) mod fan_out;
pub(crate) mod inbound;
pub(crate) mod layouts;
pub(crate) mod origin;
pub(crate) mod pipeline;
pub(crate) mod publishing;
pub(crate) mod stages;
pub(crate) mod turn_share;
mod with_properties;

use crate::connection::parking::Parking;
use crate::durable::{Journal, Key, Mark};
use crate::publish::answering::Answering;
use crate::publish::deciding::Deciding;
use crate::publish::publishing::{Publishing, publishing};
use crate::session::table::Sessions;
use tidegate_mqtt::{Frame, PacketId, QoS, RawPublish, ReasonCode, TopicName, Version};

use crate::connection::input::Refused;
use crate::connection::table::Connections;
use crate::connection::{Answer, Outcome};
use crate::engine::Engine;
use crate::event::{Attempt, Delay};
use crate::ids::{ConnectionKey, SessionKey, ShardId, TenantId};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::publish::inbound::Inbound;
use crate::publish::pipeline::Progress;
use crate::session::Flow;
use crate::telling::reason::Reason;
use crate::topics::RouteSlot;

impl Engine {
    /// Takes a PUBLISH packet: checks what the protocol and the listener allow, finds its topic, and hands it to the
    /// pipeline.
    #[inline]
    pub(crate) fn handle_publish(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<Progress, Refused> {
        let raw = RawPublish::decode(version, frame.first_byte, frame.body)?;
        if !self.fan_outs.is_empty() {
            self.finish_fan_out(now, key);
        }
        let Some(connection) = self.desk.connections.get(key) else { return Ok(Progress::Taken) };
        let Some(session) = connection.session else { return Ok(Progress::Taken) };
        let Some(listener) = self.desk.settings.listener(connection.listener) else { return Ok(Progress::Taken) };
        let (tenant, payer) = (connection.tenant, connection.payer);
        if raw.qos > listener.maximum_qos {
            return Err(Refused::new(Reason::QosNotSupported, "the QoS is above the maximum"));
        }
        if raw.retain && !self.settings.retained.available {
            return Err(Refused::new(Reason::RetainNotSupported, "RETAIN is set"));
        }
        self.desk.counters.messages_in[raw.qos as usize] += 1;
        self.desk.counters.payload_bytes_in += raw.payload.len() as u64;
        self.desk.meters.of(payer).messages_in += 1;
        if raw.qos != QoS::AtMostOnce {
            self.check_receive_maximum(key, session, version, &raw)?;
        }
        if raw.properties.is_empty() && !self.uplinks.brokers.config.is_on() {
            let slot = match self.cache.lookup(self.index.epoch(), tenant, raw.topic) {
                Some(slot) => slot,
                // The context is made for a new topic only: it costs as much as the look-up.
                None => publishing!(self).new_slot(tenant, raw.topic)?,
            };
            if !self.cache.traits(slot).is_for_hub {
                let expires_at = self.expiry_of(now, slot, Millis::NEVER);
                let (raw, session, unknown_receipts) = (&raw, Some(session), false);
                let it =
                    Inbound { now, key, session, tenant, slot, raw, properties: &[], expires_at, unknown_receipts };
                return Ok(self.publish(&it));
            }
        }
        let mut properties = std::mem::take(&mut self.scratch_properties);
        properties.clear();
        let progress =
            self.publish_with_properties(now, (key, Some(session), tenant), &raw, Millis::NEVER, &mut properties);
        self.scratch_properties = properties;
        progress
    }

    /// When a message expires for which its sender asks for `asked`: to mobile nodes, the broker has a word in it.
    #[inline]
    fn expiry_of(&self, now: Now, slot: RouteSlot, asked: Millis) -> Millis {
        let addresses = self.settings.addresses.as_ref().filter(|_| self.cache.traits(slot).is_address);
        addresses.map_or(asked, |addresses| addresses.expiry(now.monotonic, asked))
    }

    /// More messages under way than the client was told it may have ([MQTT-3.3.4-7]).
    fn check_receive_maximum(
        &mut self,
        key: ConnectionKey,
        session: SessionKey,
        version: Version,
        raw: &RawPublish<'_>,
    ) -> Result<(), Refused> {
        if !version.is_v5() {
            return Ok(());
        }
        let Some(connection) = self.desk.connections.get(key) else { return Ok(()) };
        let Some(listener) = self.desk.settings.listener(connection.listener) else { return Ok(()) };
        let flow = self.desk.sessions.get(session.0).and_then(|session| session.flow.as_deref());
        if self.desk.connections.unacknowledged(key, flow) < usize::from(listener.receive_maximum) {
            return Ok(());
        }
        // A repetition of what is under way already is not one more.
        if flow.is_some_and(|flow| raw.packet_id.is_some_and(|id| flow.received.contains(id))) {
            return Ok(());
        }
        if listener.receive_maximum_lenient {
            self.desk.counters.receive_maximum_tolerated += 1;
            return Ok(());
        }
        Err(Refused::new(
            Reason::ReceiveMaximumExceeded,
            format!("more than {} messages unacknowledged", listener.receive_maximum),
        ))
    }
}

impl Publishing<'_> {
    /// The route of a topic as it stands in a packet. A topic that is found in the cache is known to be valid.
    #[inline]
    pub(crate) fn slot_of(&mut self, tenant: TenantId, topic: &[u8]) -> Result<RouteSlot, Refused> {
        if let Some(slot) = self.cache.lookup(self.index.epoch(), tenant, topic) {
            return Ok(slot);
        }
        self.new_slot(tenant, topic)
    }

    #[cold]
    fn new_slot(&mut self, tenant: TenantId, topic: &[u8]) -> Result<RouteSlot, Refused> {
        if topic.is_empty() {
            return Err(Refused::new(Reason::ProtocolError, "PUBLISH has neither a topic nor a topic alias"));
        }
        let name =
            TopicName::from_utf8(topic).map_err(|error| Refused::new(Reason::InvalidTopicName, error.to_string()))?;
        self.desk.settings.check_topic_levels(name.as_str())?;
        Ok(publishing!(self).make_route(tenant, name.as_str()))
    }
}

impl Deciding<'_> {
    /// Retains a message that is on its way in.
    #[cold]
    fn retain_inbound(&mut self, it: &Inbound<'_>) -> Option<Reason> {
        if it.tenant == TenantId::UPLINK && self.uplinks.brokers.config.brokers_decide() {
            return None;
        }
        let topic = self.cache.topic_of(it);
        let publisher = self.publisher_of(it).map_or(0, |(tenant, name)| crate::ids::hash_name(tenant, name));
        let mut publication = it.publication(&topic);
        publication.publisher = publisher;
        publication.priority = self.cache.traits(it.slot).priority.level(it.properties);
        publishing!(self).retain_of(it.now, &mut publication, it.session)
    }
}

impl Answering<'_> {
    /// Whether a QoS 2 message of a broker is new; a repetition is only acknowledged again ([MQTT-4.3.3-10]).
    pub(crate) fn is_first_receipt(&mut self, now: Now, key: ConnectionKey, session: SessionKey, id: PacketId) -> bool {
        if self.desk.sessions.take_packet_id(&mut self.desk.journal, session, id) {
            return true;
        }
        let extra = self.desk.connections.get(key).and_then(|connection| connection.extra.as_ref());
        if !extra.is_some_and(|extra| extra.acks.has_pub_rec(id)) {
            // What it repeats may have been written only just now.
            let stored = self.desk.sessions.is_stored(session);
            self.answer(now, key, id, Answer::PubRec(Ok(ReasonCode::Success)), 0, stored);
        }
        false
    }

    #[inline]
    pub(crate) fn answer_publish(
        &mut self,
        now: Now,
        key: ConnectionKey,
        raw: &RawPublish<'_>,
        outcome: Outcome,
        waits: u32,
        mark: Mark,
    ) {
        let Some(id) = raw.packet_id else { return };
        let promises = self.desk.journal.has_written_since(mark);
        let answer = match raw.qos {
            QoS::ExactlyOnce => Answer::PubRec(outcome),
            _ => Answer::PubAck(outcome),
        };
        self.answer(now, key, id, answer, waits, promises);
    }

    /// A QoS 2 exchange that ends with an error code leaves its packet identifier free ([MQTT-4.3.3-9]).
    pub(crate) fn forget_received(&mut self, key: ConnectionKey, id: PacketId) {
        let Some(session) = self.desk.connections.session_of(key) else { return };
        self.desk.sessions.end_exchange(&mut self.desk.exchanges, session, id);
        let Some(session) = self.desk.sessions.get_mut(session.0) else { return };
        let known = session.flow.as_mut().is_some_and(|flow| flow.received.remove(id));
        if let Some(stored) = session.stored.filter(|_| known) {
            self.desk.journal.delete(Key::Received(stored, id));
        }
    }
}

impl Parking<'_> {
    /// Subscriptions go over the links as messages do: whoever fills them waits until they have drained.
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
        self.desk.reports().tell_delayed(Delay::Link, key);
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
    /// Retains a message of a session, which is told where it is not.
    pub(crate) fn retain_of(
        &mut self,
        now: Now,
        publication: &mut Publication<'_>,
        session: Option<SessionKey>,
    ) -> Option<Reason> {
        let refused = self.retain(now, publication);
        // The topic's home may be elsewhere, where it is refused for the same reason and nobody knows the publisher.
        let told =
            refused.or_else(|| self.desk.journal.has_no_room_to_retain(publication).then_some(Reason::StoreFull));
        if let Some((reason, session)) = told.zip(session) {
            self.desk.reports().tell_denied(Attempt::Retain, session, publication.topic, reason);
        }
        refused
    }
}

impl Connections {
    /// Messages above QoS 0 that a connection has sent and that count against its Receive Maximum. `flow` is that of its
    /// session.
    pub(crate) fn unacknowledged(&self, key: ConnectionKey, flow: Option<&Flow>) -> usize {
        let received = flow.map_or(0, |flow| flow.received.len().saturating_sub(flow.received_before));
        let extra = self.get(key).and_then(|connection| connection.extra.as_ref());
        received + extra.map_or(0, |extra| extra.acks.pub_acks())
    }
}

impl Sessions {
    /// The packet identifier of a QoS 2 message is taken; false if it was before.
    pub(crate) fn take_packet_id(&mut self, journal: &mut Journal, session: SessionKey, id: PacketId) -> bool {
        let Some(session) = self.get_mut(session.0) else { return false };
        let is_new = session.flow_mut().received.insert(id);
        if let Some(stored) = session.stored.filter(|_| is_new) {
            journal.put_received(stored, id, None);
        }
        is_new
    }
}
