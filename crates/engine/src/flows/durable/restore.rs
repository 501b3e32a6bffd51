//! Subscriptions and memberships are restored.

use crate::addresses::{NODE_GROUP, group_of_stored};
use crate::durable::restore::{Restoration, RestoreError};
use crate::durable::restoring::{RestoredEntry, Restoring};
use crate::durable::session_record::SessionRecord;
use crate::flows::contexts::Subscribing;
use crate::journal::Journal;
use crate::journal::Numbers;
use crate::journal::keys::StoredSession;
use crate::link::record::GroupName;
use crate::message::MessageRef;
use crate::now::{Millis, Now};
use crate::records::stored::Content;
use crate::records::stored::SentRecord;
use crate::records::stored::delivery;
use crate::session::exchange::Exchange;
use crate::session::packet_ids::{Inflight, State, UsedIds};
use crate::session::refused::RefusedMessage;
use crate::session::{Delivery, FilterList, InFlight, Membership, Session};
use crate::state::ShardState;
use crate::timers::Timer;
use crate::topics::{Subscriber, SubscriberOptions};
use crate::wire::{WireError, WireReader};
use std::rc::Rc;
use tidegate_mqtt::PacketId;

impl Subscribing<'_> {
    pub(crate) fn restore_session(
        &mut self,
        now: Now,
        all: &mut Restoration,
        stored: StoredSession,
        record: SessionRecord,
    ) -> Result<(), WireError> {
        if self.state.sessions.find_session(record.tenant, &record.client_id).is_some() {
            return Err(WireError { reading: "a client id that no other session has" });
        }
        let tenant = record.tenant;
        let ends_at = record.ends_at_after_restart(now, self.state.settings.mailbox_ends_at(now));
        let mut session = Session {
            client_id: record.client_id,
            connection: None,
            filters: FilterList::default(),
            flow: None,
            rare: None,
            expiry_seconds: record.expiry_seconds,
            tenant,
            listener: record.listener,
            receive_maximum: record.receive_maximum,
            rights_epoch: 0,
            standing: record.standing,
            stored: Some(stored),
            identity: record.identity,
        };
        if ends_at != Millis::NEVER {
            session.rare_mut().ends_at = Some(ends_at);
        }
        let mut will_due = None;
        if let Some(will) = record.will {
            let delay = will.delay_seconds.min(record.expiry_seconds);
            // A wall clock that was set back does not delay it further.
            let due = record.will_due.min(now.monotonic.plus_seconds(delay));
            session.rare_mut().will = Some(will);
            session.rare_mut().will_due = Some(due);
            will_due = Some(due);
        }
        let key = self.state.insert_session(session);
        if ends_at != Millis::NEVER {
            self.state.timers.set(ends_at, Timer::SessionEnd(key));
        }
        if let Some(due) = will_due {
            self.state.timers.set(due, Timer::Will(key));
        }
        self.restore_standing(now, tenant, record.standing);
        if record.connected && (will_due.is_some() || ends_at != Millis::NEVER) {
            all.broken_off.push(key);
        }
        all.done.sessions += 1;
        all.current = Some((stored, Restoring::new(key, tenant, record.mailbox_from)));
        Ok(())
    }

    pub(crate) fn restore_subscription(
        &mut self,
        now: Now,
        all: &mut Restoration,
        stored: StoredSession,
        filter: &str,
        (options, subscription_id): (u8, u32),
    ) -> Result<(), WireError> {
        if options & NODE_GROUP != 0 {
            let node = all.current.as_ref().map(|(_, restoring)| restoring.key);
            self.restore_node_group(now, node, group_of_stored(filter));
            return Ok(());
        }
        let wrong = WireError { reading: "a topic filter" };
        let filter = tidegate_mqtt::TopicFilter::new(filter).map_err(|_| wrong)?;
        let Some((_, restoring)) = all.current.as_mut().filter(|(current, _)| *current == stored) else {
            return Ok(());
        };
        all.done.subscriptions += 1;
        let (key, tenant) = (restoring.key, restoring.tenant);
        if let Some((share, filter)) = filter.shared() {
            let partition = crate::groups::group_partition(tenant, share, filter.as_str());
            let group = GroupName { tenant, share, filter: filter.as_str() };
            let membership = Rc::new(Membership::from_kept(group, partition, options, subscription_id));
            restoring.memberships.push(Rc::clone(&membership));
            self.rejoin_group(now, key, &membership);
        } else {
            let options = SubscriberOptions::from_bits(options);
            let subscriber = Subscriber { session: key, options, subscription_id };
            self.adopt_subscription(now, tenant, filter.as_str(), subscriber);
        }
        Ok(())
    }
}

impl Restoration {
    /// The message of an entry, unless it is missing.
    fn message_of(&self, content: &Content) -> Option<MessageRef> {
        match content {
            Content::Here(message) => Some(Rc::clone(message)),
            Content::Body(body) => self.bodies.get(body).map(Rc::clone),
        }
    }
}

impl Restoration {
    /// All parts of a session are restored: assembles its queue, unless some parts come later.
    pub(crate) fn close_restored(&mut self, state: &mut ShardState) -> Result<(), RestoreError> {
        let Some((stored, mut restoring)) = self.current.take() else { return Ok(()) };
        if restoring.is_wanted_again() {
            restoring.begin_again();
            self.again.insert(stored.0.get(), (stored, restoring));
            return Ok(());
        }
        restoring.leave_tail(state.memory.queue_share());
        let shares = |restored: &RestoredEntry| matches!(restored.entry.content, Content::Body(_));
        if restoring.entries.values().any(shares) {
            self.pending.push((stored, restoring));
            return Ok(());
        }
        match self.restore_queue(state, stored, restoring) {
            0 => Ok(()),
            messages => Err(RestoreError::MissingMessages { messages }),
        }
    }

