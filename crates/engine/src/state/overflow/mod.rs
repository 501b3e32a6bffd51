//! A queue is full, and its policy acts.

mod block;
mod disconnect;
mod drop_oldest;
mod keep_last;
mod pace;

use crate::events::reason::Reason;
use crate::now::Millis;
use crate::session::overflow::Arriving;
use crate::settings::OverflowPolicy;
use crate::state::ShardState;

/// A queue that gets a message for which it may have no room.
struct FullQueue<'s> {
    state: &'s mut ShardState,
    now: Millis,
    arriving: &'s Arriving<'s>,
}

impl ShardState {
    /// Applies the policy of a queue if it has no room. True if the new delivery may enter it.
    pub(crate) fn make_room(&mut self, now: Millis, arriving: &Arriving<'_>) -> bool {
        FullQueue { state: self, now, arriving }.make_room()
    }
}

impl FullQueue<'_> {
    fn make_room(&mut self) -> bool {
        let Arriving { to, delivery, bounds, .. } = *self.arriving;
        if self.state.sessions.get(to.0).is_none() {
            return false;
        }
        if self.state.has_room_after_expiry(self.now, to, &bounds, delivery.cost()) {
            let enters = !self.state.is_over_ceiling_after_expiry(self.now, to) || self.make_room_in_shard();
            if enters && bounds.policy == OverflowPolicy::Block {
                self.pace();
            }
            return enters;
        }
        if let Some(session) = self.state.sessions.get_mut(to.0) {
            session.flow_mut().full_at = Some(bounds);
        }
        match bounds.policy {
            OverflowPolicy::DropNewest => self.refuse(Reason::QueueFullNewest),
            OverflowPolicy::DropOldest => self.drop_oldest(),
            OverflowPolicy::KeepLast => self.keep_last(),
            OverflowPolicy::Disconnect => self.disconnect_slow(),
            OverflowPolicy::Block => self.block(),
            // It could not be refused to anyone: it has QoS 0, is of the broker or of a group, or its route has changed
            // since its room was reserved.
            OverflowPolicy::Reject => self.refuse(Reason::QueueFullReject),
        }
    }

    /// Whether a queue that has room may take a message although the shard is above its ceiling: only in exchange for
    /// one that it holds already.
    #[cold]
    fn make_room_in_shard(&mut self) -> bool {
        let Arriving { to, delivery, bounds, .. } = *self.arriving;
        let mut session = self.state.sessions.get_mut(to.0);
        let flow = session.as_ref().and_then(|session| session.flow.as_ref());
        if flow.is_some_and(|flow| flow.queue.replaceable(delivery).is_some()) {
            return true;
        }
        let exchanges = matches!(bounds.policy, OverflowPolicy::DropOldest | OverflowPolicy::KeepLast);
        let older = session.as_mut().filter(|_| exchanges).and_then(|session| {
            session.pop_least(&mut self.state.memory, &mut self.state.journal, delivery.message.priority)
        });
        match &older {
            Some(older) => self.state.reports().discard_for(Reason::MemoryCeiling, to, &older.message),
            None => self.state.reports().discard_arriving(Reason::MemoryCeiling, self.arriving),
        }
        older.is_some()
    }

    /// Drops the new message. The other policies do so, too, when even an empty queue could not take it.
    fn refuse(&mut self, reason: Reason) -> bool {
        self.state.reports().discard_arriving(reason, self.arriving);
        if let Some(session) = self.state.sessions.get_mut(self.arriving.to.0) {
            session.tell_queue_full(&mut self.state.events, self.now, reason);
        }
        false
    }
}
