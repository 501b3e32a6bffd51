//! PUBLISH from a client: checks, aliases, exactly-once, and the way to its subscribers.

pub(crate) mod admission;
pub(crate) mod completion;
pub(crate) mod dead_letter;
pub(crate) mod deliver;
pub(crate) mod dispatch;
pub(crate) mod fan_out;
pub(crate) mod layouts;
pub(crate) mod origin;
mod store_full;
mod to_shell;
pub(crate) mod turn_share;
mod with_properties;

use tidegate_mqtt::{Frame, PacketId, QoS, RawPublish, ReasonCode, TopicName, Version};

use crate::connection::input::Refused;
use crate::connection::{Answer, Outcome};
use crate::durable::{Key, Mark};
use crate::engine::Engine;
use crate::event::{Attempt, Delay};
use crate::ids::{ConnectionKey, SessionKey, ShardId, TenantId};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::AtGate;
use crate::publish::admission::Admission;
use crate::publish::dispatch::{Source, reach};
use crate::telling::reason::Reason;
use crate::topics::RouteSlot;

/// What the properties of a PUBLISH say about passing it on.
pub(crate) struct Forwarding<'a> {
    pub(crate) properties: &'a [u8],
    expires_at: Millis,
}

impl Forwarding<'_> {
    /// The message as it goes on.
    #[inline]
    pub(crate) fn publication<'p>(&'p self, tenant: TenantId, topic: &'p str, raw: &RawPublish<'p>) -> Publication<'p> {
        Publication::new(tenant, topic, raw.qos, raw.retain, self.properties, self.expires_at, raw.payload, 0)
    }
}

impl Engine {
    #[inline]
    pub(crate) fn handle_publish(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let raw = RawPublish::decode(version, frame.first_byte, frame.body)?;
        if !self.fan_outs.is_empty() {
            self.finish_fan_out(now, key);
        }
        let Some(connection) = self.desk.connections.get(key) else { return Ok(()) };
        let Some(session) = connection.session else { return Ok(()) };
        let Some(listener) = self.desk.listener(connection.listener) else { return Ok(()) };
        let tenant = connection.tenant;
        if raw.qos > listener.maximum_qos {
            return Err(Refused::new(Reason::QosNotSupported, "the QoS is above the maximum"));
        }
        if raw.retain && !self.settings.retained.available {
            return Err(Refused::new(Reason::RetainNotSupported, "RETAIN is set"));
        }
        self.desk.counters.messages_in[raw.qos as usize] += 1;
        self.desk.counters.payload_bytes_in += raw.payload.len() as u64;
        if raw.qos != QoS::AtMostOnce {
            self.check_receive_maximum(key, session, version, &raw)?;
        }
        let fleet = self.desk.uplinks.is_on();
        if fleet && !self.is_repeated(session, &raw) {
            if self.desk.journal.full && (raw.qos != QoS::AtMostOnce || raw.retain) {
                // Brokers get all of it, and their queues are stored.
                self.refuse_for_full_store(now, key, &String::from_utf8_lossy(raw.topic), &raw);
                return Ok(());
            }
            match self.pass_gate(now, key, session, version, &raw) {
                AtGate::Open => {}
                AtGate::Over => return Ok(()),
                AtGate::Waits => {
                    self.hold_back(&raw);
                    return Ok(());
                }
            }
        }
        let tenant = if fleet { TenantId::UPLINK } else { tenant };
        if raw.properties.is_empty() && fleet {
            let slot = self.slot_of(tenant, raw.topic)?;
            let mut forwarded = std::mem::take(&mut self.scratch_properties);
            forwarded.clear();
            self.next_message_id(now, Some(session), raw.retain).append(&mut forwarded);
            let forwarding = Forwarding { properties: &forwarded, expires_at: Millis::NEVER };
            self.publish(now, key, session, tenant, slot, &raw, &forwarding);
            self.scratch_properties = forwarded;
            return Ok(());
        }
        if raw.properties.is_empty() {
            let slot = self.slot_of(tenant, raw.topic)?;
            if self.cache.traits(slot).is_for_hub {
                return self.publish_with_properties(now, key, session, tenant, &raw);
            }
            let forwarding = Forwarding { properties: &[], expires_at: self.expiry_of(now, slot, Millis::NEVER) };
            self.publish(now, key, session, tenant, slot, &raw, &forwarding);
            return Ok(());
        }
        self.publish_with_properties(now, key, session, tenant, &raw)
    }

