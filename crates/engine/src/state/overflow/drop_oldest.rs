//! The oldest waiting message makes room: of the least priority, and never one of a higher priority than the new one.

use crate::events::reason::Reason;
use crate::session::overflow::Arriving;
use crate::state::overflow::FullQueue;

impl FullQueue<'_> {
    pub(super) fn drop_oldest(&mut self) -> bool {
        let Arriving { to, delivery, bounds, .. } = *self.arriving;
        if !bounds.fits(0, 0, delivery.cost()) {
            return self.refuse(Reason::QueueFullNewest);
        }
        if let Some(session) = self.state.sessions.get_mut(to.0) {
            session.tell_queue_full(&mut self.state.events, self.now, Reason::QueueFullOldest);
        }
        let (reserved, reserved_bytes) = self.state.reservations.of(to);
        loop {
            let Some(session) = self.state.sessions.get_mut(to.0) else { return false };
            let Some(flow) = session.flow.as_ref() else { return false };
            let (waiting, waiting_bytes) = flow.waiting();
            if bounds.fits(waiting + reserved, waiting_bytes + reserved_bytes, delivery.cost()) {
                return true;
            }
            let priority = delivery.message.priority;
            let Some(older) = session.pop_least(&mut self.state.memory, &mut self.state.journal, priority) else {
                self.state.reports().discard_arriving(Reason::QueueFullNewest, self.arriving);
                return false;
            };
            self.state.reports().discard_for(Reason::QueueFullOldest, to, &older.message);
        }
    }
}
