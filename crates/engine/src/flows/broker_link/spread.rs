//! A broker's queue is dealt again when another one begins to serve, or has nothing more to do.

use crate::flows::contexts::Dealing;
use crate::ids::BrokerLinkKey;
use crate::now::Now;
use crate::orchestrator::broker_link::settle::{ReassignTo, take_front};
use crate::orchestrator::broker_link::spread::BrokerQueues;

/// Messages that are dealt again in one turn.
const PIECE_MESSAGES: usize = 256;

/// Time between two pieces, milliseconds, in which other work has its turn.
const PIECE_PAUSE_MS: u64 = 1;

impl Dealing<'_> {
    /// Deals the next piece of a broker's queue again, if it is time.
    pub(crate) fn spread_piece(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        if broker_link.spread.at > now.monotonic {
            return;
        }
        if broker_link.spread.left == 0 {
            BrokerQueues::of(&mut self.broker_links.brokers, self.state).look_at(now, key);
        }
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key).filter(|it| it.spread.left > 0) else {
            return;
        };
        let (session, most) = (broker_link.session, broker_link.spread.left.min(PIECE_MESSAGES));
        let share = self.state.settings.queue.lower_priority_share;
        let flow = self.state.sessions.get_mut(session.0).and_then(|session| session.flow.as_mut());
        let piece = flow.map_or_else(Vec::new, |flow| take_front(flow, most, share));
        broker_link.spread.left -= most;
        // A queue that has become empty has been sent in the meantime.
        let done = broker_link.spread.left == 0 || piece.len() < most;
        if done {
            broker_link.spread.rest(now);
        } else {
            broker_link.spread.at = now.monotonic.plus(PIECE_PAUSE_MS);
        }
        self.deal_queue(now, key, piece, ReassignTo::AnyBroker);
        self.broker_links.brokers.open_window(now, self.state, self.layouts, key);
    }
}
