//! The slow reader is disconnected; its session keeps its queue within the limits.

use crate::events::reason::Reason;
use crate::state::overflow::FullQueue;

impl FullQueue<'_> {
    pub(super) fn disconnect_slow(&mut self) -> bool {
        let connected = self.state.sessions.get(self.arriving.to.0).and_then(|session| session.connection);
        let Some(key) = connected else { return self.refuse(Reason::QueueFullNewest) };
        if self
            .arriving
            .publisher
            .is_some_and(|publisher| publisher.connection == key && publisher.shard == self.state.shard)
        {
            // Its own message filled its queue. It would send that again as soon as it is back, find its queue as full
            // as now, and never come further.
            return self.refuse(Reason::QueueFullNewest);
        }
        self.state.reports().discard_arriving(Reason::QueueFullDisconnect, self.arriving);
        self.state.to_close.push((key, Reason::QueueFullDisconnect, None));
        false
    }
}
