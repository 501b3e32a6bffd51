//! A message of a broker comes in. Contexts are made for its rare cases only: each message passes here.

use crate::connection::Phase;
use crate::engine::facets::FleetCalls;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::broker_link::adopted::FromBroker;
use crate::flows::contexts::answering;
use crate::flows::contexts::broker_linking;
use crate::flows::contexts::moving;
use crate::flows::contexts::parking;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::{BrokerLinkKey, ConnectionKey, SessionKey, TenantId};
use crate::image::handover::Handover;
use crate::link::envelope::Ticket;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::BrokerLink;
use crate::orchestrator::broker_link::adopted::keeper_of;
use crate::orchestrator::broker_link::id::{MessageId, PROPERTY};
use crate::publish::dispatch::Source;
use crate::publish::unacknowledged;
use crate::session::Flow;
use crate::settings::Settings;
use crate::settings::fleet_topics::{is_of_tenant, of_brokers};
use crate::state::ShardState;
use crate::state::pub_acks::Gathered;
use crate::topics::{RouteSlot, is_own_topic};
use tidegate_mqtt::{Frame, PacketType, PublishProperties, QoS, RawPublish, ReasonCode, Version, split_frame};

impl FleetCalls<'_> {
    /// Takes a PUBLISH from a broker, and plain ones directly behind it in the input, as long as they have no consequences
    /// for other connections. Returns the number of these, and their bytes: each costs 250 instructions less than alone.
    pub(crate) fn receive_from_broker(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
        behind: &[u8],
    ) -> Result<(u32, usize), Refused> {
        let mut raw = RawPublish::decode(version, frame.first_byte, frame.body)?;
        let Some(broker_link) = self.engine.broker_links.brokers.of_connection(key) else { return Ok((0, 0)) };
        let max = self.engine.broker_links.brokers.config.max_packet_size();
        let (mut further, mut len, mut next_len) = (0, 0, 0);
        let mut last = None;
        while self.receive_plain(now, (key, broker_link), &raw, &mut last)? {
            if next_len > 0 {
                (further, len) = (further + 1, len + next_len);
                self.engine.state.counters.packets_in[PacketType::Publish as usize] += 1;
            }
            if self.engine.questions().has_consequences() || self.engine.broker_links.settlement.has_undecided() {
                return Ok((further, len));
            }
            let next = split_frame(&behind[len..], max).ok().flatten();
            let next = next.filter(|next| next.packet_type() == PacketType::Publish);
            let Some((next, decoded)) =
                next.and_then(|next| Some((next, RawPublish::decode(version, next.first_byte, next.body).ok()?)))
            else {
                return Ok((further, len));
            };
            (raw, next_len) = (decoded, next.total_len);
        }
        if next_len == 0 {
            self.receive_any(now, (key, broker_link), &raw)?;
        }
        Ok((further, len))
    }

    /// Takes a message as nearly all are: not retained, with an id and nothing else, to a known topic, while no partition
    /// moves. Returns false, without any effect, for another message. Apart from [`FleetCalls::receive_any`], whose many
    /// cases cost each message 300 instructions. `last` is the route of the last message, which nearly all messages of a
    /// busy topic share with the one before.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 30 instructions")]
    #[inline(always)]
    fn receive_plain<'a>(
        &mut self,
        now: Now,
        (key, broker_link): (ConnectionKey, BrokerLinkKey),
        raw: &RawPublish<'a>,
        last: &mut Option<(&'a [u8], RouteSlot)>,
    ) -> Result<bool, Refused> {
        let engine = &mut *self.engine;
        let links = &mut engine.broker_links;
        let is_plain = !raw.retain && raw.qos != QoS::ExactlyOnce && !is_of_tenant(raw.topic);
        if !is_plain || !engine.handover.is_idle() || !links.brokers.flawed.is_empty() {
            return Ok(false);
        }
        let from = links.brokers.all.get_mut(&broker_link).filter(|from| from.adopted.is_none());
        let (Some(from), Some(connection)) = (from, engine.state.connections.get(key)) else { return Ok(false) };
        let is_open = connection.phase == Phase::Open && !connection.is_parked();
        let Some(session) = connection.session.filter(|_| is_open) else { return Ok(false) };
        let id = links.settlement.brought.alone_in(raw.properties).filter(|id| !id.retain);
        let slot = match *last {
            Some((topic, slot)) if topic == raw.topic => Some(slot),
            _ => engine.router.cache.lookup(engine.router.index.epoch(), TenantId::DEFAULT, raw.topic),
        };
        let (Some(id), Some(slot)) = (id, slot) else { return Ok(false) };
        *last = Some((raw.topic, slot));
        let topic = engine.router.cache.get(slot).0;
        if engine.state.settings.is_kept_from_brokers(topic) {
            return Ok(false);
        }
        let unacknowledged = if raw.packet_id.is_some() {
            let flow = engine.state.sessions.get(session.0).and_then(|session| session.flow.as_deref());
            if flow.is_some_and(|flow| !flow.received.is_empty()) {
                return Ok(false);
            }
            Some(unacknowledged(connection, None))
        } else {
            None
        };
        let mark = engine.state.journal.mark();
        from.counters.note_received(unacknowledged)?;
        if unacknowledged.is_some() && id.origin == links.origin {
            from.last_own = from.last_own.max(id.number);
        }
        let waits = if links.settlement.seen.insert(&id) {
            self.deliver_plain(now, (key, session), slot, raw, &id)
        } else {
            from.counters.duplicates += 1;
            0
        };
        let engine = &mut *self.engine;
        let (state, layouts, links) = (&mut engine.state, &mut engine.layouts, &mut engine.broker_links);
        links.settlement.note_come(now, state, layouts, &mut links.brokers, Some(&id));
        let is_open = waits > 0 || links.is_confirming();
        if unacknowledged.is_some() && (is_open || !Gathered(&mut engine.state).gather(key, raw, mark)) {
            answering!(engine).answer_publish(now, key, raw, (Ok(ReasonCode::Success), None), waits, mark);
        }
        Ok(true)
    }

    /// Delivers a plain message that has not come before; returns how many confirmations its acknowledgement waits for.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 30 instructions")]
    #[inline(always)]
    fn deliver_plain(
        &mut self,
        now: Now,
        (key, session): (ConnectionKey, SessionKey),
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        id: &MessageId,
    ) -> u32 {
        let engine = &mut *self.engine;
        let (topic, route) = engine.router.cache.get(slot);
        if !route.is_local() {
            return self.deliver_beyond(now, (key, session), slot, raw, id);
        }
        let (qos, payload) = (raw.qos, raw.payload);
        let mut publication =
            Publication::new(TenantId::DEFAULT, topic, qos, false, &[], Millis::NEVER, payload, id.publisher);
        publication.priority = engine.router.cache.traits(slot).priority.level(&[]);
        let source = Source::publisher_here(engine.links.place.shard, now, Some(session), key, None);
        let targets = route.targets();
        reach!(engine).dispatch_local(now, route, targets, &mut publication, &source);
        if let Some(share) = engine.turn_share.charge(now, targets.len(), &engine.state) {
            parking!(engine).wait_for_next_turn(now, key, share);
        }
        0
    }

    /// Delivers a plain message to groups and other shards as well.
    #[inline(never)]
    fn deliver_beyond(
        &mut self,
        now: Now,
        (key, session): (ConnectionKey, SessionKey),
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        id: &MessageId,
    ) -> u32 {
        let ticket = raw.packet_id.map(|_| self.engine.state.connections.next_ticket(key));
        let given = Given { properties: &[], expires_at: Millis::NEVER, retain: false };
        let waits = self.give_out(now, (key, session, ticket), (TenantId::DEFAULT, slot), raw, &given, Some(*id));
        if let Some(packet_id) = raw.packet_id.filter(|_| waits > 0) {
            self.engine.broker_links.settlement.begin_confirming(&mut self.engine.state, key, packet_id, id);
        }
        waits
    }

    /// Takes any message of a broker.
    #[inline(never)]
    fn receive_any(
        &mut self,
        now: Now,
        (key, broker_link): (ConnectionKey, BrokerLinkKey),
        raw: &RawPublish<'_>,
    ) -> Result<(), Refused> {
        let Some(from) = self.engine.broker_links.brokers.all.get_mut(&broker_link) else { return Ok(()) };
        check_room_for_members(&self.engine.handover, from, raw)?;
        let Some(session) = self.engine.state.connections.session_of(key) else { return Ok(()) };
        let alone = self.engine.broker_links.settlement.brought.alone_in(raw.properties);
        let properties =
            if alone.is_some() { PublishProperties::default() } else { PublishProperties::decode(raw.properties)? };
        if properties.topic_alias.is_some() {
            return Err(Refused::new(Reason::InvalidTopicAlias, "the broker uses a topic alias, and was offered none"));
        }
        let id = if alone.is_some() { alone } else { MessageId::of(&properties) };
        let mark = self.engine.state.journal.mark();
        if let Some(packet_id) = raw.packet_id.filter(|_| !raw.dup) {
            self.engine.state.sessions.forget_receipt(&mut self.engine.state.journal, session, packet_id);
        }
        count_received(raw, from, &self.engine.state, (key, session))?;
        let is_adopted = from.adopted.is_some();
        let former = from.adopted.as_ref().map_or_else(Vec::new, |adopted| adopted.transfers.clone());
        let ticket = raw.packet_id.map(|_| self.engine.state.connections.next_ticket(key));
        self.engine.handover.begin_message(now, &mut self.engine.state.journal, former, ticket);
        let message = FromBroker { key, broker_link, raw, properties: &properties, id: id.as_ref() };
        if let Some(packet_id) = raw.packet_id.filter(|_| raw.qos == QoS::ExactlyOnce)
            && !answering!(self.engine).takes_packet_id(session, packet_id)
            // A message that has not come has this packet id after another member has continued the session.
            && (is_adopted || id.as_ref().is_none_or(|id| self.engine.broker_links.settlement.has_seen(id)))
        {
            broker_linking!(self.engine).take_repetition(now, session, packet_id, &message);
            return Ok(());
        }
        self.engine.broker_links.brokers.note_brought(broker_link, raw.topic);
        self.note_own(broker_link, raw, id.as_ref());
        let new = self.note_seen(broker_link, raw, &properties, id.as_ref());
        let outcome = if new {
            let outcome = self.pass_on_new(now, (key, session, ticket), (raw, &properties), id);
            let waits = *outcome.as_ref().unwrap_or(&0);
            if let (Some(id), Some(packet_id), QoS::AtLeastOnce) = (&id, raw.packet_id.filter(|_| waits > 0), raw.qos) {
                self.engine.broker_links.settlement.begin_confirming(&mut self.engine.state, key, packet_id, id);
            }
            outcome
        } else {
            message.forward_again(&mut broker_linking!(self.engine), now);
            broker_linking!(self.engine).take_duplicate(now, &message);
            Ok(0)
        };
        let mut waits = self.engine.handover.end_message();
        if is_adopted {
            waits += u32::from(message.note_for_members(&mut broker_linking!(self.engine), now));
        }
        let (state, layouts) = (&mut self.engine.state, &mut self.engine.layouts);
        let brokers = &mut self.engine.broker_links.brokers;
        self.engine.broker_links.settlement.note_come(now, state, layouts, brokers, id.as_ref());
        waits += outcome?;
        if raw.packet_id.is_some() {
            answering!(self.engine).answer_publish(now, key, raw, (Ok(ReasonCode::Success), None), waits, mark);
        }
        Ok(())
    }

    /// Delivers a message of a broker that has not come before; returns how many confirmations its acknowledgement waits
    /// for.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 30 instructions")]
    #[inline(always)]
    fn pass_on_new(
        &mut self,
        now: Now,
        by: (ConnectionKey, SessionKey, Option<Ticket>),
        (raw, properties): (&RawPublish<'_>, &PublishProperties<'_>),
        id: Option<MessageId>,
    ) -> Result<u32, Refused> {
        if properties.raw.is_empty() {
            return self.pass_on(now, by, raw, (&[], Millis::NEVER), id);
        }
        let mut forwarded = std::mem::take(&mut self.engine.layouts.properties);
        forwarded.clear();
        properties.copy_forwardable_without(&[PROPERTY], &mut forwarded);
        let expires_at = properties.message_expiry.map_or(Millis::NEVER, |seconds| now.monotonic.plus_seconds(seconds));
        let outcome = self.pass_on(now, by, raw, (&forwarded, expires_at), id);
        self.engine.layouts.properties = forwarded;
        outcome
    }

    /// Notes a message of this shard that has returned in the order in which the broker has got messages.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 30 instructions")]
    #[inline(always)]
    fn note_own(&mut self, broker_link: BrokerLinkKey, raw: &RawPublish<'_>, id: Option<&MessageId>) {
        let own =
            id.filter(|id| id.origin == self.engine.broker_links.origin && raw.packet_id.is_some() && !raw.retain);
        if let Some(id) = own
            && let Some(broker_link) = self.engine.broker_links.brokers.all.get_mut(&broker_link)
        {
            broker_link.last_own = broker_link.last_own.max(id.number);
        }
    }

    /// Notes a received message; returns whether it is new.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 30 instructions")]
    #[inline(always)]
    fn note_seen(
        &mut self,
        broker_link: BrokerLinkKey,
        raw: &RawPublish<'_>,
        properties: &PublishProperties<'_>,
        id: Option<&MessageId>,
    ) -> bool {
        let brokers = &mut self.engine.broker_links.brokers;
        let Some(id) = id else {
            return brokers
                .all
                .get_mut(&broker_link)
                .is_none_or(|broker_link| !broker_link.last.is_copy(raw, properties));
        };
        let new = self.engine.broker_links.settlement.seen.insert(id);
        if new && raw.qos == QoS::ExactlyOnce {
            let keeper = keeper_of(&brokers.all, broker_link);
            if let Some(broker_link) = brokers.all.get_mut(&keeper) {
                broker_link.keep_id(&mut self.engine.state, broker_link.session, raw.qos, id);
            }
        }
        new
    }

    /// Delivers a message of a broker; returns how many confirmations its acknowledgement waits for.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 30 instructions")]
    #[inline(always)]
    fn pass_on(
        &mut self,
        now: Now,
        (key, session, ticket): (ConnectionKey, SessionKey, Option<Ticket>),
        raw: &RawPublish<'_>,
        (properties, expires_at): (&[u8], Millis),
        id: Option<MessageId>,
    ) -> Result<u32, Refused> {
        // Without such a tenant, no client here wants it.
        let Some((tenant, topic)) = owner_of_raw(&self.engine.state.settings, raw.topic)? else { return Ok(0) };
        let slot = match self.engine.router.cache.lookup(self.engine.router.index.epoch(), tenant, topic) {
            Some(slot) => slot,
            None => match publishing!(self.engine).new_slot(tenant, topic) {
                Err(refused) => return self.pass_over(key, refused),
                Ok(slot) => slot,
            },
        };
        if self.is_left_out(slot) {
            return Ok(0);
        }
        // A broker's retained messages come with RETAIN; the id of a live message says whether to retain it.
        let kept_there = raw.retain;
        let retain = kept_there || id.is_some_and(|id| id.retain);
        if kept_there && publishing!(self.engine).ask_home(now, key, raw, (properties, expires_at), id, ticket) {
            return Ok(u32::from(ticket.is_some()));
        }
        if retain && !publishing!(self.engine).takes_over(now, raw, (properties, expires_at), id) && kept_there {
            return Ok(0);
        }
        if !kept_there
            && self.engine.handover.concerns(id.as_ref())
            && self.attend_moves(now, slot, raw, (properties, expires_at, retain), id.as_ref())
        {
            return Ok(0);
        }
        Ok(self.give_out(
            now,
            (key, session, ticket),
            (tenant, slot),
            raw,
            &Given { properties, expires_at, retain },
            id,
        ))
    }

    /// Gives a message of a broker to the sessions and groups of this shard, and to other shards; returns how many
    /// confirmations its acknowledgement waits for.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 30 instructions")]
    #[inline(always)]
    fn give_out(
        &mut self,
        now: Now,
        (key, session, ticket): (ConnectionKey, SessionKey, Option<Ticket>),
        (tenant, slot): (TenantId, RouteSlot),
        raw: &RawPublish<'_>,
        &Given { properties, expires_at, retain }: &Given<'_>,
        id: Option<MessageId>,
    ) -> u32 {
        let (kept_there, publisher) = (raw.retain, id.map_or(0, |id| id.publisher));
        let (topic, route) = self.engine.router.cache.get(slot);
        let mut publication =
            Publication::new(tenant, topic, raw.qos, retain, properties, expires_at, raw.payload, publisher);
        publication.priority = self.engine.router.cache.traits(slot).priority.level(properties);
        publication.retain_is_done = retain;
        publication.version = id.filter(|_| retain && !kept_there).map_or(0, |id| id.version());
        publication.from_retained = kept_there;
        let source = Source::publisher_here(self.engine.links.place.shard, now, Some(session), key, ticket);
        let deliveries = route.targets().len();
        let done = reach!(self.engine).dispatch_first(now, route, usize::MAX, &mut publication, &source);
        if kept_there {
            reach!(self.engine).tell_found(&mut publication, &source);
        }
        if let Some(share) = self.engine.turn_share.charge(now, deliveries, &self.engine.state) {
            parking!(self.engine).wait_for_next_turn(now, key, share);
        }
        if done.full != 0 {
            parking!(self.engine).wait_for_links(now, key, done.full);
        }
        if raw.packet_id.is_some() { u32::from(done.waits) } else { 0 }
    }

    /// A message whose topic has no route is acknowledged and dropped if its topic is the cause. The broker may have wider
    /// limits, or have changed the topic, as RabbitMQ makes a `+` of a `*`. It would bring the message again on each
    /// connection.
    #[cold]
    fn pass_over(&mut self, key: ConnectionKey, refused: Refused) -> Result<u32, Refused> {
        if !matches!(refused.reason, Reason::TopicTooDeep | Reason::TopicTooLong | Reason::InvalidTopicName) {
            return Err(refused);
        }
        self.engine.state.counters.drop_message(refused.reason);
        let error = format!("the broker has brought a message whose topic cannot be used: {}", refused.detail);
        self.engine.broker_links.brokers.note_broker_link_error(key, error);
        Ok(0)
    }

    /// Notes a message for partitions that move; returns whether they alone want it.
    #[cold]
    fn attend_moves(
        &mut self,
        now: Now,
        slot: RouteSlot,
        raw: &RawPublish<'_>,
        (properties, expires_at, retain): (&[u8], Millis, bool),
        id: Option<&MessageId>,
    ) -> bool {
        // Notes for others have the topic of brokers.
        let Ok(topic) = std::str::from_utf8(raw.topic) else { return true };
        let (tenant, publisher) = (TenantId::DEFAULT, id.map_or(0, |id| id.publisher));
        let mut own = Publication::new(tenant, topic, raw.qos, retain, properties, expires_at, raw.payload, publisher);
        own.priority = self.engine.router.cache.traits(slot).priority.level(properties);
        moving!(self.engine).attend_moves(now, slot, id, &own.keep())
    }

    /// Whether a message of a broker is not delivered here because of its topic.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 30 instructions")]
    #[inline(always)]
    fn is_left_out(&mut self, slot: RouteSlot) -> bool {
        let topic = self.engine.router.cache.get(slot).0;
        if self.engine.state.settings.is_of_addresses(topic.as_bytes()) {
            // The rights of a client of a broker are not known here.
            self.engine.state.counters.drop_message(Reason::NotAuthorized);
            return true;
        }
        // Each broker has its own `$SYS`, and so has this process.
        is_own_topic(topic)
    }
}

