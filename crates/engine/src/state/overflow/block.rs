//! The publisher waits.

use crate::event::Delay;
use crate::events::reason::Reason;
use crate::session::overflow::Arriving;
use crate::session::{Flow, Session};
use crate::settings::overflow::Bounds;
use crate::state::overflow::FullQueue;
use tidegate_mqtt::QoS;

impl Flow {
    /// Whether a queue takes no message even from a publisher that waits with the next one. A publisher is asked to wait as
    /// soon as the limit is reached. Messages in flight by then still enter: one of each publisher, and those on their way
    /// from other shards.
    fn is_beyond(&self, bounds: &Bounds, link_bytes: u64) -> bool {
        self.waiting().1 >= bounds.max_bytes.saturating_mul(2).saturating_add(link_bytes)
    }
}

impl Session {
    /// Whether a queue that blocks refuses a message for which it has no room, and lets its publisher wait no more. The
    /// queue of a disconnected client drops it, and no publisher learns of that.
    pub(crate) fn blocks_no_more(&self, bounds: &Bounds, link_bytes: u64) -> bool {
        let refuses = |flow: &Flow| flow.block_given_up || flow.is_beyond(bounds, link_bytes);
        self.connection.is_some() && self.flow.as_deref().is_some_and(refuses)
    }
}

impl FullQueue<'_> {
    pub(super) fn block(&mut self) -> bool {
        let Arriving { to, publisher, bounds, .. } = *self.arriving;
        let link_bytes = self.state.settings.limits.shard_link_bytes;
        let over_ceiling = self.state.memory.is_over_ceiling();
        let Some(session) = self.state.sessions.get_mut(to.0) else { return false };
        let takes = session.connection.is_some();
        let Some(publisher) = publisher.filter(|_| takes && !over_ceiling) else {
            return self.refuse(Reason::QueueFullNewest);
        };
        let flow = session.flow_mut();
        flow.pace.end(flow.waiting().0);
        let is_beyond = flow.is_beyond(&bounds, link_bytes);
        let flow_gave_up = flow.block_given_up;
        let reason = if flow_gave_up { Reason::BlockedTooLong } else { Reason::QueueFullNewest };
        if flow_gave_up || is_beyond {
            // A client that fills its own queue would be refused at each attempt, before it can read.
            let is_own = publisher.shard == self.state.shard && session.connection == Some(publisher.connection);
            self.state.gave_up |= self.arriving.delivery.qos != QoS::AtMostOnce && !is_own;
            self.state.reports().discard_arriving(reason, self.arriving);
            return false;
        }
        if !flow.blocking.contains(&publisher) {
            flow.blocking.push(publisher);
            self.state.blockers.insert(to.0);
            self.state.to_park.push(publisher);
            if publisher.shard == self.state.shard {
                let delay = Delay::Queue(Some(session.client_id.to_string()));
                self.state.reports().tell_delayed(delay, publisher.connection);
            }
        }
        true
    }
}
