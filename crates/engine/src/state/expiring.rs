//! Queued messages expire.

use crate::events::reason::Reason;
use crate::ids::SessionKey;
use crate::message::MessageRef;
use crate::now::Millis;
use crate::session::Delivery;
use crate::settings::overflow::Bounds;
use crate::state::ShardState;
use crate::state::tail::shed_copies;

impl ShardState {
    /// True if a queue has room for a message of this cost, after expired messages have left it.
    pub(crate) fn has_room_after_expiry(&mut self, now: Millis, to: SessionKey, bounds: &Bounds, cost: u64) -> bool {
        loop {
            let (reserved, reserved_bytes) = self.reservations.of(to);
            let session = self.sessions.get(to.0);
            let flow = session.and_then(|session| session.flow.as_ref());
            let (waiting, bytes) = flow.map_or((0, 0), |flow| flow.waiting());
            if bounds.fits(waiting + reserved, bytes + reserved_bytes, cost) {
                return true;
            }
            if self.expire_next(now, to) == 0 {
                return false;
            }
        }
    }

    /// True if the shard is above its memory ceiling also after copies of stored messages have been shed, and expired messages
    /// have left this queue.
    pub(crate) fn is_over_ceiling_after_expiry(&mut self, now: Millis, to: SessionKey) -> bool {
        while self.memory.is_over_ceiling() {
            let has_shed = shed_copies(&mut self.copied, &mut self.sessions, &mut self.memory);
            if !has_shed && self.expire_next(now, to) == 0 {
                return true;
            }
        }
        false
    }

    /// Removes the first expired message of a session's queue in memory, or some expired ones in the store; returns how
    /// many messages.
    pub(crate) fn expire_next(&mut self, now: Millis, to: SessionKey) -> u64 {
        let Some(session) = self.sessions.get_mut(to.0) else { return 0 };
        let Some(flow) = session.flow.as_mut() else { return 0 };
        let Some(delivery) = flow.queue.pop_expired(now) else {
            let expired = session.expire_in_tail(&mut self.memory, &mut self.journal, now);
            // Without a tail the window is wider, above the ceiling.
            let waits = session.flow.as_ref().is_some_and(|flow| flow.tail.is_none() && !flow.queue.is_empty());
            self.counters.dropped[Reason::MessageExpired.number()] += expired;
            self.counters.drop_for_pipeline(&session.client_id, expired);
            if expired > 0 && waits {
                self.refill_soon(to);
            }
            return expired;
        };
        flow.queue_bytes -= delivery.cost();
        self.memory.forget_queued(delivery.cost());
        self.drop_expired(to, &delivery);
        1
    }

    /// A message that was taken from a queue has expired.
    pub(crate) fn drop_expired(&mut self, to: SessionKey, delivery: &Delivery) {
        let message: &MessageRef = &delivery.message;
        self.reports().discard_for(Reason::MessageExpired, to, message);
        let stored = self.sessions.get(to.0).and_then(|session| session.stored);
        self.journal.forget_stored(stored, delivery.number);
    }
}
