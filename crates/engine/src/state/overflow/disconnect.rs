//! The slow reader is disconnected; its session keeps what it may keep.

use crate::now::Millis;
use crate::session::overflow::Arriving;
use crate::state::ShardState;
use crate::telling::reason::Reason;

impl ShardState {
    pub(super) fn disconnect_slow(&mut self, now: Millis, arriving: &Arriving<'_>) -> bool {
        let connected = self.sessions.get(arriving.to.0).and_then(|session| session.connection);
        let Some(key) = connected else { return self.refuse(now, arriving, Reason::QueueFullNewest) };
        if arriving.publisher.is_some_and(|publisher| publisher.connection == key && publisher.shard == self.shard) {
            // Its own message filled its queue. It would send that again as soon as it is back, find its queue as full
            // as now, and never come further.
            return self.refuse(now, arriving, Reason::QueueFullNewest);
        }
        self.reports().discard_arriving(Reason::QueueFullDisconnect, arriving);
        self.to_close.push((key, Reason::QueueFullDisconnect, None));
        false
    }
}
