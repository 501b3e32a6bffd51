//! Whether a message may come in where queues reject: room is reserved at all of its subscribers above QoS 0 before any
//! of them gets it.
//!
//! A PUBLISH that has to wait, for other shards' answers or for room, is put back to the packets that its publisher has
//! parked, and comes again when its turn does. What was decided meanwhile stands at its connection.

use crate::connection::parking::{Parking, parking};
use crate::connection::table::Connections;
use crate::desk::Desk;
use crate::durable::Journal;
use crate::event::Delay;
use crate::ids::{ConnectionKey, SessionKey, ShardId, TenantId};
use crate::link::record::Record;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::publish::deciding::Deciding;
use crate::publish::publishing::publishing;
use crate::publish::stages::{Deferral, Rejection, Step};
use crate::session::BlockedPublisher;
use crate::settings::OverflowPolicy;
use crate::telling::reason::Reason;
use crate::topics::{Route, RouteSlot};
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
    asked: BTreeMap<u32, Asked>,
    next: u32,
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
struct Full {
    /// How many of them will say when they have room; at least 1.
    asked: u32,
    /// Whose the first of them is.
    first: SessionKey,
}

impl Desk {
    /// The sessions of a route that reject what they have no room for, if all of them have it. Those without room note
    /// who waits for it, if anyone does; their number is returned.
    fn rejecting(
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

impl Deciding<'_> {
    /// Asks for room for a message at all who reject what they have no room for.
    #[cold]
    pub(crate) fn admit(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: Option<SessionKey>,
        slot: RouteSlot,
        publication: &Publication<'_>,
    ) -> Step {
        let Some(connection) = self.desk.connections.get_mut(key) else { return Step::Done };
        // Nobody would say when the store has room.
        let waits = !connection.version.is_v5() && !self.desk.journal.full;
        let leaving = connection.leaving;
        let before = connection.extra.as_mut().map_or(Reserving::Not, |extra| std::mem::take(&mut extra.reserving));
        let (_, route) = self.cache.get(slot);
        let wanted = Wanted::of(publication);
        match before {
            Reserving::Granted { number, shards } => {
                self.commit(number, shards, self.links.roster.living(route.remote_bits()));
                self.desk.connections.end_withholding(key);
                return Step::Continue;
            }
            Reserving::Asked(number) => {
                // It has waited as long as it may.
                self.abandon(number);
                return self.desk.journal.no_room(None);
            }
            Reserving::Refused if !waits => return self.desk.journal.no_room(None),
            Reserving::Refused | Reserving::Not => {}
        }
        let publisher = BlockedPublisher { shard: self.place.shard, connection: key };
        let remote = self.links.roster.living(route.remote_bits());
        match self.desk.rejecting(now.monotonic, route, &wanted, session, Some(publisher).filter(|_| waits && !leaving))
        {
            Err(_) if leaving && waits => Step::Done,
            Err(full) if waits => {
                let (shard, whose) = (self.place.shard, Some(full.first));
                Step::Defer(Deferral::Queues { shard, full: full.asked, whose })
            }
            Err(full) => self.desk.journal.no_room(Some(full.first)),
            Ok(_) if remote == 0 || leaving => {
                self.desk.connections.end_withholding(key);
                Step::Continue
            }
            Ok(sessions) => {
                self.ask_for_room(key, &wanted, &sessions, remote, waits);
                Step::Defer(Deferral::Answers)
            }
        }
    }

    /// Reserves room at these queues of this shard, and asks these other shards for it.
    fn ask_for_room(
        &mut self,
        key: ConnectionKey,
        wanted: &Wanted<'_>,
        sessions: &[SessionKey],
        remote: u64,
        waits: bool,
    ) {
        let number = self.admissions.next;
        self.admissions.next = number.wrapping_add(1);
        self.desk.reservations.keep((self.place.shard, number), sessions, wanted.cost);
        let asked = Asked { connection: key, waiting: remote, granted: 0, refused: false, waits };
        self.admissions.asked.insert(number, asked);
        let Wanted { tenant, topic, qos, cost } = *wanted;
        for shard in shards_of(remote) {
            let waits = waits.then_some(key);
            self.links.send(shard, Record::Reserve { number, tenant, topic, qos, cost, waits });
        }
        if let Some(connection) = self.desk.connections.get_mut(key) {
            connection.extra_mut().reserving = Reserving::Asked(number);
        }
    }

    /// The message goes its way: what was kept for it is used by it.
    pub(crate) fn commit(&mut self, number: u32, shards: u64, remote: u64) {
        self.desk.reservations.release((self.place.shard, number));
        for shard in shards_of(shards) {
            // Where nobody wants it any more, nothing will be sent that could use it.
            let used = remote & (1 << shard.0) != 0;
            self.links.send(shard, if used { Record::Commit { number } } else { Record::Release { number } });
        }
    }

    /// The message does not go its way.
    pub(crate) fn abandon(&mut self, number: u32) {
        let asked = self.admissions.asked.remove(&number);
        for shard in shards_of(asked.map_or(0, |asked| asked.waiting | asked.granted)) {
            self.links.send(shard, Record::Release { number });
        }
        self.release((self.place.shard, number));
    }

    /// Another shard asks for room.
    pub(crate) fn handle_reserve(
        &mut self,
        now: Millis,
        from: ShardId,
        number: u32,
        wanted: &Wanted<'_>,
        waits: Option<ConnectionKey>,
    ) {
        let slot = publishing!(self).route_of(wanted.tenant, wanted.topic);
        let (_, route) = self.cache.get(slot);
        let publisher = waits.map(|connection| BlockedPublisher { shard: from, connection });
        let full = match self.desk.rejecting(now, route, wanted, None, publisher) {
            Ok(_) if self.desk.journal.full && publishing!(self).has_to_be_stored_for_receivers(slot, wanted) => 1,
            Ok(sessions) => {
                self.desk.reservations.keep((from, number), &sessions, wanted.cost);
                0
            }
            Err(full) => full.asked,
        };
        self.links.send(from, Record::Reserved { number, full });
    }

    /// Another shard has answered: all of its queues have room, or so many have not.
    pub(crate) fn handle_reserved(&mut self, now: Now, from: ShardId, number: u32, full: u32) {
        let Some(asked) = self.admissions.asked.get_mut(&number) else { return };
        let bit = 1u64 << from.0;
        asked.waiting &= !bit;
        asked.granted |= if full == 0 { bit } else { 0 };
        asked.refused |= full > 0;
        let (key, over, refused, shards) = (asked.connection, asked.waiting == 0, asked.refused, asked.granted);
        let waits = asked.waits;
        let connection = self.desk.connections.get(key);
        let extra = connection.and_then(|connection| connection.extra.as_ref());
        if extra.is_none_or(|extra| extra.reserving != Reserving::Asked(number)) {
            self.abandon(number);
            return;
        }
        if full > 0 && waits {
            // Its queues will say when they have room.
            parking!(self).withhold(now, key, (from, full), None);
        }
        if !over {
            return;
        }
        if refused {
            self.abandon(number);
        } else {
            self.admissions.asked.remove(&number);
        }
        if let Some(connection) = self.desk.connections.get_mut(key) {
            connection.extra_mut().reserving =
                if refused { Reserving::Refused } else { Reserving::Granted { number, shards } };
        }
        self.desk.to_unpark.push(BlockedPublisher { shard: self.place.shard, connection: key });
    }

    /// Room that was kept is anyone's again.
    pub(crate) fn release(&mut self, id: (ShardId, u32)) {
        for session in self.desk.reservations.release(id) {
            self.desk.after_refill(session);
        }
    }

    /// What a shard of another node, which is gone, has asked for and was to answer.
    pub(crate) fn end_admissions_of(&mut self, now: Now, peer: ShardId) {
        for id in self.desk.reservations.of_shard(peer) {
            self.release(id);
        }
        let bit = 1u64 << peer.0;
        let asked = self.admissions.asked.iter().filter(|(_, asked)| asked.waiting & bit != 0);
        for number in asked.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.handle_reserved(now, peer, number, 0);
        }
    }
}