    /// When a message expires for which its sender asks for `asked`: to mobile nodes, the broker has a word in it.
    #[inline]
    fn expiry_of(&self, now: Now, slot: RouteSlot, asked: Millis) -> Millis {
        let addresses = self.settings.addresses.as_ref().filter(|_| self.cache.traits(slot).is_address);
        addresses.map_or(asked, |addresses| addresses.expiry(now.monotonic, asked))
    }

    /// Whether it is a QoS 2 message that was taken before.
    fn is_repeated(&self, session: SessionKey, raw: &RawPublish<'_>) -> bool {
        let flow = self.desk.sessions.get(session.0).and_then(|session| session.flow.as_ref());
        raw.qos == QoS::ExactlyOnce
            && raw.packet_id.is_some_and(|id| flow.is_some_and(|flow| flow.received.contains(id)))
    }

    /// The route of a topic as it stands in a packet. A topic that is found in the cache is known to be valid.
    #[inline]
    pub(crate) fn slot_of(&mut self, tenant: TenantId, topic: &[u8]) -> Result<RouteSlot, Refused> {
        if let Some(slot) = self.cache.lookup(self.index.epoch(), tenant, topic) {
            return Ok(slot);
        }
        self.new_slot(tenant, topic)
    }

    fn new_slot(&mut self, tenant: TenantId, topic: &[u8]) -> Result<RouteSlot, Refused> {
        if topic.is_empty() {
            return Err(Refused::new(Reason::ProtocolError, "PUBLISH has neither a topic nor a topic alias"));
        }
        let name =
            TopicName::from_utf8(topic).map_err(|error| Refused::new(Reason::InvalidTopicName, error.to_string()))?;
        self.check_topic_levels(name.as_str())?;
        Ok(self.make_route(tenant, name.as_str()))
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
        let Some(listener) = self.desk.listener(connection.listener) else { return Ok(()) };
        let flow = self.desk.sessions.get(session.0).and_then(|session| session.flow.as_ref());
        let received = flow.map_or(0, |flow| flow.received.len().saturating_sub(flow.received_before));
        let acks = connection.extra.as_ref().map_or(0, |extra| extra.acks.pub_acks());
        if received + acks < usize::from(listener.receive_maximum) {
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

    #[expect(clippy::too_many_arguments, reason = "all of them are in registers on the hottest path")]
    #[inline]
    fn publish(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        tenant: TenantId,
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        forwarding: &Forwarding<'_>,
    ) {
        if self.waits_for_line(now, key, self.cache.get(slot).1.targets().len()) && !self.is_repeated(session, raw) {
            return self.hold_back(raw);
        }
        if self.goes_again(now, key, session, tenant, slot, raw, forwarding) {
            return;
        }
        let traits = self.cache.traits(slot);
        let is_short = raw.payload.len() <= self.settings.limits.max_payload;
        let may_wait = traits.may_reject || self.desk.journal.full || self.misses_somebody();
        if may_wait && is_short && self.is_kept_out(now, key, session, tenant, slot, raw, forwarding) {
            return;
        }
        if traits.are_for_shell() && is_short && self.ends_at_shell(now, key, session, tenant, slot, raw, forwarding) {
            return;
        }
        let mut ticket = None;
        let mark = self.desk.journal.mark();
        if let Some(id) = raw.packet_id {
            if raw.qos == QoS::ExactlyOnce && !self.is_first_receipt(now, key, session, id) {
                return;
            }
            ticket = Some(self.next_ticket(key));
        }
        let (topic, _) = self.cache.get(slot);
        let allowed = !is_own_topic(topic) && self.may_publish_to(key, session, slot, raw.qos, raw.retain);
        if !allowed || !is_short {
            let reason = if allowed { Reason::PayloadTooLong } else { Reason::NotAuthorized };
            return self.deny_publish(now, key, session, slot, raw, mark, reason);
        }
        let source = Source::client(self.place.shard, now, session, key, ticket);
        let mut refused = None;
        if raw.retain {
            refused = self.retain_published(now, slot, raw, forwarding, tenant, session);
        }
        self.begin_exchange(session, slot, raw, ticket);
        let first = self.first_receivers(now, key, raw, self.cache.get(slot).1.targets().len());
        let (topic, route) = self.cache.get(slot);
        let mut publication = forwarding.publication(tenant, topic, raw);
        publication.priority = traits.priority.level(forwarding.properties);
        let deliveries = route.targets().len();
        self.desk.gave_up = false;
        let done = reach!(self).dispatch_first(now, route, first, &mut publication, &source);
        self.links.exchange = None;
        self.desk.memory += self.fan_outs.begin(&mut publication, source, route, first);
        if let Some(share) = self.turn_share.charge(now, deliveries, &self.desk) {
            self.wait_for_next_turn(now, key, share);
        }
        self.charge_own_loop_lag(now, key, deliveries, raw.payload.len());
        let mut waits = u32::from(done.waits);
        if traits.are_for_shell() {
            waits += self.tell_shell_of(traits, tenant, session, slot, raw, forwarding, ticket);
        }
        if raw.packet_id.is_some() {
            let outcome = self.outcome_of(raw.qos, refused, done.reached || traits.are_for_shell());
            self.answer_publish(now, key, raw, outcome, waits, mark);
        }
        self.after_publish(now, key, tenant, done.full);
    }

    /// What a publisher is told of a message that has gone its way. A QoS 2 message that others have got may not come
    /// again, which an error would invite; so nobody is told of the one subscriber who did not get it.
    #[inline]
    pub(crate) fn outcome_of(&self, qos: QoS, refused: Option<Reason>, reached: bool) -> Outcome {
        let gave_up = self.desk.gave_up && qos == QoS::AtLeastOnce;
        let taken = if reached { ReasonCode::Success } else { ReasonCode::NoMatchingSubscribers };
        refused.or(gave_up.then_some(Reason::BlockedTooLong)).map_or(Ok(taken), Err)
    }

    /// What a message on its way may have filled.
    #[inline]
    fn after_publish(&mut self, now: Now, key: ConnectionKey, tenant: TenantId, full_links: u64) {
        if full_links != 0 {
            self.wait_for_links(now, key, full_links);
        }
        if tenant == TenantId::UPLINK {
            self.check_gate_now_and_then(now);
        }
    }

    /// Whether a message does not go its way now, since a queue has no room for it and rejects it, or the store has
    /// none.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "as for publishing it")]
    fn is_kept_out(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        tenant: TenantId,
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        forwarding: &Forwarding<'_>,
    ) -> bool {
        if tenant == TenantId::UPLINK {
            // The gate of the fleet has let it in.
            return false;
        }
        let topic = self.cache.get(slot).0.to_owned();
        let goes_on = raw.packet_id.is_none() || self.is_repeated(session, raw);
        if goes_on || is_own_topic(&topic) || !self.may_publish(session, &topic, raw.qos, raw.retain) {
            return false;
        }
        if self.would_miss_somebody(slot, tenant, raw.retain) {
            if self.wait_for_those_missed(now, key) {
                self.hold_back(raw);
            } else {
                self.send_back(now, key, &topic);
            }
            return true;
        }
        if !self.cache.traits(slot).may_reject && !self.desk.journal.full {
            return false;
        }
        let properties = forwarding.properties;
        let expires_at = forwarding.expires_at;
        let publication = Publication::new(tenant, &topic, raw.qos, raw.retain, properties, expires_at, raw.payload, 0);
        if self.desk.journal.full && self.has_to_be_stored(session, slot, &publication, raw) {
            self.refuse_for_full_store(now, key, &topic, raw);
            return true;
        }
        match self.admit(now, key, session, slot, &publication) {
            Admission::Open => return false,
            Admission::StoreFull => self.refuse_for_full_store(now, key, &topic, raw),
            Admission::Refused(reason) => {
                let mark = self.desk.journal.mark();
                self.answer_publish(now, key, raw, Err(reason), 0, mark);
            }
            Admission::Over => {}
            Admission::Waits => self.hold_back(raw),
        }
        true
    }

    #[cold]
    #[expect(clippy::too_many_arguments, reason = "as for publishing it")]
    fn deny_publish(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        mark: Mark,
        reason: Reason,
    ) {
        self.desk.counters.drop_message(reason);
        self.charge_own_loop_lag(now, key, 0, raw.payload.len());
        let topic = self.cache.get(slot).0;
        self.desk.tell_denied(Attempt::Publish, session, topic, reason);
        self.answer_publish(now, key, raw, Err(reason), 0, mark);
    }

    /// The message at hand is the first of those that wait with their publisher. It is counted when it comes again.
    #[cold]
    pub(crate) fn hold_back(&mut self, raw: &RawPublish<'_>) {
        self.held_back = true;
        self.desk.counters.messages_in[raw.qos as usize] -= 1;
        self.desk.counters.payload_bytes_in -= raw.payload.len() as u64;
    }

    #[cold]
    pub(crate) fn retain_published(
        &mut self,
        now: Now,
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        forwarding: &Forwarding<'_>,
        tenant: TenantId,
        session: SessionKey,
    ) -> Option<Reason> {
        if tenant == TenantId::UPLINK && self.desk.uplinks.brokers_decide() {
            return None;
        }
        let topic = self.cache.get(slot).0.to_owned();
        let publisher = self
            .desk
            .sessions
            .get(session.0)
            .map_or(0, |session| crate::hash::hash_name(session.tenant, &session.client_id));
        let mut publication = Publication::new(
            tenant,
            &topic,
            raw.qos,
            true,
            forwarding.properties,
            forwarding.expires_at,
            raw.payload,
            publisher,
        );
        publication.priority = self.cache.traits(slot).priority.level(forwarding.properties);
        self.retain_of(now, &mut publication, Some(session))
    }

    /// Retains a message of a session, which is told where it is not.
    pub(crate) fn retain_of(
        &mut self,
        now: Now,
        publication: &mut Publication<'_>,
        session: Option<SessionKey>,
    ) -> Option<Reason> {
        let refused = self.retain(now, publication);
        // The topic's home may be elsewhere, where it is refused for the same reason and nobody knows the publisher.
        let told = refused.or_else(|| self.has_no_room_to_retain(publication).then_some(Reason::StoreFull));
        if let Some((reason, session)) = told.zip(session) {
            self.desk.tell_denied(Attempt::Retain, session, publication.topic, reason);
        }
        refused
    }

    /// Whether a QoS 2 message is new; a repetition is only acknowledged again ([MQTT-4.3.3-10]).
    pub(crate) fn is_first_receipt(&mut self, now: Now, key: ConnectionKey, session: SessionKey, id: PacketId) -> bool {
        let Some(session) = self.desk.sessions.get_mut(session.0) else { return false };
        let stored = session.stored;
        if session.flow_mut().received.insert(id) {
            if let Some(stored) = stored {
                self.desk.journal.put_received(stored, id, None);
            }
            return true;
        }
        let pending = self
            .desk
            .connections
            .get(key)
            .and_then(|connection| connection.extra.as_ref())
            .is_some_and(|extra| extra.acks.has_pub_rec(id));
        if !pending {
            // What it repeats may have been written only just now.
            self.answer(now, key, id, Answer::PubRec(Ok(ReasonCode::Success)), 0, stored.is_some());
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
        let Some(session) = self.desk.session_of(key) else { return };
        self.desk.end_exchange(session, id);
        let Some(session) = self.desk.sessions.get_mut(session.0) else { return };
        let known = session.flow.as_mut().is_some_and(|flow| flow.received.remove(id));
        if let Some(stored) = session.stored.filter(|_| known) {
            self.desk.journal.delete(Key::Received(stored, id));
        }
    }

    /// Subscriptions go over the links as messages do: whoever fills them waits until they have drained.
    pub(crate) fn wait_for_full_links(&mut self, now: Now, key: ConnectionKey) {
        let full = self.roster.others().into_iter().filter(|shard| self.links.is_full(*shard));
        let full = full.fold(0, |bits, shard| bits | 1u64 << shard.0);
        if full != 0 {
            self.wait_for_links(now, key, full);
        }
    }

    /// The publisher waits until the links that it has filled have drained.
    #[cold]
    pub(crate) fn wait_for_links(&mut self, now: Now, key: ConnectionKey, mut full: u64) {
        self.desk.tell_delayed(Delay::Link, key);
        while full != 0 {
            let shard = ShardId(full.trailing_zeros() as u16);
            full &= full - 1;
            if self.links.wait(shard, key) {
                self.park(now, key);
            }
        }
    }
}

/// Whether only the broker itself publishes to a topic. Clients may to `$SYS/broker/connection/NAME/state`: there a
/// bridge tells both of its brokers whether it is connected, by its will, too, so that one that might not would never
/// come in.
#[inline]
pub(crate) fn is_own_topic(topic: &str) -> bool {
    (topic.starts_with("$SYS/") || topic == "$SYS") && !is_bridge_state(topic)
}

#[cold]
fn is_bridge_state(topic: &str) -> bool {
    let name = topic.strip_prefix("$SYS/broker/connection/").and_then(|rest| rest.strip_suffix("/state"));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}
