//! Room is reserved at other shards before a PUBLISH is taken.

use crate::connection::reserving::Reserving;
use crate::event::Delay;
use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::publishing;
use crate::flows::contexts::{Parking, parking};
use crate::ids::{ConnectionKey, SessionKey, ShardId};
use crate::link::record::Record;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::publish::admission::{Admissions, Asked, Full, Wanted};
use crate::session::BlockedPublisher;
use crate::state::ShardState;
use crate::topics::RouteSlot;
use crate::topics::stages::{Deferral, Stage, Step};

impl Deciding<'_> {
    /// Asks all queues with the policy `reject` for room for a message; at QoS 2 also queues with the policy `block`. If
    /// one of those has given up, no subscriber gets the message: its publisher sends it again.
    #[cold]
    pub(crate) fn admit(
        &mut self,
        now: Now,
        key: ConnectionKey,
        session: Option<SessionKey>,
        slot: RouteSlot,
        publication: &Publication<'_>,
    ) -> Step {
        let Some(connection) = self.state.connections.get_mut(key) else { return Step::Done };
        let rejects = self.router.cache.traits(slot).stages.has(Stage::Room);
        // No event follows when the store has room again. A queue that blocks has let its publishers wait before.
        let waits = rejects && !connection.version.is_v5() && !self.state.journal.full;
        let full = if rejects { Reason::QueueFullReject } else { Reason::BlockedTooLong };
        let leaving = connection.leaving;
        let before = connection.extra.as_mut().map_or(Reserving::Not, |extra| std::mem::take(&mut extra.reserving));
        let (_, route) = self.router.cache.get(slot);
        let wanted = Wanted::of(publication);
        match before {
            Reserving::Granted { number, shards } => {
                self.commit(number, shards, self.links.roster.living(route.remote_bits()));
                self.state.connections.end_withholding(key);
                return Step::Continue;
            }
            Reserving::Asked(number) => {
                // It has waited for its maximum time.
                self.abandon(number);
                return self.state.journal.no_room(full, None);
            }
            Reserving::Refused if !waits => return self.state.journal.no_room(full, None),
            Reserving::Refused | Reserving::Not => {}
        }
        let publisher = BlockedPublisher { shard: self.links.place.shard, connection: key };
        let remote = self.links.roster.living(route.remote_bits());
        match self.state.rejecting(
            now.monotonic,
            route,
            &wanted,
            session,
            Some(publisher).filter(|_| waits && !leaving),
        ) {
            Err(_) if leaving && waits => Step::Done,
            Err(Full { asked, first }) if waits => {
                let (shard, whose) = (self.links.place.shard, Some(first));
                Step::Defer(Deferral::Queues { shard, full: asked, whose })
            }
            Err(Full { first, .. }) => self.state.journal.no_room(full, Some(first)),
            Ok(_) if remote == 0 || leaving => {
                self.state.connections.end_withholding(key);
                Step::Continue
            }
            Ok(sessions) => {
                self.ask_for_room(key, &wanted, &sessions, remote, waits);
                Step::Defer(Deferral::Answers)
            }
        }
    }

    /// Reserves space at these queues of this shard, and requests it from these other shards.
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
        self.state.reservations.keep((self.links.place.shard, number), sessions, wanted.cost);
        let asked = Asked { connection: key, waiting: remote, granted: 0, refused: false, waits };
        self.admissions.asked.insert(number, asked);
        let Wanted { tenant, topic, qos, cost } = *wanted;
        for shard in shards_of(remote) {
            let waits = waits.then_some(key);
            self.links.send(shard, Record::Reserve { number, tenant, topic, qos, cost, waits });
        }
        if let Some(connection) = self.state.connections.get_mut(key) {
            connection.extra_mut().reserving = Reserving::Asked(number);
        }
    }

    /// The message is delivered: it uses its reservations.
    pub(crate) fn commit(&mut self, number: u32, shards: u64, remote: u64) {
        self.state.reservations.release((self.links.place.shard, number));
        for shard in shards_of(shards) {
            // No interest is left there, so no message will follow that could use the room.
            let used = remote & (1 << shard.0) != 0;
            self.links.send(shard, if used { Record::Commit { number } } else { Record::Release { number } });
        }
    }

    /// The message is not delivered.
    pub(crate) fn abandon(&mut self, number: u32) {
        let asked = self.admissions.asked.remove(&number);
        for shard in shards_of(asked.map_or(0, |asked| asked.waiting | asked.granted)) {
            self.links.send(shard, Record::Release { number });
        }
        self.release((self.links.place.shard, number));
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
        let (_, route) = self.router.cache.get(slot);
        let publisher = waits.map(|connection| BlockedPublisher { shard: from, connection });
        let full = match self.state.rejecting(now, route, wanted, None, publisher) {
            Ok(_) if self.state.journal.full && publishing!(self).has_to_be_stored_for_receivers(slot, wanted) => 1,
            Ok(sessions) => {
                self.state.reservations.keep((from, number), &sessions, wanted.cost);
                0
            }
            Err(full) => full.asked,
        };
        self.links.send(from, Record::Reserved { number, full });
    }

    /// Another shard has answered: all of its queues have room, or a number of them have none.
    pub(crate) fn handle_reserved(&mut self, now: Now, from: ShardId, number: u32, full: u32) {
        let Some(asked) = self.admissions.asked.get_mut(&number) else { return };
        let bit = 1u64 << from.0;
        asked.waiting &= !bit;
        asked.granted |= if full == 0 { bit } else { 0 };
        asked.refused |= full > 0;
        let (key, over, refused, shards) = (asked.connection, asked.waiting == 0, asked.refused, asked.granted);
        let waits = asked.waits;
        let connection = self.state.connections.get(key);
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
        if let Some(connection) = self.state.connections.get_mut(key) {
            connection.extra_mut().reserving =
                if refused { Reserving::Refused } else { Reserving::Granted { number, shards } };
        }
        self.state.to_unpark.push(BlockedPublisher { shard: self.links.place.shard, connection: key });
    }

    /// Room that was kept is anyone's again.
    pub(crate) fn release(&mut self, id: (ShardId, u32)) {
        for session in self.state.reservations.release(id) {
            self.state.after_refill(session);
        }
    }

    /// Ends the requests of a shard of another node, which is gone, and the requests that it was to answer.
    pub(crate) fn end_admissions_of(&mut self, now: Now, peer: ShardId) {
        for id in self.state.reservations.of_shard(peer) {
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
    /// The publisher waits, without an acknowledgement, until this number of queues of a shard have room; on another
    /// one it is not known whose.
    pub(crate) fn withhold(
        &mut self,
        now: Now,
        key: ConnectionKey,
        (shard, full): (ShardId, u32),
        whose: Option<SessionKey>,
    ) {
        self.start_withholding(now, key);
        let whose = whose.and_then(|whose| self.state.sessions.get(whose.0));
        let delay = Delay::Queue(whose.map(|session| session.client_id.to_string()));
        self.state.reports().tell_delayed(delay, key);
        for _ in 0..full.max(1) {
            self.park_for(now, key, shard);
        }
    }

    /// The acknowledgement of a connection is withheld, within the limit.
    pub(crate) fn start_withholding(&mut self, now: Now, key: ConnectionKey) {
        let until = now.monotonic.plus(self.state.settings.limits.block_timeout_ms);
        if let Some(connection) = self.state.connections.get_mut(key) {
            let extra = connection.extra_mut();
            extra.withheld_until = extra.withheld_until.min(until);
        }
    }
}

/// The shards of a set of bits.
fn shards_of(bits: u64) -> impl Iterator<Item = ShardId> {
    (0..64_u16).filter(move |shard| bits & (1 << shard) != 0).map(ShardId)
}

impl Admissions {
    /// Each question has a publisher that waits for its answer.
    pub(crate) fn audit(&self, state: &ShardState, is_alone: bool, wrong: &mut dyn FnMut(String)) {
        state.reservations.audit(wrong);
        for (number, asked) in &self.asked {
            let connection = state.connections.get(asked.connection);
            let extra = connection.and_then(|connection| connection.extra.as_ref());
            if extra.is_none_or(|extra| extra.reserving != Reserving::Asked(*number) || extra.parked.is_none()) {
                wrong(format!("room number {number} was asked for and no publisher waits for it"));
            }
        }
        if is_alone && state.reservations.len() > 0 {
            wrong("room is reserved although there is no other shard".into());
        }
    }
}