impl Parking<'_> {
    /// The publisher waits, without an acknowledgement, until so many queues of a shard have room; on another one it is
    /// not known whose.
    pub(crate) fn withhold(
        &mut self,
        now: Now,
        key: ConnectionKey,
        (shard, full): (ShardId, u32),
        whose: Option<SessionKey>,
    ) {
        self.start_withholding(now, key);
        let whose = whose.and_then(|whose| self.desk.sessions.get(whose.0));
        let delay = Delay::Queue(whose.map(|session| session.client_id.to_string()));
        self.desk.reports().tell_delayed(delay, key);
        for _ in 0..full.max(1) {
            self.park_for(now, key, shard);
        }
    }

    /// The acknowledgement of a connection is withheld, within the limit.
    pub(crate) fn start_withholding(&mut self, now: Now, key: ConnectionKey) {
        let until = now.monotonic.plus(self.settings.limits.block_timeout_ms);
        if let Some(connection) = self.desk.connections.get_mut(key) {
            let extra = connection.extra_mut();
            extra.withheld_until = extra.withheld_until.min(until);
        }
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
    fn no_room(&self, whose: Option<SessionKey>) -> Step {
        if self.full {
            return Reason::StoreFull.into();
        }
        Step::Reject(Rejection { reason: Reason::QueueFullReject, whose })
    }
}

/// The shards of a set of bits.
fn shards_of(bits: u64) -> impl Iterator<Item = ShardId> {
    (0..64_u16).filter(move |shard| bits & (1 << shard) != 0).map(ShardId)
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
