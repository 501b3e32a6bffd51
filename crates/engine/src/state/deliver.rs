//! A message is delivered to a session: written at once, or queued.

use crate::connection::Connection;
use crate::connection::alias::Outbound;
use crate::events::outcome::DeliveryOutcome;
use crate::events::reason::Reason;
use crate::ids::{SessionKey, TenantId};
use crate::journal::Numbers;
use crate::limits::usage::Payer;
use crate::message::Publication;
use crate::message::spare::SpareMessages;
use crate::now::Millis;
use crate::publish::layouts::{Layouts, Shape, fits_surely};
use crate::session::overflow::Arriving;
use crate::session::terms::Terms;
use crate::session::terms::awaited;
use crate::session::{Delivery, Flow, InFlight, Membership, Session, SubscriptionIds};
use crate::settings::{OverflowPolicy, Settings};
use crate::state::{ShardState, open_output};
use std::rc::Rc;
use tidegate_mqtt::{PacketId, QoS};

/// A message of a group was sent: at QoS 2 no other member may get it.
#[inline]
fn note_sent_once(group: Option<&Rc<Membership>>, qos: QoS) {
    if let Some(group) = group.filter(|_| qos == QoS::ExactlyOnce) {
        group.note_sent_once();
    }
}

impl ShardState {
    /// Delivers a message to a session. Never fails: an undelivered message is counted with its reason.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        now: Millis,
        publication: &mut Publication<'_>,
        layouts: &mut Layouts,
        to: SessionKey,
        terms: &Terms<'_>,
    ) {
        let Some(session) = self.sessions.get_mut(to.0) else { return };
        let qos = terms.qos.min(publication.qos);
        let Some(key) = session.connection else {
            self.deliver_offline(now, publication, to, terms, qos);
            return;
        };
        let Some(connection) = self.connections.get_mut(key) else { return };
        let behind_kept = session.flow.as_ref().is_some_and(|flow| flow.is_keeping_qos0())
            && keeps_qos0(&self.settings, session, publication.topic);
        let qos = if behind_kept { qos.max(QoS::AtLeastOnce) } else { qos }.min(connection.max_qos_out);
        let room = Room { output: connection.output_len(), high_water: self.high_water };
        if !goes_at_once(session, qos, room, self.settings.queue.max_bytes) {
            self.enqueue(now, publication, to, terms, qos);
            if qos == QoS::AtMostOnce && room.output <= room.high_water / 2 {
                self.refill_soon(to);
            }
            return;
        }
        let mut shape = Shape {
            version: connection.version,
            qos,
            retain: terms.retain && connection.takes_retain(),
            dup: false,
            packet_id: None,
            subscription_ids: terms.subscription_ids,
            alias: None,
            is_for_hub: connection.is_of_hub(),
        };
        if has_len_to_check(connection, publication, terms.subscription_ids) {
            let len = layouts.packet_len(publication, &shape, now);
            if len > connection.max_packet_out as usize {
                self.reports().discard_publication_for(Reason::SubscriberPacketLimit, to, publication);
                return;
            }
            shape.alias = choose_alias(connection, publication.topic, len);
        }
        let (payer, mut promises) = (connection.payer, false);
        if qos != QoS::AtMostOnce {
            let keep = session.lasts() || terms.group.is_some();
            let stored = session.stored;
            let flow = session.flow_mut();
            let number = if stored.is_some() { flow.number() } else { 0 };
            let kept = keep.then(|| delivery(&mut self.memory.spare, publication, terms, qos, number));
            let numbers = Numbers { entry: number, separate: false };
            let Some((id, cost)) = await_answer(now, flow, qos, InFlight { delivery: kept, numbers }) else { return };
            self.memory.held += cost;
            shape.packet_id = Some(id);
            if let Some(stored) = stored {
                self.journal.put_entry(stored, number, publication, terms, qos, Some(id), false);
                // Sent once and forgotten, it would be sent a second time under another packet id.
                promises = qos == QoS::ExactlyOnce;
            }
            note_sent_once(terms.group, qos);
        }
        let output = open_output(connection, key, &mut self.to_write, &mut self.pool);
        let at = output.buffer().len();
        layouts.append(publication, &shape, now, output);
        if promises && let Some(batch) = self.journal.hold(key) {
            output.hold(at, batch);
        }
        self.note_sent(to, payer, publication, qos);
    }

    #[cold]
    fn deliver_offline(
        &mut self,
        now: Millis,
        publication: &mut Publication<'_>,
        to: SessionKey,
        terms: &Terms<'_>,
        qos: QoS,
    ) {
        let Some(session) = self.sessions.get(to.0) else { return };
        let is_broker_link = session.is_broker_link();
        if qos == QoS::AtMostOnce && keeps_qos0(&self.settings, session, publication.topic) {
            self.enqueue(now, publication, to, terms, QoS::AtLeastOnce);
            return;
        }
        let sent_on_until = session.rare.as_ref().and_then(|rare| rare.sent_on_until);
        let is_expected = sent_on_until.is_some_and(|until| until > self.journal.now.monotonic);
        if qos == QoS::AtMostOnce && !self.settings.queue.keep_qos0_offline && !is_broker_link && !is_expected {
            self.reports().discard_publication_for(Reason::OfflineQos0, to, publication);
            return;
        }
        self.enqueue(now, publication, to, terms, qos);
    }

    /// Puts a message into a session's queue, or applies the policy for a full queue.
    pub(crate) fn enqueue(
        &mut self,
        now: Millis,
        publication: &mut Publication<'_>,
        to: SessionKey,
        terms: &Terms<'_>,
        qos: QoS,
    ) {
        let mut delivery = delivery(&mut self.memory.spare, publication, terms, qos, 0);
        let is_dealt = || terms.group.is_some_and(|group| group.tenant != TenantId::BROKER_LINK);
        let is_of_transfer = self.transfers.concern(&self.settings, publication.topic, is_dealt);
        if is_of_transfer && self.transfers.attend_transfer(&self.sessions, self.journal.now, self.shard, to, &delivery)
        {
            return;
        }
        if !terms.metered {
            let bounds = self.overflow.bounds_of(&self.sessions, to, publication.topic);
            delivery.latest = bounds.policy == OverflowPolicy::KeepLast;
            let arriving = Arriving { to, delivery: &delivery, publisher: terms.publisher, bounds };
            if !self.make_room(now, &arriving) {
                return;
            }
        }
        let away = self.sessions.get(to.0).is_some_and(|session| session.connection.is_none());
        if away && (!is_of_transfer || !self.sessions.old_home_answers(&self.transfers, to)) {
            self.reports().report_outcome(
                to,
                publication.topic,
                publication.properties,
                publication.qos,
                DeliveryOutcome::Stored,
            );
        }
        if self.enqueue_in_store(publication, to, terms, &delivery) {
            self.sessions.note_expiry(&mut self.timers, to, publication.expires_at);
            if let Some(session) = self.sessions.get_mut(to.0) {
                session.read_ahead(self.memory.queue_share(), &self.journal, &mut self.events);
            }
            return;
        }
        let Some(session) = self.sessions.get_mut(to.0) else { return };
        let cost = delivery.cost();
        let stored = session.stored.filter(|_| qos != QoS::AtMostOnce);
        let flow = session.flow_mut();
        flow.keeps_qos0 |= publication.qos < qos;
        if let Some(stored) = stored {
            delivery.number = flow.number();
            self.journal.put_entry(stored, delivery.number, publication, terms, qos, None, delivery.latest);
        }
        let replaced = flow.queue.push_back(delivery);
        flow.queue_bytes += cost;
        self.memory.count_queued(cost);
        if let Some(older) = replaced {
            self.drop_replaced(to, &older);
        }
        self.sessions.note_expiry(&mut self.timers, to, publication.expires_at);
        self.note_queued(to, terms.publisher);
    }

    /// The queue of a connected client has a message that may be sent at once.
    pub(crate) fn refill_soon(&mut self, to: SessionKey) {
        if self.to_refill.last() != Some(&to) {
            self.to_refill.push(to);
        }
    }

    /// Sends from a session's queue as much as its window and its output take.
    pub(crate) fn refill(&mut self, now: Millis, layouts: &mut Layouts, to: SessionKey) {
        let fetches = |session: &Session| session.rare.as_ref().is_some_and(|rare| !rare.fetches.is_empty());
        let session = self.sessions.get(to.0).filter(|session| !fetches(session));
        let flow = session.and_then(|session| session.flow.as_deref());
        if flow.is_some_and(Flow::is_at_rest) {
            // Nearly all acknowledgements come to a session for which nothing waits.
            return;
        }
        if flow.is_some_and(|flow| flow.tail.is_some())
            && let Some(flow) = self.sessions.get_mut(to.0).and_then(|session| session.flow.as_mut())
        {
            let first_expiry = flow.end_tail_in_memory(&mut self.memory);
            self.sessions.note_expiry(&mut self.timers, to, first_expiry);
        }
        while let Some(flow) = self.sessions.get(to.0).and_then(|session| session.flow.as_ref()) {
            let empty = flow.queue.is_empty();
            if flow.to_resend > 0 && self.resend_next(now, layouts, to) {
                continue;
            }
            if empty {
                break;
            }
            let Some(session) = self.sessions.get_mut(to.0) else { return };
            let Some(key) = session.connection else { return };
            let Some(connection) = self.connections.get_mut(key) else { return };
            let room = connection.output_len() <= self.high_water / 2;
            let most = self.settings.queue.max_bytes;
            // Messages that come from the store add to memory; others only move from the queue into flight.
            let reads = session.flow.as_ref().is_some_and(|flow| flow.tail.is_some());
            let window = has_window(session, if reads { self.memory.window_bytes(most) } else { most });
            let Some(flow) = session.flow.as_mut() else { break };
            let share = self.settings.queue.lower_priority_share;
            if !room || flow.waits_alone() {
                break;
            }
            // Messages to send again go before unsent ones. QoS 0 waits for neither.
            let window = window && flow.to_resend == 0;
            let Some(next) = flow.queue.pop_front(share, window) else { break };
            let cost = next.cost();
            flow.queue_bytes -= cost;
            self.memory.forget_queued(cost);
            if next.is_expired(now) {
                self.drop_expired(to, &next);
                continue;
            }
            self.send_queued(now, layouts, to, next);
        }
        self.after_refill(to);
    }

    /// Sends one message that waited.
    fn send_queued(&mut self, now: Millis, layouts: &mut Layouts, to: SessionKey, next: Delivery) {
        let Some(session) = self.sessions.get_mut(to.0) else { return };
        let Some(key) = session.connection else { return };
        let Some(connection) = self.connections.get_mut(key) else { return };
        let (message, ids, number) = (Rc::clone(&next.message), next.ids.clone(), next.number);
        let mut publication = message.publication();
        let qos = next.qos.min(connection.max_qos_out);
        let once = next.group.as_ref().filter(|_| qos == QoS::ExactlyOnce).cloned();
        layouts.begin(1);
        let mut shape = Shape {
            version: connection.version,
            qos,
            retain: next.retain && connection.takes_retain(),
            dup: false,
            packet_id: None,
            subscription_ids: ids.as_slice(),
            alias: None,
            is_for_hub: connection.is_of_hub(),
        };
        let stored = session.stored.filter(|_| number != 0);
        if has_len_to_check(connection, &publication, shape.subscription_ids) {
            let len = layouts.packet_len(&mut publication, &shape, now);
            if len > connection.max_packet_out as usize {
                self.reports().discard_for(Reason::SubscriberPacketLimit, to, &message);
                self.journal.forget_stored(stored, number);
                return;
            }
            shape.alias = choose_alias(connection, publication.topic, len);
        }
        if qos != QoS::AtMostOnce {
            let keep = session.lasts() || next.group.is_some();
            let flow = session.flow_mut();
            let numbers = Numbers { entry: number, separate: true };
            let kept = InFlight { delivery: keep.then_some(next), numbers };
            let Some((id, cost)) = await_answer(now, flow, qos, kept) else { return };
            self.memory.held += cost;
            shape.packet_id = Some(id);
            if let Some(stored) = stored {
                self.journal.put_sent(stored, number, id, awaited(qos), flow.number());
            }
        }
        let payer = connection.payer;
        let output = open_output(connection, key, &mut self.to_write, &mut self.pool);
        let at = output.buffer().len();
        layouts.append(&mut publication, &shape, now, output);
        if qos == QoS::AtMostOnce {
            self.journal.forget_stored(stored, number);
        } else if stored.is_some()
            && qos == QoS::ExactlyOnce
            && let Some(batch) = self.journal.hold(key)
        {
            output.hold(at, batch);
        }
        note_sent_once(once.as_ref(), qos);
        self.note_sent(to, payer, &publication, qos);
        drop(publication);
        self.memory.reuse(message);
    }

    /// Counts a message that was sent. At QoS 0 no acknowledgement follows.
    #[inline]
    fn note_sent(&mut self, to: SessionKey, payer: Payer, publication: &Publication<'_>, qos: QoS) {
        self.counters.count_sent(qos, publication.payload.len());
        self.meters.of(payer).messages_out += 1;
        // Before the parts of a report are borrowed: few brokers have addresses.
        if self.has_addresses && qos == QoS::AtMostOnce && !publication.properties.is_empty() {
            self.reports().report_outcome(
                to,
                publication.topic,
                publication.properties,
                qos,
                DeliveryOutcome::Delivered,
            );
        }
    }

    /// Resumes the publishers that wait for a queue that has space again.
    pub(crate) fn after_refill(&mut self, to: SessionKey) {
        let default = self.overflow.default_bounds();
        let Some(session) = self.sessions.get_mut(to.0) else { return };
        let fetching = session.rare.as_ref().is_some_and(|rare| !rare.fetches.is_empty());
        let empty = match session.flow.as_mut() {
            None => true,
            Some(flow) => {
                let bounds = flow.full_at.unwrap_or(default);
                let (waiting, waiting_bytes) = flow.waiting();
                if bounds.has_room_again(waiting, waiting_bytes) {
                    flow.full_at = None;
                    flow.pace.end(waiting);
                    if std::mem::take(&mut flow.gave_back) {
                        self.has_capacity.push(to);
                    }
                    if !flow.blocking.is_empty() {
                        self.to_unpark.append(&mut flow.blocking);
                        self.blockers.remove(&to.0);
                    }
                    flow.block_given_up = false;
                    flow.full_logged = false;
                }
                flow.queue.is_empty()
            }
        };
        if empty && let Some(flow) = session.flow.as_mut() {
            flow.end_waiting(&mut self.timers, to);
        }
        if empty && fetching {
            self.needs_fetch.push(to);
        }
        session.read_ahead(self.memory.queue_share(), &self.journal, &mut self.events);
    }
}

