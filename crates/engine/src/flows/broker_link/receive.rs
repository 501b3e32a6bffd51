//! A message of a broker comes in.

use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::broker_link::adopted::FromBroker;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::Publishing;
use crate::flows::contexts::answering;
use crate::flows::contexts::moving;
use crate::flows::contexts::parking;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::{BrokerLinkKey, ConnectionKey, SessionKey, TenantId, partition_of};
use crate::image::handover::Handover;
use crate::link::envelope::Ticket;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::BrokerLink;
use crate::orchestrator::broker_link::adopted::keeper_of;
use crate::orchestrator::broker_link::id::{MessageId, PROPERTY};
use crate::orchestrator::broker_link::receive::version_of;
use crate::publish::dispatch::Source;
use crate::session::Flow;
use crate::settings::Settings;
use crate::settings::fleet_topics::{is_of_tenant, of_brokers, owner_of};
use crate::topics::{RouteSlot, is_own_topic};
use tidegate_mqtt::{Frame, PacketId, PublishProperties, QoS, RawPublish, ReasonCode, Version};

impl BrokerLinking<'_> {
    /// Takes a PUBLISH from a broker.
    pub(crate) fn receive_from_broker(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let raw = RawPublish::decode(version, frame.first_byte, frame.body)?;
        let brokers = &mut self.broker_links.brokers;
        let Some(broker_link) = brokers.of_connection(key) else { return Ok(()) };
        let Some(from) = brokers.all.get_mut(&broker_link) else { return Ok(()) };
        check_room_for_members(self.handover, from, &raw)?;
        let Some(session) = self.state.connections.session_of(key) else { return Ok(()) };
        let alone = self.broker_links.settlement.brought.alone_in(raw.properties);
        let properties =
            if alone.is_some() { PublishProperties::default() } else { PublishProperties::decode(raw.properties)? };
        if properties.topic_alias.is_some() {
            return Err(Refused::new(Reason::InvalidTopicAlias, "the broker uses a topic alias, and was offered none"));
        }
        let id = alone.or_else(|| MessageId::of(&properties));
        let mark = self.state.journal.mark();
        if let Some(packet_id) = raw.packet_id.filter(|_| !raw.dup) {
            self.state.sessions.forget_receipt(&mut self.state.journal, session, packet_id);
        }
        let flow = self.state.sessions.get(session.0).and_then(|session| session.flow.as_deref());
        let unacknowledged = self.state.connections.unacknowledged(key, flow);
        let is_repetition = is_repetition(&raw, flow);
        if !is_repetition {
            from.counters.note_received(raw.packet_id.map(|_| unacknowledged))?;
        }
        let adopted = from.adopted.as_ref();
        let ticket = raw.packet_id.map(|_| self.state.connections.next_ticket(key));
        self.handover.begin_message(now, &mut self.state.journal, adopted.map(|adopted| adopted.transfer), ticket);
        let message = FromBroker { key, broker_link, raw: &raw, properties: &properties, id: id.as_ref() };
        if let Some(packet_id) = raw.packet_id.filter(|_| raw.qos == QoS::ExactlyOnce)
            && !answering!(self).takes_packet_id(session, packet_id)
        {
            self.take_repetition(now, session, packet_id, &message);
            return Ok(());
        }
        self.broker_links.brokers.note_brought(broker_link, raw.topic);
        self.note_own(broker_link, &raw, id.as_ref());
        let new = self.note_seen(broker_link, &raw, &properties, id.as_ref());
        let outcome = if new {
            let outcome = self.pass_on_new(now, key, session, (&raw, &properties), id);
            let waits = *outcome.as_ref().unwrap_or(&0);
            if let (Some(id), Some(packet_id), QoS::AtLeastOnce) = (&id, raw.packet_id.filter(|_| waits > 0), raw.qos) {
                self.broker_links.settlement.begin_confirming(self.state, key, packet_id, id);
            }
            outcome
        } else {
            message.forward_again(self, now);
            self.take_duplicate(now, &message);
            Ok(0)
        };
        let mut waits = self.handover.end_message();
        waits += u32::from(message.note_for_members(self, now));
        let brokers = &mut self.broker_links.brokers;
        self.broker_links.settlement.note_come(now, self.state, self.layouts, brokers, id.as_ref());
        answering!(self).answer_publish(now, key, &raw, (Ok(ReasonCode::Success), None), waits + outcome?, mark);
        Ok(())
    }

    /// Delivers a message of a broker that has not come before; returns how many confirmations its acknowledgement waits
    /// for.
    fn pass_on_new(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        (raw, properties): (&RawPublish<'_>, &PublishProperties<'_>),
        id: Option<MessageId>,
    ) -> Result<u32, Refused> {
        if properties.raw.is_empty() {
            return self.pass_on(now, key, session, raw, (&[], Millis::NEVER), id);
        }
        let mut forwarded = std::mem::take(&mut self.layouts.properties);
        forwarded.clear();
        properties.copy_forwardable_without(&[PROPERTY], &mut forwarded);
        let expires_at = properties.message_expiry.map_or(Millis::NEVER, |seconds| now.monotonic.plus_seconds(seconds));
        let outcome = self.pass_on(now, key, session, raw, (&forwarded, expires_at), id);
        self.layouts.properties = forwarded;
        outcome
    }

    /// Takes a QoS 2 message whose packet id is taken. Partitions that have left its old home may not have it, here or at
    /// another member.
    fn take_repetition(&mut self, now: Now, session: SessionKey, packet_id: PacketId, message: &FromBroker<'_>) {
        let key = message.key;
        if self.state.connections.answers_pub_rec(key, packet_id) {
            return;
        }
        message.forward_again(self, now);
        if self.links.place.shards == 1 {
            message.deliver_to_taken_over(self, now);
        }
        let noted = message.note_repetition(self, now);
        let waits = self.handover.end_message() + u32::from(noted);
        answering!(self).answer_repetition(now, key, session, packet_id, waits);
    }

    /// Counts a message that has come before. Sessions that were taken over since may not have it.
    fn take_duplicate(&mut self, now: Now, message: &FromBroker<'_>) {
        if let Some(broker_link) = self.broker_links.brokers.all.get_mut(&message.broker_link) {
            broker_link.counters.duplicates += 1;
        }
        message.deliver_to_taken_over(self, now);
    }

    /// Notes a message of this shard that has returned in the order in which the broker has got messages.
    fn note_own(&mut self, broker_link: BrokerLinkKey, raw: &RawPublish<'_>, id: Option<&MessageId>) {
        let own = id.filter(|id| id.origin == self.broker_links.origin && raw.packet_id.is_some() && !raw.retain);
        if let (Some(id), Some(broker_link)) = (own, self.broker_links.brokers.all.get_mut(&broker_link)) {
            broker_link.last_own = broker_link.last_own.max(id.number);
        }
    }

    /// Notes a received message; returns whether it is new.
    fn note_seen(
        &mut self,
        broker_link: BrokerLinkKey,
        raw: &RawPublish<'_>,
        properties: &PublishProperties<'_>,
        id: Option<&MessageId>,
    ) -> bool {
        let brokers = &mut self.broker_links.brokers;
        let Some(id) = id else {
            return brokers
                .all
                .get_mut(&broker_link)
                .is_none_or(|broker_link| !broker_link.last.is_copy(raw, properties));
        };
        let new = self.broker_links.settlement.seen.insert(id);
        let keeper = if new { keeper_of(&brokers.all, broker_link) } else { broker_link };
        if new && let Some(broker_link) = brokers.all.get_mut(&keeper) {
            broker_link.keep_id(self.state, broker_link.session, raw.qos, id);
        }
        new
    }

    /// Delivers a message of a broker; returns how many confirmations its acknowledgement waits for.
    fn pass_on(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: SessionKey,
        raw: &RawPublish<'_>,
        (properties, expires_at): (&[u8], Millis),
        id: Option<MessageId>,
    ) -> Result<u32, Refused> {
        // Without such a tenant, no client here wants it.
        let Some((tenant, topic)) = owner_of_raw(&self.state.settings, raw.topic)? else { return Ok(0) };
        let slot = match publishing!(self).slot_of(tenant, topic) {
            Err(Refused { reason: reason @ (Reason::TopicTooDeep | Reason::TopicTooLong), .. }) => {
                // A broker may know wider limits, and would bring it again on each connection.
                self.state.counters.drop_message(reason);
                return Ok(0);
            }
            slot => slot?,
        };
        if self.is_left_out(slot) {
            return Ok(0);
        }
        let ticket = raw.packet_id.map(|_| self.state.connections.next_ticket(key));
        // A broker's retained messages come with RETAIN; the id of a live message says whether to retain it.
        let kept_there = raw.retain;
        let retain = kept_there || id.is_some_and(|id| id.retain);
        if kept_there && publishing!(self).ask_home(now, key, raw, (properties, expires_at), id, ticket) {
            return Ok(u32::from(ticket.is_some()));
        }
        if retain && !publishing!(self).takes_over(now, raw, (properties, expires_at), id) && kept_there {
            return Ok(0);
        }
        let publisher = id.map_or(0, |id| id.publisher);
        if !kept_there && self.handover.concerns(id.as_ref()) {
            // Notes for others have the topic of brokers.
            let Ok(topic) = std::str::from_utf8(raw.topic) else { return Ok(0) };
            let (tenant, qos, payload) = (TenantId::DEFAULT, raw.qos, raw.payload);
            let mut own = Publication::new(tenant, topic, qos, retain, properties, expires_at, payload, publisher);
            own.priority = self.router.cache.traits(slot).priority.level(properties);
            if moving!(self).attend_moves(now, slot, id.as_ref(), &own.keep()) {
                return Ok(0);
            }
        }
        let (topic, route) = self.router.cache.get(slot);
        let mut publication =
            Publication::new(tenant, topic, raw.qos, retain, properties, expires_at, raw.payload, publisher);
        publication.priority = self.router.cache.traits(slot).priority.level(properties);
        publication.retain_is_done = retain;
        publication.from_retained = kept_there;
        let source = Source {
            session: Some(session),
            connection: Some(key),
            origin: self.links.place.shard,
            ticket,
            entered_at: now.monotonic,
            hops: 0,
        };
        let deliveries = route.targets().len();
        let done = reach!(self).dispatch(now, route, &mut publication, &source);
        if kept_there {
            reach!(self).tell_found(&mut publication, &source);
        }
        if let Some(share) = self.turn_share.charge(now, deliveries, self.state) {
            parking!(self).wait_for_next_turn(now, key, share);
        }
        if done.full != 0 {
            parking!(self).wait_for_links(now, key, done.full);
        }
        Ok(if raw.packet_id.is_some() { u32::from(done.waits) } else { 0 })
    }
}

