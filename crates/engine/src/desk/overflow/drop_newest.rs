//! The new message is dropped.

use crate::desk::Desk;
use crate::now::Millis;
use crate::session::overflow::Arriving;
use crate::telling::reason::Reason;

impl Desk {
    /// Nothing is dropped in vain for a message that not even an empty queue could take, so other policies end here,
    /// too.
    pub(super) fn drop_newest(&mut self, now: Millis, arriving: &Arriving<'_>) -> bool {
        self.reports().discard_arriving(Reason::QueueFullNewest, arriving);
        if let Some(session) = self.sessions.get_mut(arriving.to.0) {
            session.tell_queue_full(&mut self.events, now, Reason::QueueFullNewest);
        }
        false
    }
}
