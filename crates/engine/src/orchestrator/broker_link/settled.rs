//! Whether all messages have arrived that brokers sent before a moment. A move of partitions waits for this.
//!
//! A broker sends its messages in order. The messages that it had written for this process have therefore arrived once
//! it has answered a PINGREQ that was sent after the moment, unless it holds more messages than it may have
//! unacknowledged. Such a broker has delivered them when it brings back a message of this process that was sent after
//! the moment. The messages that this process had sent to it have arrived once all of them are acknowledged and have
//! been received back.

use super::id::MessageId;
use super::{BrokerLink, Stage};
use crate::ids::BrokerLinkKey;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::orchestrator::broker_link::Brokers;
use crate::state::ShardState;

/// With this many messages within one round trip, the broker may have held more of them back.
/// A broker may have a smaller window than [`RECEIVE_MAXIMUM`](super::copies::RECEIVE_MAXIMUM): a lower limit only makes
/// a move wait more often.
const BUSY: u64 = 128;

/// The messages of brokers that have still to arrive, for [`FleetCalls::settle`](crate::FleetCalls::settle).
#[derive(Clone, Debug, Default)]
pub struct Settling {
    pub(crate) awaited: Vec<Awaited>,
    /// Brokers of an earlier process have still to be named, and may have messages.
    pub(crate) awaits_names: bool,
}

/// The messages of one broker that have still to arrive.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    key: BrokerLinkKey,
    connection: ConnectionKey,
    /// The number of answered PINGREQs that shows that one sent after the moment is answered.
    answers_wanted: u64,
    /// Messages received before the moment.
    received: u64,
    /// Messages sent to the broker before the moment, acknowledged or not.
    sent: u64,
    /// The number of the last message of this process before the moment.
    own: u64,
    /// Messages that had not been received back when all sent ones were acknowledged; `None` until then.
    unreturned: Option<Vec<MessageId>>,
}

impl Awaited {
    /// All messages of a broker that is disconnected: they arrive on its next connection.
    pub(crate) fn of_disconnected(key: BrokerLinkKey) -> Self {
        let connection = ConnectionKey { index: u32::MAX, generation: 0 };
        Self { key, connection, answers_wanted: u64::MAX, received: 0, sent: 0, own: 0, unreturned: None }
    }

    /// The messages that a broker has sent before now; `None` when it is disconnected. CONNACK begins a new count of
    /// answers.
    /// `own` is the number of the last message of this process.
    pub(crate) fn begin(
        brokers: &mut Brokers,
        now: Now,
        state: &mut ShardState,
        key: BrokerLinkKey,
        own: u64,
    ) -> Option<Self> {
        let broker_link = brokers.all.get_mut(&key).filter(|broker_link| broker_link.stage == Stage::Open)?;
        let connection = broker_link.connection?;
        broker_link.probe.next = now.monotonic;
        // One answer may be under way to a PINGREQ that was sent before.
        let answers_wanted = broker_link.probe.answered + u64::from(broker_link.probe.asked.is_some()) + 1;
        let (received, session, acknowledged) =
            (broker_link.counters.received, broker_link.session, broker_link.counters.acknowledged);
        let released = broker_link.released;
        let (_, in_flight) = state.sessions.owed_by(session);
        let sent = acknowledged + in_flight.saturating_sub(released);
        brokers.set_broker_link_timer(state, key);
        Some(Self { key, connection, answers_wanted, received, sent, own, unreturned: None })
    }

    /// The messages of a broker that have still to arrive; `None` when all have.
    pub(crate) fn remaining(
        mut self,
        brokers: &mut Brokers,
        now: Now,
        state: &mut ShardState,
        own: u64,
    ) -> Option<Self> {
        // A removed broker sends nothing more.
        let broker_link = brokers.all.get(&self.key)?;
        let (_, in_flight) = state.sessions.owed_by(broker_link.session);
        let reconnected = broker_link.connection.is_some_and(|connection| connection != self.connection);
        if broker_link.stage != Stage::Open {
            return Some(self);
        }
        if reconnected || (has_answered(broker_link, &self) && is_busy(broker_link, &self)) {
            return Self::begin(brokers, now, state, self.key, own);
        }
        // A message that a broker has refused is neither acknowledged nor in flight.
        let acknowledged = broker_link.counters.acknowledged >= self.sent || in_flight == 0;
        if !has_answered(broker_link, &self) || !acknowledged {
            return Some(self);
        }
        let mut left = match self.unreturned.take() {
            None => broker_link.unreturned.keys().copied().collect(),
            Some(left) => left,
        };
        left.retain(|id| broker_link.unreturned.contains_key(id));
        let is_over = left.is_empty();
        self.unreturned = Some(left);
        (!is_over).then_some(self)
    }
}

impl Awaited {
    /// Like [`remaining`](Self::remaining), for another member: the messages of this process do not count. On the
    /// connection of a dead orchestrator the broker may be held up by messages that wait for other members.
    pub(crate) fn remaining_for_another(
        self,
        brokers: &mut Brokers,
        now: Now,
        state: &mut ShardState,
        own: u64,
    ) -> Option<Self> {
        let broker_link = brokers.all.get(&self.key)?;
        let reconnected = broker_link.connection != Some(self.connection);
        if !reconnected && !has_answered(broker_link, &self) {
            return Some(self);
        }
        let is_held_up = broker_link.adopted.as_ref().is_some_and(|adopted| adopted.unanswered.len() as u64 >= BUSY);
        if reconnected || is_held_up || is_busy(broker_link, &self) {
            let key = self.key;
            return Some(Self::begin(brokers, now, state, key, own).unwrap_or_else(|| Self::of_disconnected(key)));
        }
        None
    }
}

/// Whether the broker may have held messages back, since this process had many of it without an acknowledgement.
fn is_busy(broker_link: &BrokerLink, awaited: &Awaited) -> bool {
    broker_link.counters.received.saturating_sub(awaited.received) >= BUSY && broker_link.last_own <= awaited.own
}

fn has_answered(broker_link: &BrokerLink, awaited: &Awaited) -> bool {
    broker_link.probe.answered >= awaited.answers_wanted
}
