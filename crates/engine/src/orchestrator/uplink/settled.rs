//! Whether all has come that brokers gave out before a moment: what a move of partitions waits for.
//!
//! A broker hands its messages out in order. So whatever it had written for this process has come once it has answered
//! a PINGREQ that was sent behind that moment, unless it holds more than it may have unacknowledged; and whatever this
//! process had given it has come once all of that is acknowledged and has come back.

use super::copies::RECEIVE_MAXIMUM;
use super::id::MessageId;
use super::{Stage, Uplink, UplinkKey};
use crate::desk::Desk;
use crate::engine::Engine;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::orchestrator::uplink::Brokers;

/// So many messages within one round trip may mean that the broker has held more of them back.
const BUSY: u64 = RECEIVE_MAXIMUM as u64 / 2;

/// What is still to come from brokers, for [`Engine::settle`].
#[derive(Clone, Debug, Default)]
pub struct Settling {
    awaited: Vec<Awaited>,
}

/// What one broker has to say.
#[derive(Clone, Debug)]
struct Awaited {
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

impl Engine {
    /// Begins to find out whether all has come that brokers gave out before now. Brokers that are away are left out:
    /// what they have comes, if at all, on another connection.
    pub fn begin_settling(&mut self, now: Now) -> Settling {
        self.desk.journal.now = now;
        let open: Vec<UplinkKey> = self
            .uplinks
            .brokers
            .all
            .iter()
            .filter(|(_, uplink)| uplink.stage == Stage::Open)
            .map(|(key, _)| *key)
            .collect();
        let awaited =
            open.into_iter().filter_map(|key| self.uplinks.brokers.await_uplink(now, &mut self.desk, key)).collect();
        self.after_frame(now);
        Settling { awaited }
    }

    /// The same for one broker.
    pub fn begin_settling_of(&mut self, now: Now, broker: &str) -> Settling {
        self.desk.journal.now = now;
        let key = self.uplinks.brokers.find(broker);
        let asked = key.and_then(|key| self.uplinks.brokers.await_uplink_or_its_connection(now, &mut self.desk, key));
        self.after_frame(now);
        Settling { awaited: asked.into_iter().collect() }
    }

    /// Whether all of it has come. Brokers that have said all are not asked again.
    pub fn settle(&mut self, now: Now, settling: &mut Settling) -> bool {
        self.desk.journal.now = now;
        let awaited = std::mem::take(&mut settling.awaited);
        settling.awaited = awaited
            .into_iter()
            .filter_map(|awaited| self.uplinks.brokers.still_awaited(now, &mut self.desk, awaited))
            .collect();
        self.after_frame(now);
        settling.awaited.is_empty()
    }
}

impl Brokers {
    /// What an uplink has to say from now on; `None` when it is away.
    fn await_uplink(&mut self, now: Now, desk: &mut Desk, key: UplinkKey) -> Option<Awaited> {
        let uplink = self.all.get_mut(&key)?;
        let connection = uplink.connection?;
        uplink.probe.next = now.monotonic;
        // One answer may be under way to a PINGREQ that was sent before.
        let answers_wanted = uplink.probe.answered + u64::from(uplink.probe.asked.is_some()) + 1;
        let (received, session, acknowledged) =
            (uplink.counters.received, uplink.session, uplink.counters.acknowledged);
        let released = uplink.released;
        let (_, in_flight) = desk.sessions.owed_by(session);
        let sent = acknowledged + in_flight.saturating_sub(released);
        self.set_uplink_timer(desk, key);
        Some(Awaited { key, connection, answers_wanted, received, sent, unreturned: None })
    }

    /// The same for one that may be away: it is waited for.
    fn await_uplink_or_its_connection(&mut self, now: Now, desk: &mut Desk, key: UplinkKey) -> Option<Awaited> {
        let nowhere = ConnectionKey { index: u32::MAX, generation: 0 };
        let waits =
            Awaited { key, connection: nowhere, answers_wanted: u64::MAX, received: 0, sent: 0, unreturned: None };
        let is_open = self.all.get(&key)?.stage == Stage::Open;
        if is_open { self.await_uplink(now, desk, key) } else { Some(waits) }
    }

    fn still_awaited(&mut self, now: Now, desk: &mut Desk, mut awaited: Awaited) -> Option<Awaited> {
        // One that was taken out gives nothing any more.
        let uplink = self.all.get(&awaited.key)?;
        let (_, in_flight) = desk.sessions.owed_by(uplink.session);
        let reconnected = uplink.connection.is_some_and(|connection| connection != awaited.connection);
        if uplink.stage != Stage::Open {
            return Some(awaited);
        }
        if reconnected
            || (has_answered(uplink, &awaited) && uplink.counters.received.saturating_sub(awaited.received) >= BUSY)
        {
            return self.await_uplink(now, desk, awaited.key);
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
