//! A queue is full, and its policy acts.

mod block;
mod disconnect;
mod drop_oldest;
mod keep_last;

use crate::now::Millis;
use crate::session::overflow::Arriving;
use crate::settings::OverflowPolicy;
use crate::state::ShardState;
use crate::telling::reason::Reason;

impl ShardState {
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
            OverflowPolicy::DropNewest => self.refuse(now, arriving, Reason::QueueFullNewest),
            OverflowPolicy::DropOldest => self.drop_oldest(now, arriving),
            OverflowPolicy::KeepLast => self.keep_last(now, arriving),
            OverflowPolicy::Disconnect => self.disconnect_slow(now, arriving),
            OverflowPolicy::Block => self.block(now, arriving),
            // It could not be refused to anyone: it has QoS 0, is of the broker or of a group, or its route has changed
            // since its room was reserved.
            OverflowPolicy::Reject => self.refuse(now, arriving, Reason::QueueFullReject),
        }
    }

    /// Whether a queue that has room may take a message although the shard is above its ceiling: only in exchange for
    /// one that it holds already.
    #[cold]
    fn make_room_in_shard(&mut self, arriving: &Arriving<'_>) -> bool {
        let Arriving { to, delivery, bounds, .. } = *arriving;
        let mut session = self.sessions.get_mut(to.0);
        let flow = session.as_ref().and_then(|session| session.flow.as_ref());
        if flow.is_some_and(|flow| flow.queue.replaceable(delivery).is_some()) {
            return true;
        }
        let exchanges = matches!(bounds.policy, OverflowPolicy::DropOldest | OverflowPolicy::KeepLast);
        let older = session
            .as_mut()
            .filter(|_| exchanges)
            .and_then(|session| session.pop_least(&mut self.memory, &mut self.journal, delivery.message.priority));
        match &older {
            Some(older) => self.reports().discard_for(Reason::MemoryCeiling, to, &older.message),
            None => self.reports().discard_arriving(Reason::MemoryCeiling, arriving),
        }
        older.is_some()
    }

    /// The message that has just come is dropped. The other policies end here, too, for a message that not even an empty
    /// queue could take.
    fn refuse(&mut self, now: Millis, arriving: &Arriving<'_>, reason: Reason) -> bool {
        self.reports().discard_arriving(reason, arriving);
        if let Some(session) = self.sessions.get_mut(arriving.to.0) {
            session.tell_queue_full(&mut self.events, now, reason);
        }
        false
    }
}
