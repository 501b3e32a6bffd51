//! What happens to a message for a session whose queue is full: one file for each policy.

mod block;
mod disconnect;
mod drop_newest;
mod drop_oldest;
mod keep_last;
mod reject;
mod rules;

use crate::desk::Desk;
use crate::event::{Event, LogEvent};
use crate::ids::SessionKey;
use crate::now::Millis;
use crate::session::table::Sessions;
use crate::session::{BlockedPublisher, Delivery, Session};
use crate::settings::OverflowPolicy;
use crate::telling::reason::Reason;
use std::collections::VecDeque;

pub(crate) use rules::{Bounds, OverflowRules, may_reject};

/// A message that comes to a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving<'a> {
    pub to: SessionKey,
    pub delivery: &'a Delivery,
    /// Who may be made to wait.
    pub publisher: Option<BlockedPublisher>,
    pub bounds: Bounds,
}

impl Desk {
    /// Whether the new delivery may enter the queue, after the policy did what it does.
    pub(crate) fn make_room(&mut self, now: Millis, arriving: &Arriving<'_>) -> bool {
        let Arriving { to, delivery, bounds, .. } = *arriving;
        if self.sessions.get(to.0).is_none() {
            return false;
        }
        if self.has_room_after_expiry(now, to, &bounds, delivery.cost()) {
            return !self.is_over_ceiling_after_expiry(now, to) || self.make_room_in_shard(arriving);
        }
        if let Some(session) = self.sessions.get_mut(to.0) {
            session.flow_mut().full_at = Some(bounds);
        }
        match bounds.policy {
            OverflowPolicy::DropNewest => self.drop_newest(now, arriving),
            OverflowPolicy::DropOldest => self.drop_oldest(now, arriving),
            OverflowPolicy::KeepLast => self.keep_last(now, arriving),
            OverflowPolicy::Disconnect => self.disconnect_slow(now, arriving),
            OverflowPolicy::Block => self.block(now, arriving),
            OverflowPolicy::Reject => self.reject_late(now, arriving),
        }
    }

    /// Whether a queue that has room may take a message although the shard is above its ceiling: only in exchange for
    /// one that it holds already.
    #[cold]
    fn make_room_in_shard(&mut self, arriving: &Arriving<'_>) -> bool {
        let Arriving { to, delivery, bounds, .. } = *arriving;
        let flow = self.sessions.get(to.0).and_then(|session| session.flow.as_ref());
        if flow.is_some_and(|flow| flow.queue.replaceable(delivery).is_some()) {
            return true;
        }
        let exchanges = matches!(bounds.policy, OverflowPolicy::DropOldest | OverflowPolicy::KeepLast);
        let older = exchanges.then(|| self.pop_least(to, delivery.message.priority)).flatten();
        match &older {
            Some(older) => self.reports().discard_for(Reason::MemoryCeiling, to, &older.message),
            None => self.reports().discard_arriving(Reason::MemoryCeiling, arriving),
        }
        older.is_some()
    }

    /// Takes the oldest message of the least priority from a queue, if that is at most `priority`; it is owed no more.
    fn pop_least(&mut self, from: SessionKey, priority: u8) -> Option<Delivery> {
        let session = self.sessions.get_mut(from.0)?;
        let stored = session.stored;
        let flow = session.flow.as_mut()?;
        let least = flow.queue.pop_least(priority)?;
        let cost = least.cost();
        flow.queue_bytes -= cost;
        self.memory.forget_queued(cost);
        self.journal.forget_stored(stored, least.number);
        Some(least)
    }
}

impl OverflowRules {
    /// What holds for a message of a topic in a session's queue. Of a queue in the store, what is in memory may be as
    /// much as that of any other.
    #[inline]
    pub(crate) fn bounds_of(&self, sessions: &Sessions, to: SessionKey, topic: &str) -> Bounds {
        let Some(session) = sessions.get(to.0) else { return self.default_bounds() };
        let bounds = self.bounds(&session.client_id, topic, session.stored.is_some());
        if session.stored.is_none() {
            return bounds;
        }
        let tail = session.flow.as_ref().and_then(|flow| flow.tail.as_ref()).map_or(0, |tail| tail.bytes);
        let in_memory = self.bounds(&session.client_id, topic, false).max_bytes;
        Bounds { max_bytes: bounds.max_bytes.min(in_memory.saturating_add(tail)), ..bounds }
    }
}

impl Session {
    /// Logs what holds the queue up: once per time that it fills.
    fn tell_queue_full(&mut self, events: &mut VecDeque<Event>, now: Millis, reason: Reason) {
        let flow = self.flow_mut();
        if std::mem::replace(&mut flow.full_told, true) {
            return;
        }
        let client_id = self.client_id.to_string();
        let connected = self.connection.is_some();
        let flow = self.flow_mut();
        let oldest_packet_id = flow.inflight.iter().next().map(|entry| entry.id().get());
        let waits = connected && oldest_packet_id.is_some();
        events.push_back(Event::Log(LogEvent::QueueFull {
            client_id,
            reason,
            connected,
            unacknowledged: flow.inflight.len() as u64,
            oldest_packet_id,
            waiting_ms: if waits { now.since(flow.waiting_since) } else { 0 },
        }));
    }
}
