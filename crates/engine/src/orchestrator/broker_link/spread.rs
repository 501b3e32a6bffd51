//! Which queues are dealt again when a broker begins to serve, or has nothing more to do.
//!
//! Where topics decide about the broker, `order.rs` moves the messages. With the other policies a queue that is longer
//! than the brokers' mean is dealt again by the policy, piece by piece.

use crate::ids::BrokerLinkKey;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::{BrokerLink, Brokers, RoutingPolicy, Stage};
use crate::state::ShardState;

/// A queue of at most this many messages is not dealt again because another broker has nothing to do: it is soon sent.
const LONG_QUEUE: usize = 256;

/// Time to the next look whether another broker has nothing to do, milliseconds: at first, and at most. It doubles each time
/// the queue is dealt again: a broker may have nothing to do since it refuses these messages.
const LOOK_PAUSE_MS: (u64, u64) = (100, 5_000);

/// The rest of a broker's queue that is to be dealt again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// When the next piece is dealt, or with nothing left the next look at a long queue; [`Millis::NEVER`] if the queue is
    /// not long.
    pub(crate) at: Millis,
    /// Messages at the front of the queue that were not dealt again yet. Messages dealt to the same broker wait
    /// behind them.
    pub(crate) left: usize,
    /// Time to the next look, milliseconds.
    pause_ms: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { at: Millis::NEVER, left: 0, pause_ms: LOOK_PAUSE_MS.0 }
    }
}

impl Spread {
    /// The whole queue is dealt again from now on.
    fn begin(&mut self, queued: usize, now: Now) {
        (self.at, self.left) = (now.monotonic, queued);
        self.pause_ms = LOOK_PAUSE_MS.1.min(2 * self.pause_ms);
    }

    /// Nothing is left. The queue is looked at later.
    pub(crate) fn rest(&mut self, now: Now) {
        (self.at, self.left) = (now.monotonic.plus(self.pause_ms), 0);
    }
}

impl Brokers {
    /// A broker has begun to serve: queues that are longer than the mean are dealt again from now on.
    pub(super) fn begin_spread(&mut self, now: Now, state: &mut ShardState) {
        let serving = BrokerQueues::of(self, state);
        if !serving.deals_again() {
            return;
        }
        let queues = serving.serving();
        let total: usize = queues.iter().map(|(_, queued)| queued).sum();
        let mean = total.div_ceil(queues.len().max(1));
        for (key, queued) in queues {
            let Some(broker_link) = self.all.get_mut(&key).filter(|_| queued > mean) else { continue };
            broker_link.spread.begin(queued, now);
            self.set_broker_link_timer(state, key);
        }
    }
}

/// The queues of the brokers that get messages.
pub(crate) struct BrokerQueues<'a> {
    brokers: &'a mut Brokers,
    state: &'a ShardState,
}

impl<'a> BrokerQueues<'a> {
    pub(crate) fn of(brokers: &'a mut Brokers, state: &'a ShardState) -> Self {
        Self { brokers, state }
    }

    /// Looks from now on whether other brokers have nothing to do while the queue of this one is long.
    pub(crate) fn watch(&mut self, now: Now, key: BrokerLinkKey) {
        let deals_again = self.deals_again();
        let broker_link = self.brokers.all.get_mut(&key);
        let Some(broker_link) = broker_link.filter(|it| deals_again && it.spread.at == Millis::NEVER) else { return };
        if self.state.sessions.queue_len(broker_link.session) > LONG_QUEUE {
            broker_link.spread.rest(now);
        }
    }

    /// A long queue is dealt again if another broker has nothing to do: it is faster than this one.
    pub(crate) fn look_at(&mut self, now: Now, key: BrokerLinkKey) {
        let queues = self.serving();
        let has_idle = queues.iter().any(|(_, queued)| *queued == 0);
        let own = queues.into_iter().find(|(of, _)| *of == key).map_or(0, |(_, queued)| queued);
        let Some(broker_link) = self.brokers.all.get_mut(&key) else { return };
        match own {
            0..=LONG_QUEUE => broker_link.spread = Spread::default(),
            _ if has_idle => broker_link.spread.begin(own, now),
            _ => broker_link.spread.rest(now),
        }
    }

    /// Whether topics have no brokers of their own.
    fn deals_again(&self) -> bool {
        self.brokers.config.settings().is_some_and(|settings| settings.policy != RoutingPolicy::TopicHash)
    }

    /// The number of messages that wait for each broker.
    fn serving(&self) -> Vec<(BrokerLinkKey, usize)> {
        let serves = |link: &BrokerLink| link.stage == Stage::Open && link.draining.is_none();
        let serving = self.brokers.all.iter().filter(|(_, broker_link)| serves(broker_link));
        serving.map(|(key, broker_link)| (*key, self.state.sessions.queue_len(broker_link.session))).collect()
    }
}
