//! A message above QoS 0 is refused to its publisher before anyone gets it; see [`crate::publish::admission`].

use crate::desk::Desk;
use crate::now::Millis;
use crate::session::overflow::Arriving;
use crate::telling::reason::Reason;

impl Desk {
    /// A message that could not be refused to anyone: of QoS 0 or the broker's own, dealt by a group, or one whose
    /// route has changed since its room was reserved.
    pub(super) fn reject_late(&mut self, now: Millis, arriving: &Arriving<'_>) -> bool {
        self.reports().discard_arriving(Reason::QueueFullReject, arriving);
        if let Some(session) = self.sessions.get_mut(arriving.to.0) {
            session.tell_queue_full(&mut self.events, now, Reason::QueueFullReject);
        }
        false
    }
}
