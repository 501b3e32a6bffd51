//! What happens to a message for a session whose queue is full.

use crate::desk::Desk;
use crate::event::{Event, LogEvent};
use crate::ids::SessionKey;
use crate::now::Millis;
use crate::reason::Reason;
use crate::session::{BlockedPublisher, Delivery, Session};
use crate::settings::OverflowPolicy;

impl Desk {
    /// Whether the new delivery may enter the queue, after the policy did what it does.
    pub(crate) fn make_room(
        &mut self,
        now: Millis,
        to: SessionKey,
        delivery: &Delivery,
        publisher: Option<BlockedPublisher>,
    ) -> bool {
        let limits = &self.settings.queue;
        let (max_messages, max_bytes, policy) = (limits.max_messages as usize, limits.max_bytes, limits.overflow);
        let link_bytes = self.settings.limits.shard_link_bytes;
        let over_ceiling = self.is_over_ceiling();
        let Some(session) = self.sessions.get_mut(to.0) else { return false };
        let connected = session.connection;
        let takes = connected.is_some() || session.is_inner();
        let flow = session.flow_mut();
        let cost = delivery.cost();
        let fits = |messages: usize, bytes: u64| messages < max_messages && bytes + cost <= max_bytes;
        if fits(flow.queue.len(), flow.queue_bytes) {
            return !over_ceiling || self.make_room_in_shard(to, policy);
        }
        match policy {
            OverflowPolicy::DropOldest if fits(0, 0) => {
                self.tell_queue_full(now, to, Reason::QueueFullOldest);
                // What comes to the front now may not need the window that its predecessor waited for.
                if connected.is_some() && self.to_refill.last() != Some(&to) {
                    self.to_refill.push(to);
                }
                self.drop_oldest_until(to, fits)
            }
            OverflowPolicy::Disconnect if connected.is_some() => {
                self.counters.drop_message(Reason::QueueFullDisconnect);
                self.to_close.extend(connected.map(|key| (key, Reason::QueueFullDisconnect)));
                false
            }
            OverflowPolicy::Block if takes && publisher.is_some() && !over_ceiling => {
                // A publisher is asked to wait as soon as the limit is reached. What it and others have under way by
                // then still enters: a message of each, and what is on its way from other shards.
                let hard = flow.queue_bytes < max_bytes.saturating_mul(2).saturating_add(link_bytes);
                let reason = if flow.block_given_up { Reason::BlockedTooLong } else { Reason::QueueFullNewest };
                if flow.block_given_up || !hard {
                    self.counters.drop_message(reason);
                    return false;
                }
                if let Some(publisher) = publisher
                    && !flow.blocking.contains(&publisher)
                {
                    flow.blocking.push(publisher);
                    self.blockers.insert(to.0);
                    self.to_park.push(publisher);
                }
                true
            }
            // Nothing is dropped in vain for a message that not even an empty queue could take.
            OverflowPolicy::DropOldest
            | OverflowPolicy::DropNewest
            | OverflowPolicy::Disconnect
            | OverflowPolicy::Block => {
                self.counters.drop_message(Reason::QueueFullNewest);
                self.tell_queue_full(now, to, Reason::QueueFullNewest);
                false
            }
        }
    }

    /// Whether a queue that has room may take a message although the shard is above its ceiling: only in exchange for one
    /// that it holds already.
    #[cold]
    fn make_room_in_shard(&mut self, to: SessionKey, policy: OverflowPolicy) -> bool {
        let made = policy == OverflowPolicy::DropOldest && self.pop_queued(to).is_some();
        self.counters.drop_message(Reason::MemoryCeiling);
        made
    }

    /// Drops from the front of a queue until the new message fits; says whether it does.
    fn drop_oldest_until(&mut self, to: SessionKey, fits: impl Fn(usize, u64) -> bool) -> bool {
        loop {
            let Some(flow) = self.sessions.get_mut(to.0).map(Session::flow_mut) else { return false };
            if fits(flow.queue.len(), flow.queue_bytes) {
                return true;
            }
            if self.pop_queued(to).is_none() {
                return false;
            }
            self.counters.drop_message(Reason::QueueFullOldest);
        }
    }

    /// A message that waited was replaced by a newer one of its topic.
    #[cold]
    pub(crate) fn drop_replaced(&mut self, to: SessionKey, older: &Delivery) {
        let cost = older.cost();
        let Some(session) = self.sessions.get_mut(to.0) else { return };
        let stored = session.stored;
        if let Some(flow) = session.flow.as_mut() {
            flow.queue_bytes -= cost;
        }
        self.forget_queued(cost);
        self.forget_stored(stored, older.number);
        self.counters.drop_message(Reason::QueueReplaced);
    }

    /// Tells the log who holds a queue up: once per time that it fills.
    fn tell_queue_full(&mut self, now: Millis, to: SessionKey, reason: Reason) {
        let Some(session) = self.sessions.get_mut(to.0) else { return };
        let flow = session.flow_mut();
        if std::mem::replace(&mut flow.full_told, true) {
            return;
        }
        let client_id = session.client_id.to_string();
        let flow = session.flow_mut();
        let unacknowledged = flow.inflight.iter().next().map(|entry| entry.id().get());
        let waiting_ms = if unacknowledged.is_some() { now.since(flow.waiting_since) } else { 0 };
        self.events.push_back(Event::Log(LogEvent::QueueFull { client_id, reason, unacknowledged, waiting_ms }));
    }
}
