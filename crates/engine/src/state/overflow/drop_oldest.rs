//! The oldest waiting message makes room: of the least priority, and never one of a higher priority than the new one.

use crate::now::Millis;
use crate::session::overflow::Arriving;
use crate::state::ShardState;
use crate::telling::reason::Reason;

impl ShardState {
    pub(super) fn drop_oldest(&mut self, now: Millis, arriving: &Arriving<'_>) -> bool {
        let Arriving { to, delivery, bounds, .. } = *arriving;
        if !bounds.fits(0, 0, delivery.cost()) {
            return self.refuse(now, arriving, Reason::QueueFullNewest);
        }
        if let Some(session) = self.sessions.get_mut(to.0) {
            session.tell_queue_full(&mut self.events, now, Reason::QueueFullOldest);
        }
        let (reserved, reserved_bytes) = self.reservations.of(to);
        loop {
            let Some(session) = self.sessions.get_mut(to.0) else { return false };
            let Some(flow) = session.flow.as_ref() else { return false };
            let (waiting, waiting_bytes) = flow.waiting();
            if bounds.fits(waiting + reserved, waiting_bytes + reserved_bytes, delivery.cost()) {
                return true;
            }
            let priority = delivery.message.priority;
            let Some(older) = session.pop_least(&mut self.memory, &mut self.journal, priority) else {
                self.reports().discard_arriving(Reason::QueueFullNewest, arriving);
                return false;
            };
            self.reports().discard_for(Reason::QueueFullOldest, to, &older.message);
        }
    }
}
