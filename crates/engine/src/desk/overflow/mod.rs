//! A queue is full, and its policy acts.

mod block;
mod disconnect;
mod drop_newest;
mod drop_oldest;
mod keep_last;
mod reject;

use crate::desk::Desk;
use crate::ids::SessionKey;
use crate::now::Millis;
use crate::session::Delivery;
use crate::session::overflow::Arriving;
use crate::settings::OverflowPolicy;
use crate::telling::reason::Reason;

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
