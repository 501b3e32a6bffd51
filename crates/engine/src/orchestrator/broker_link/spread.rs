//! Which queues are dealt again when a broker begins to serve.
//!
//! Where topics decide about the broker, `order.rs` moves the messages. With the other policies a queue that is longer
//! than the brokers' mean is dealt again by the policy, piece by piece.

use crate::ids::BrokerLinkKey;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::{Brokers, RoutingPolicy, Stage};
use crate::state::ShardState;

/// The rest of a broker's queue that is to be dealt again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// When the next piece is dealt; [`Millis::NEVER`] if nothing is left.
    pub(crate) at: Millis,
    /// Messages at the front of the queue that were not dealt again yet. Messages dealt to the same broker wait
    /// behind them.
    pub(crate) left: usize,
}

impl Default for Spread {
    fn default() -> Self {
        Self { at: Millis::NEVER, left: 0 }
    }
}

impl Brokers {
    /// A broker has begun to serve: queues that are longer than the mean are dealt again from now on.
    pub(super) fn begin_spread(&mut self, now: Now, state: &mut ShardState) {
        if !self.config.settings().is_some_and(|settings| settings.policy != RoutingPolicy::TopicHash) {
            return;
        }
        let queues: Vec<(BrokerLinkKey, usize)> = self
            .all
            .iter()
            .filter(|(_, broker_link)| broker_link.stage == Stage::Open && broker_link.draining.is_none())
            .map(|(key, broker_link)| (*key, state.sessions.queue_len(broker_link.session)))
            .collect();
        let total: usize = queues.iter().map(|(_, queued)| queued).sum();
        let mean = total.div_ceil(queues.len().max(1));
        for (key, queued) in queues {
            let Some(broker_link) = self.all.get_mut(&key).filter(|_| queued > mean) else { continue };
            broker_link.spread = Spread { at: now.monotonic, left: queued };
            self.set_broker_link_timer(state, key);
        }
    }
}