/// Whether a message to a session would wait in its queue now, behind this number of messages with reserved room. `room` is
/// that of its connection, if it has one.
pub(crate) fn would_queue(session: &Session, room: Option<Room>, qos: QoS, reserved: usize, max_bytes: u64) -> bool {
    let Some(room) = room else { return true };
    let in_flight = session.flow.as_ref().map_or(0, |flow| flow.inflight.len());
    let is_full = qos != QoS::AtMostOnce && in_flight + reserved >= usize::from(session.receive_maximum);
    is_full || !goes_at_once(session, qos, room, max_bytes)
}

/// Notes a message above QoS 0 as sent; returns its packet id and the bytes to keep it.
#[expect(clippy::inline_always, reason = "a separate call copies each message in flight twice")]
#[inline(always)]
fn await_answer(now: Millis, flow: &mut Flow, qos: QoS, sent: InFlight) -> Option<(PacketId, u64)> {
    let cost = sent.delivery.as_ref().map_or(0, Delivery::cost);
    if flow.inflight.is_empty() {
        flow.waiting_since = now;
    }
    let id = flow.inflight.push(awaited(qos), sent)?;
    flow.inflight_bytes += cost;
    Some((id, cost))
}

/// True if a QoS 0 message is kept as one of QoS 1 for an offline client: a message to the address of a mobile node.
#[cold]
fn keeps_qos0(settings: &Settings, session: &Session, topic: &str) -> bool {
    let addresses = settings.addresses.as_ref().filter(|_| session.standing.is_node());
    addresses.is_some_and(|addresses| addresses.keep_qos0 && addresses.is_addressed(session, topic))
}

