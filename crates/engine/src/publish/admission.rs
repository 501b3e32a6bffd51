//! Whether a message may come in where queues reject: room is reserved at all of its subscribers above QoS 0 before any
//! of them gets it.
//!
//! A PUBLISH that has to wait, for other shards' answers or for room, is put back to the packets that its publisher has
//! parked, and comes again when its turn does. What was decided meanwhile stands at its connection.

use crate::connection::table::Connections;
use crate::desk::Desk;
use crate::durable::Journal;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::message::Publication;
use crate::now::Millis;
use crate::publish::stages::{Rejection, Step};
use crate::session::BlockedPublisher;
use crate::settings::OverflowPolicy;
use crate::telling::reason::Reason;
use crate::topics::Route;
use std::collections::BTreeMap;
use tidegate_mqtt::QoS;

/// What is known of the message that a publisher waits with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reserving {
    /// No room was asked for.
    #[default]
    Not,
    /// Other shards were asked under this number.
    Asked(u32),
    /// All have room, and keep it under this number at these shards, one bit each.
    Granted { number: u32, shards: u64 },
    /// Somebody has no room.
    Refused,
}

/// A message for which other shards were asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) connection: ConnectionKey,
    /// Shards that have not answered, one bit each.
    pub(crate) waiting: u64,
    pub(crate) granted: u64,
    pub(crate) refused: bool,
    /// Whether queues without room were asked to say when they have some.
    pub(crate) waits: bool,
}

/// Messages for which other shards were asked, by number: one for each parked publisher at most.
#[derive(Debug, Default)]
pub(crate) struct Admissions {
    pub(crate) asked: BTreeMap<u32, Asked>,
    pub(crate) next: u32,
}

/// A message as far as room for it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub tenant: TenantId,
    pub topic: &'a str,
    pub qos: QoS,
    /// Bytes that it counts for in a queue.
    pub cost: u64,
}

impl<'a> Wanted<'a> {
    /// Room for a message.
    pub(crate) fn of(publication: &Publication<'a>) -> Self {
        let (tenant, topic, qos) = (publication.tenant, publication.topic, publication.qos);
        Self { tenant, topic, qos, cost: publication.delivery_cost() }
    }
}

/// Queues that reject a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// How many of them will say when they have room; at least 1.
    pub(crate) asked: u32,
    /// Whose the first of them is.
    pub(crate) first: SessionKey,
}

impl Desk {
    /// The sessions of a route that reject what they have no room for, if all of them have it. Those without room note
    /// who waits for it, if anyone does; their number is returned.
    pub(crate) fn rejecting(
        &mut self,
        now: Millis,
        route: &Route,
        wanted: &Wanted<'_>,
        not_to: Option<SessionKey>,
        waits: Option<BlockedPublisher>,
    ) -> Result<Vec<SessionKey>, Full> {
        let mut sessions = Vec::new();
        let (mut first, mut asked) = (None, 0);
        for target in route.targets() {
            let qos = target.qos().min(wanted.qos);
            if self.sessions.get(target.session.0).is_none() {
                // It has ended, and its subscriptions are being removed.
                continue;
            }
            let own = target.options.no_local() && not_to == Some(target.session);
            let bounds = self.overflow.bounds_of(&self.sessions, target.session, wanted.topic);
            if qos == QoS::AtMostOnce || own || bounds.policy != OverflowPolicy::Reject {
                continue;
            }
            if self.has_room_now(now, target.session, wanted) {
                sessions.push(target.session);
                continue;
            }
            first = first.or(Some(target.session));
            let Some(flow) = self.sessions.get_mut(target.session.0).map(crate::session::Session::flow_mut) else {
                continue;
            };
            flow.full_at = Some(bounds);
            if let Some(publisher) = waits {
                if !flow.blocking.contains(&publisher) {
                    flow.blocking.push(publisher);
                    asked += 1;
                }
                self.blockers.insert(target.session.0);
            }
        }
        first.map_or(Ok(sessions), |first| Err(Full { asked: asked.max(1), first }))
    }

    /// Whether a session's queue can take a message without dropping any, after what has expired has left it.
    pub(crate) fn has_room_now(&mut self, now: Millis, to: SessionKey, wanted: &Wanted<'_>) -> bool {
        if !self.has_queue_room(to, wanted) {
            let bounds = self.overflow.bounds_of(&self.sessions, to, wanted.topic);
            self.has_room_after_expiry(now, to, &bounds, wanted.cost);
            self.is_over_ceiling_after_expiry(now, to);
        }
        self.has_queue_room(to, wanted)
    }

    /// Whether a session's queue could take a message now without dropping any.
    fn has_queue_room(&self, to: SessionKey, wanted: &Wanted<'_>) -> bool {
        let Some(session) = self.sessions.get(to.0) else { return false };
        let bounds = self.overflow.bounds_of(&self.sessions, to, wanted.topic);
        let (reserved, reserved_bytes) = self.reservations.of(to);
        let (waiting, bytes) = session.flow.as_ref().map_or((0, 0), |flow| flow.waiting());
        let away = session.connection.is_none();
        let queues = waiting > 0 || away;
        if away && wanted.qos == QoS::AtMostOnce && !self.settings.queue.keep_qos0_offline {
            return false;
        }
        bounds.fits(waiting + reserved, bytes + reserved_bytes, wanted.cost)
            && !(queues && self.memory.is_over_ceiling())
    }
}

impl Connections {
    /// The acknowledgement of a connection is not withheld any more.
    pub(crate) fn end_withholding(&mut self, key: ConnectionKey) {
        if let Some(extra) = self.get_mut(key).and_then(|connection| connection.extra.as_mut()) {
            extra.withheld_until = Millis::NEVER;
        }
    }
}

impl Journal {
    /// Some queue has no room, or the store has none for what a subscriber of another shard would have stored.
    pub(crate) fn no_room(&self, whose: Option<SessionKey>) -> Step {
        if self.full {
            return Reason::StoreFull.into();
        }
        Step::Reject(Rejection { reason: Reason::QueueFullReject, whose })
    }
}

impl Admissions {
    /// Each question has a publisher that waits for its answer.
    pub(crate) fn audit(&self, desk: &Desk, is_alone: bool, wrong: &mut dyn FnMut(String)) {
        desk.reservations.audit(wrong);
        for (number, asked) in &self.asked {
            let connection = desk.connections.get(asked.connection);
            let extra = connection.and_then(|connection| connection.extra.as_ref());
            if extra.is_none_or(|extra| extra.reserving != Reserving::Asked(*number) || extra.parked.is_none()) {
                wrong(format!("room number {number} was asked for and no publisher waits for it"));
            }
        }
        if is_alone && desk.reservations.len() > 0 {
            wrong("room is reserved although there is no other shard".into());
        }
    }
}
