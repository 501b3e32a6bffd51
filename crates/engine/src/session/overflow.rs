//! Overflow policies for a message to a session whose queue is full: one file for each.

use crate::journal::Journal;
use crate::memory::MemoryUse;
use crate::settings::overflow::Bounds;
use crate::settings::overflow::OverflowRules;

use crate::event::{Event, LogEvent};
use crate::events::reason::Reason;
use crate::ids::SessionKey;
use crate::now::Millis;
use crate::session::table::Sessions;
use crate::session::{BlockedPublisher, Delivery, Session};
use std::collections::VecDeque;

/// A message that arrives at a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving<'a> {
    pub to: SessionKey,
    pub delivery: &'a Delivery,
    /// The publishers that may be made to wait.
    pub publisher: Option<BlockedPublisher>,
    pub bounds: Bounds,
}

impl OverflowRules {
    /// The bounds and the policy for a message of a topic in a session's queue. The part of a stored queue in memory
    /// may be as long as any other queue.
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
    /// Logs the cause of the full queue: once per time that it fills.
    pub(crate) fn tell_queue_full(&mut self, events: &mut VecDeque<Event>, now: Millis, reason: Reason) {
        let flow = self.flow_mut();
        if std::mem::replace(&mut flow.full_logged, true) {
            return;
        }
        let (client_id, tenant) = (self.client_id.to_string(), self.tenant);
        let connected = self.connection.is_some();
        let flow = self.flow_mut();
        let oldest_packet_id = flow.inflight.iter().next().map(|entry| entry.id().get());
        let waits = connected && oldest_packet_id.is_some();
        events.push_back(Event::Log(LogEvent::QueueFull {
            client_id,
            tenant,
            reason,
            connected,
            unacknowledged: flow.inflight.len() as u64,
            oldest_packet_id,
            waiting_ms: if waits { now.since(flow.waiting_since) } else { 0 },
        }));
    }
}

impl Session {
    /// Removes the oldest message of the least priority from the queue, if that is at most `priority`.
    pub(crate) fn pop_least(
        &mut self,
        memory: &mut MemoryUse,
        journal: &mut Journal,
        priority: u8,
    ) -> Option<Delivery> {
        let stored = self.stored;
        let flow = self.flow.as_mut()?;
        let least = flow.queue.pop_least(priority)?;
        let cost = least.cost();
        flow.queue_bytes -= cost;
        memory.forget_queued(cost);
        journal.forget_stored(stored, least.number);
        Some(least)
    }
}