/// Output of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes that wait in it.
    pub(crate) output: usize,
    /// Bytes beyond which messages wait in queues.
    pub(crate) high_water: usize,
}

/// Whether the length of a message's packet decides if a client gets it, or by which topic alias.
#[inline]
fn has_len_to_check(connection: &Connection, publication: &Publication<'_>, subscription_ids: &[u32]) -> bool {
    let max = connection.max_packet_out;
    connection.aliases_out || (max != u32::MAX && !fits_surely(publication, subscription_ids, max))
}

/// Whether a message to a connected client is sent without waiting in the queue. One of QoS 0 goes before messages that
/// wait for the client's window, as long as no other of QoS 0 waits.
#[inline]
fn goes_at_once(session: &Session, qos: QoS, room: Room, max_bytes: u64) -> bool {
    let window = qos == QoS::AtMostOnce || has_window(session, max_bytes);
    let Some(flow) = session.flow.as_ref() else { return window && room.output <= room.high_water };
    if flow.queue.is_empty() && flow.to_resend == 0 && flow.tail.is_none() {
        return window && !flow.waits_alone() && room.output <= room.high_water;
    }
    // Messages that wait for output are sent when half of it is written.
    qos == QoS::AtMostOnce
        && room.output <= room.high_water / 2
        && !flow.queue.has_windowless()
        && !flow.queue.has_latest()
        && !flow.waits_alone()
        && (flow.to_resend > 0 || !has_window(session, max_bytes))
}