impl BrokerLinking<'_> {
    /// Whether a message of a broker is not delivered here because of its topic.
    fn is_left_out(&mut self, slot: RouteSlot) -> bool {
        let topic = self.router.cache.get(slot).0;
        if self.state.settings.is_of_addresses(topic.as_bytes()) {
            // The rights of a client of a broker are not known here.
            self.state.counters.drop_message(Reason::NotAuthorized);
            return true;
        }
        // Each broker has its own `$SYS`, and so has this process.
        is_own_topic(topic)
    }
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

/// Whether the broker repeats a QoS 2 message whose packet id is taken. A message beyond the limit must not take its packet
/// id: it would be a repetition on the next connection.
fn is_repetition(raw: &RawPublish<'_>, flow: Option<&Flow>) -> bool {
    let taken = flow.zip(raw.packet_id).is_some_and(|(flow, id)| flow.received.contains(id));
    taken && raw.qos == QoS::ExactlyOnce
}

impl Publishing<'_> {
    /// Sends a value that a broker has kept to its topic's home, which decides whether it is new and distributes it.
    /// Returns whether the home is another shard.
    fn ask_home(
        &mut self,
        now: Now,
        key: ConnectionKey,
        raw: &RawPublish<'_>,
        (properties, expires_at): (&[u8], Millis),
        id: Option<MessageId>,
        ticket: Option<Ticket>,
    ) -> bool {
        let Ok(topic) = std::str::from_utf8(raw.topic) else { return false };
        let (tenant, own) = owner_of(&self.state.settings, TenantId::BROKER_LINK, topic);
        let home = self.links.roster.home_of_topic(tenant, own);
        if home == self.links.place.shard {
            return false;
        }
        let with_id = with_id(properties, id);
        let mut publication =
            Publication::new(TenantId::BROKER_LINK, topic, raw.qos, true, &with_id, expires_at, raw.payload, 0);
        publication.from_retained = true;
        let source = Source { connection: Some(key), ticket, ..Source::inside(self.links.place.shard, now) };
        reach!(self).send_to_home(&mut publication, &source, home);
        true
    }

    /// Takes over a value that a broker has kept, at its topic's home, and gives it to everybody if it is news.
    pub(crate) fn take_over_at_home(&mut self, now: Now, publication: &mut Publication<'_>) -> Option<Reason> {
        match self.retain_from_fleet(now, publication, false) {
            Err(reason) => return Some(reason),
            Ok(false) => return None,
            Ok(true) => {}
        }
        let (tenant, topic) = of_brokers(&self.state.settings, publication.topic)?;
        let slot = self.route_of(tenant, topic);
        let priority = self.router.cache.traits(slot).priority.level(publication.properties);
        let (topic, route) = self.router.cache.get(slot);
        let properties = MessageId::strip(publication.properties);
        let (qos, expires_at, payload) = (publication.qos, publication.expires_at, publication.payload);
        let mut own = Publication::new(tenant, topic, qos, true, properties, expires_at, payload, 0);
        own.priority = priority;
        own.retain_is_done = true;
        own.from_retained = true;
        let source = Source::inside(self.links.place.shard, now);
        reach!(self).dispatch(now, route, &mut own, &source);
        reach!(self).tell_found(&mut own, &source);
        None
    }

    /// Keeps a retained value here as well, unless a later one is known. Returns whether it is new, as far as this
    /// shard knows.
    fn takes_over(
        &mut self,
        now: Now,
        raw: &RawPublish<'_>,
        (properties, expires_at): (&[u8], Millis),
        id: Option<MessageId>,
    ) -> bool {
        let Ok(topic) = std::str::from_utf8(raw.topic) else { return false };
        let own = id.is_some_and(|id| id.origin == self.broker_links.origin);
        if own && !raw.retain && !self.broker_links.brokers.config.brokers_decide() {
            // It was kept when it entered here.
            return true;
        }
        let with_id = with_id(properties, id);
        let mut publication =
            Publication::new(TenantId::BROKER_LINK, topic, raw.qos, true, &with_id, expires_at, raw.payload, 0);
        let (tenant, own) = owner_of(&self.state.settings, TenantId::BROKER_LINK, topic);
        let home = self.links.roster.home_of_topic(tenant, own);
        if home == self.links.place.shard {
            return self.retain_from_fleet(now, &mut publication, false).unwrap_or(false);
        }
        let source = Source::inside(self.links.place.shard, now);
        reach!(self).send_to_home(&mut publication, &source, home);
        true
    }

    /// Keeps a value whose topic is at home here; returns whether it was news, or why it cannot be kept. `enters` is true
    /// for a value that a client gives now.
    pub(crate) fn retain_from_fleet(
        &mut self,
        now: Now,
        publication: &mut Publication<'_>,
        enters: bool,
    ) -> Result<bool, Reason> {
        let mut version = version_of(publication.properties);
        let id = MessageId::at_end_of(publication.properties);
        if let Some(id) = id.filter(|id| id.origin != self.broker_links.origin) {
            self.broker_links.clock.note(id.entered, now.unix);
        }
        let Some((tenant, topic)) = of_brokers(&self.state.settings, publication.topic) else { return Ok(false) };
        if enters {
            let present = self.broker_links.clock.present(now.unix);
            version = self.retaining.store.version_entering(now, tenant, topic, (version, present));
        }
        // A value of a publisher that speaks to a broker directly has no version: whatever is known here stays.
        if self.retaining.store.has_as_new(now, tenant, topic, version) {
            return Ok(false);
        }
        let is_known = self.retaining.store.values.get(tenant, topic, now.monotonic).is_some();
        let partition = partition_of(tenant, topic);
        // A dead home may know a newer value: the node that takes its place sends it.
        let is_settled = !self.links.roster.lacks_home(partition);
        let news = is_settled && (is_known || !publication.payload.is_empty());
        let own = Publication::new(
            tenant,
            topic,
            publication.qos,
            true,
            MessageId::strip(publication.properties),
            publication.expires_at,
            publication.payload,
            version,
        );
        let (place, roster) = (self.links.place, &self.links.roster);
        self.retaining.store.take_stray(now, place, roster, self.state, &own).map_or(Ok(news), Err)
    }
}

/// The tenant and the topic of a topic that a broker has sent; `None` for a tenant that is not known.
fn owner_of_raw<'a>(settings: &Settings, topic: &'a [u8]) -> Result<Option<(TenantId, &'a [u8])>, Refused> {
    if !is_of_tenant(topic) {
        // Its route is found by its bytes. The bytes of a new topic are checked then.
        return Ok(Some((TenantId::DEFAULT, topic)));
    }
    let topic = std::str::from_utf8(topic);
    let topic = topic.map_err(|error| Refused::new(Reason::InvalidTopicName, error.to_string()))?;
    Ok(of_brokers(settings, topic).map(|(tenant, topic)| (tenant, topic.as_bytes())))
}

/// Properties with the id that a message came with.
fn with_id(properties: &[u8], id: Option<MessageId>) -> Vec<u8> {
    let mut with_id = properties.to_vec();
    if let Some(id) = id {
        id.append(&mut with_id);
    }
    with_id
}