/// A message of a broker as its receivers get it, as far as it differs from the packet.
struct Given<'a> {
    properties: &'a [u8],
    expires_at: Millis,
    retain: bool,
}

/// Whether there is room for a message that may have to wait for other members of the cluster. Messages of QoS 0 to be
/// forwarded are dropped beyond the bound.
fn check_room_for_members(handover: &Handover, from: &BrokerLink, raw: &RawPublish<'_>) -> Result<(), Refused> {
    let adopted = from.adopted.as_ref();
    if raw.packet_id.is_some() && handover.is_full() || adopted.is_some_and(|adopted| adopted.is_full()) {
        // The broker keeps unacknowledged messages, and sends it again on the next connection.
        let detail = "too many messages wait for other members of the cluster";
        return Err(Refused::new(Reason::MemoryCeiling, detail));
    }
    Ok(())
}

/// Counts a message of a broker, unless it is a repetition.
fn count_received(
    raw: &RawPublish<'_>,
    from: &mut BrokerLink,
    state: &ShardState,
    (key, session): (ConnectionKey, SessionKey),
) -> Result<(), Refused> {
    if raw.packet_id.is_none() {
        return from.counters.note_received(None);
    }
    let flow = state.sessions.get(session.0).and_then(|session| session.flow.as_deref());
    if !is_repetition(raw, flow) {
        let connection = state.connections.get(key);
        let unacknowledged = connection.map_or(0, |connection| unacknowledged(connection, flow));
        from.counters.note_received(Some(unacknowledged))?;
    }
    Ok(())
}

/// Whether the broker repeats a QoS 2 message whose packet id is taken. A message beyond the limit must not take its packet
/// id: it would be a repetition on the next connection.
fn is_repetition(raw: &RawPublish<'_>, flow: Option<&Flow>) -> bool {
    let taken = flow.zip(raw.packet_id).is_some_and(|(flow, id)| flow.received.contains(id));
    taken && raw.qos == QoS::ExactlyOnce
}

/// The tenant and the topic of a topic that a broker has sent; `None` for a tenant that is not known.
#[inline]
fn owner_of_raw<'a>(settings: &Settings, topic: &'a [u8]) -> Result<Option<(TenantId, &'a [u8])>, Refused> {
    if !is_of_tenant(topic) {
        // Its route is found by its bytes. The bytes of a new topic are checked then.
        return Ok(Some((TenantId::DEFAULT, topic)));
    }
    let topic = std::str::from_utf8(topic);
    let topic = topic.map_err(|error| Refused::new(Reason::InvalidTopicName, error.to_string()))?;
    Ok(of_brokers(settings, topic).map(|(tenant, topic)| (tenant, topic.as_bytes())))
}
