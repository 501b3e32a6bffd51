//! Whether all has come that brokers gave out before a moment: what a move of partitions waits for.
//!
//! A broker hands its messages out in order. So whatever it had written for this process has come once it has answered
//! a PINGREQ that was sent behind that moment, unless it holds more than it may have unacknowledged; and whatever this
//! process had given it has come once all of that is acknowledged and has come back.

use super::copies::RECEIVE_MAXIMUM;
use super::id::MessageId;
use super::{Stage, Uplink};
use crate::ids::ConnectionKey;
use crate::ids::UplinkKey;
use crate::now::Now;
use crate::orchestrator::uplink::Brokers;
use crate::state::ShardState;

/// So many messages within one round trip may mean that the broker has held more of them back.
const BUSY: u64 = RECEIVE_MAXIMUM as u64 / 2;

/// What is still to come from brokers, for [`Engine::settle`].
#[derive(Clone, Debug, Default)]
pub struct Settling {
    pub(crate) awaited: Vec<Awaited>,
}

/// What one broker has to say.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    key: UplinkKey,
    connection: ConnectionKey,
    /// The answer to a PINGREQ that was sent behind the moment.
    answers_wanted: u64,
    /// What had come then.
    received: u64,
    /// What the broker had been given then, acknowledged or not.
    sent: u64,
    /// What had not come back when all of that was acknowledged; `None` until it is.
    unreturned: Option<Vec<MessageId>>,
}

impl Brokers {
    /// What an uplink has to say from now on; `None` when it is away.
    pub(crate) fn await_uplink(&mut self, now: Now, state: &mut ShardState, key: UplinkKey) -> Option<Awaited> {
        let uplink = self.all.get_mut(&key)?;
        let connection = uplink.connection?;
        uplink.probe.next = now.monotonic;
        // One answer may be under way to a PINGREQ that was sent before.
        let answers_wanted = uplink.probe.answered + u64::from(uplink.probe.asked.is_some()) + 1;
        let (received, session, acknowledged) =
            (uplink.counters.received, uplink.session, uplink.counters.acknowledged);
        let released = uplink.released;
        let (_, in_flight) = state.sessions.owed_by(session);
        let sent = acknowledged + in_flight.saturating_sub(released);
        self.set_uplink_timer(state, key);
        Some(Awaited { key, connection, answers_wanted, received, sent, unreturned: None })
    }

    pub(crate) fn still_awaited(&mut self, now: Now, state: &mut ShardState, mut awaited: Awaited) -> Option<Awaited> {
        // One that was taken out gives nothing any more.
        let uplink = self.all.get(&awaited.key)?;
        let (_, in_flight) = state.sessions.owed_by(uplink.session);
        let reconnected = uplink.connection.is_some_and(|connection| connection != awaited.connection);
        if uplink.stage != Stage::Open {
            return Some(awaited);
        }
        if reconnected
            || (has_answered(uplink, &awaited) && uplink.counters.received.saturating_sub(awaited.received) >= BUSY)
        {
            return self.await_uplink(now, state, awaited.key);
        }
        // What a broker has refused is neither acknowledged nor in flight.
        let acknowledged = uplink.counters.acknowledged >= awaited.sent || in_flight == 0;
        if !has_answered(uplink, &awaited) || !acknowledged {
            return Some(awaited);
        }
        let mut left = match awaited.unreturned.take() {
            None => uplink.unreturned.keys().copied().collect(),
            Some(left) => left,
        };
        left.retain(|id| uplink.unreturned.contains_key(id));
        awaited.unreturned = Some(left);
        awaited.unreturned.as_ref().is_some_and(|left| !left.is_empty()).then_some(awaited)
    }
}

fn has_answered(uplink: &Uplink, awaited: &Awaited) -> bool {
    uplink.probe.answered >= awaited.answers_wanted
}