    /// A QoS 2 packet id that a publisher has not released, with the name that its message crossed under, if it did.
    pub(crate) fn restore_received(&self, state: &mut ShardState, id: PacketId, value: &[u8]) -> Result<(), WireError> {
        let known = self.current.as_ref().map(|(_, restoring)| restoring.key);
        let Some(session) = known.and_then(|key| state.sessions.get_mut(key.0)) else { return Ok(()) };
        session.flow_mut().received.insert(id);
        if !value.is_empty() {
            let exchange = Exchange::read_stored(&mut WireReader::new(value))?;
            session.rare_mut().exchanges.push((id, exchange));
        }
        Ok(())
    }

    /// A QoS 2 message that was refused after it was routed.
    pub(crate) fn restore_refused(&self, state: &mut ShardState, id: PacketId, message: RefusedMessage) {
        let known = self.current.as_ref().map(|(_, restoring)| restoring.key);
        if let Some(session) = known.and_then(|key| state.sessions.get_mut(key.0)) {
            session.rare_mut().refused.restore(id, message);
        }
    }

    /// Puts the queue of a session together; returns how many messages are missing.
    pub(crate) fn restore_queue(&mut self, state: &mut ShardState, stored: StoredSession, restoring: Restoring) -> u64 {
        let mut missing = 0;
        let mut sent = Vec::new();
        let mut queue = Vec::new();
        let next = restoring.entries.keys().next_back().map_or(0, |last| *last).max(restoring.last);
        for (number, RestoredEntry { entry, sent: record }) in restoring.entries {
            let Some(message) = self.message_of(&entry.content) else {
                missing += 1;
                continue;
            };
            let delivery = delivery(entry, message, number);
            if number <= restoring.mailbox_from && record.is_none() && state.gives_up_restored(restoring.key, &delivery)
            {
                continue;
            }
            self.done.messages += 1;
            match record {
                Some(record) => sent.push((record, delivery)),
                None => queue.push(delivery),
            }
        }
        sent.sort_by_key(|(record, _)| record.order);
        let last_sent = sent.last().map_or(0, |(record, _)| record.order);
        let Some(session) = state.sessions.get_mut(restoring.key.0) else { return missing };
        if sent.is_empty() && queue.is_empty() && restoring.tail.is_none() {
            session.settle();
            if restoring.mailbox_from != 0 {
                self.broken_off.push(restoring.key);
            }
            return missing;
        }
        debug_assert_eq!(session.stored, Some(stored), "the session was made for these entries");
        let of_broker_link = session.is_broker_link();
        renew_packet_ids(&mut sent, of_broker_link, stored, &mut state.journal);
        let flow = session.flow_mut();
        flow.next_number = next.max(last_sent);
        flow.mailbox_from = restoring.mailbox_from;
        let unanswered = sent.into_iter().map(|(record, delivery)| {
            let numbers = Numbers { entry: delivery.number, separate: true };
            let keep = record.keeps_message(of_broker_link);
            (record.id, record.state, InFlight { delivery: keep.then_some(delivery), numbers })
        });
        let unanswered: Vec<_> = unanswered.collect();
        let kept = unanswered.iter().filter_map(|(_, _, item)| item.delivery.as_ref());
        flow.inflight_bytes = kept.map(Delivery::cost).sum();
        match Inflight::from_entries(unanswered) {
            Some(restored) => flow.inflight = restored,
            None => missing += 1,
        }
        let queue_bytes: u64 = queue.iter().map(Delivery::cost).sum();
        flow.queue = queue.into_iter().collect();
        flow.queue_bytes = queue_bytes;
        if let Some(tail) = restoring.tail {
            self.done.messages += tail.messages;
            state.memory.stored_messages += tail.messages;
            state.memory.stored_bytes += tail.bytes;
            flow.tail = Some(Box::new(tail));
        }
        flow.find_raised();
        let (waiting, inflight_bytes) = (flow.queue.len() as u64, flow.inflight_bytes);
        session.settle();
        session.count_tail(&mut state.memory);
        state.memory.queued_messages += waiting;
        state.memory.queued_bytes += queue_bytes;
        state.memory.held += queue_bytes + inflight_bytes;
        state.sessions.watch_expiry(&mut state.timers, restoring.key);
        missing
    }
}

/// Gives another packet id to each message under whose id a later one was sent. An id is free when its exchange is over,
/// and a message of a broker stays in the store until it has returned and other members have it. Such a message is sent
/// once more, in its place. `sent` is in the order of sending.
fn renew_packet_ids(
    sent: &mut Vec<(SentRecord, Delivery)>,
    of_broker_link: bool,
    stored: StoredSession,
    journal: &mut Journal,
) {
    let mut used = UsedIds::default();
    let keep_id: Vec<bool> = sent.iter().rev().map(|(record, _)| used.insert(record.id)).collect();
    let mut keep_id = keep_id.into_iter().rev();
    sent.retain_mut(|(record, delivery)| {
        if keep_id.next() != Some(false) {
            return true;
        }
        if !record.keeps_message(of_broker_link) {
            journal.delete_entry(stored, Numbers { entry: delivery.number, separate: true });
            return false;
        }
        if let Some(id) = used.insert_free() {
            let state = if record.state == State::AwaitPubAck { State::AwaitPubAck } else { State::AwaitPubRec };
            (record.id, record.state) = (id, state);
            journal.put_sent(stored, delivery.number, id, state, record.order);
        }
        true
    });
}
