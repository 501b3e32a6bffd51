//! The newest message of a topic replaces the waiting older one of the same topic, also where there is room. A queue
//! that is full of other topics gives up its oldest message.

use crate::events::reason::Reason;
use crate::ids::SessionKey;
use crate::session::Delivery;
use crate::session::overflow::Arriving;
use crate::state::ShardState;
use crate::state::overflow::FullQueue;

impl FullQueue<'_> {
    pub(super) fn keep_last(&mut self) -> bool {
        let Arriving { to, delivery, bounds, .. } = *self.arriving;
        let Some(flow) = self.state.sessions.get(to.0).and_then(|session| session.flow.as_ref()) else { return false };
        let older = flow.queue.replaceable(delivery).map(Delivery::cost);
        if older.is_some_and(|older| flow.queue_bytes - older + delivery.cost() <= bounds.max_bytes) {
            return true;
        }
        self.drop_oldest()
    }
}

impl ShardState {
    /// A message that waited was replaced by a newer one of its topic.
    #[cold]
    pub(crate) fn drop_replaced(&mut self, to: SessionKey, older: &Delivery) {
        let cost = older.cost();
        let Some(session) = self.sessions.get_mut(to.0) else { return };
        let stored = session.stored;
        // The message that replaced it may not need the window that it waited for.
        let connected = session.connection.is_some();
        if let Some(flow) = session.flow.as_mut() {
            flow.queue_bytes -= cost;
        }
        if connected {
            self.refill_soon(to);
        }
        self.memory.forget_queued(cost);
        self.journal.forget_stored(stored, older.number);
        self.reports().discard_for(Reason::QueueReplaced, to, &older.message);
    }
}