#[inline]
fn has_window(session: &Session, max_bytes: u64) -> bool {
    session.flow.as_ref().is_none_or(|flow| {
        // Messages in flight may take as many bytes as queued ones, except for one message of any size.
        flow.inflight.len() < usize::from(session.receive_maximum)
            && (flow.inflight_bytes < max_bytes || flow.inflight_bytes == 0)
    })
}

/// The alias for a topic towards a client that takes aliases. The first use of one makes the packet longer.
fn choose_alias(connection: &mut Connection, topic: &str, packet_len: usize) -> Option<(u16, bool)> {
    if !connection.aliases_out || packet_len + ALIAS_PROPERTY_LEN > connection.max_packet_out as usize {
        return None;
    }
    match connection.extra.as_mut()?.aliases_out.choose(topic)? {
        Outbound::Known(alias) => Some((alias.get(), true)),
        Outbound::New(alias) => Some((alias.get(), false)),
    }
}

/// Bytes by which a Topic Alias lengthens a packet at most: the property, and one more byte of each length before it.
const ALIAS_PROPERTY_LEN: usize = 5;

fn delivery(
    spare: &mut SpareMessages,
    publication: &mut Publication<'_>,
    terms: &Terms<'_>,
    qos: QoS,
    number: u64,
) -> Delivery {
    Delivery {
        message: publication.keep_in(spare),
        qos,
        retain: terms.retain,
        latest: false,
        ids: SubscriptionIds::from_slice(terms.subscription_ids),
        group: terms.group.cloned(),
        number,
    }
}
