//! What arrives for a partition while it moves: noted at the old place from the image on, and at the new one from its
//! arrival on. In the end the new place delivers the old one's messages, then its own that were not among those, so
//! that each comes once and in its order.

use crate::desk::Desk;
use crate::image::leaving::{Moving, moving};
use crate::publish::publishing::{Publishing, publishing};
use std::collections::{BTreeMap, BTreeSet};

use super::fields::{put_message, read_message};
use super::forwarding::Forwarding;
use super::{ImageError, begin, open, seal};
use crate::engine::Engine;
use crate::ids::{Partitions, Place, TenantId};
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::id::{MessageId, SeenIds};
use crate::publish::dispatch::{Source, reach};
use crate::session::Session;
use crate::settings::fleet_topics::of_brokers;
use crate::topics::{Route, RouteSlot};
use crate::wire::WireWrite;

/// Bytes noted for one move, beyond which it is given up.
const REST_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Ids remembered that may still come from brokers after they were delivered here.
pub(super) const AHEAD_MAX: usize = 1 << 16;

/// Partitions that move to another process, or have come from one.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// What arrives for partitions that move away.
    pub(super) rest: Option<Box<Rest>>,
    /// Which messages had come when partitions arrived here.
    pub(super) arrived: Option<Box<SeenIds>>,
    /// Messages that those have got before their broker has brought them.
    pub(super) ahead: Ahead,
    /// Partitions that have moved between members of a cluster, and of which brokers still bring messages to the old
    /// home.
    pub(super) forwarding: Forwarding,
    /// Whether a partition is being moved out: the sessions of its connections go on elsewhere.
    pub(crate) exporting: bool,
}

impl Handover {
    /// Whether a message may be for a partition that moves, or has got to one that has moved already.
    #[inline]
    pub(crate) fn concerns(&self, id: Option<&MessageId>) -> bool {
        self.rest.is_some() || !self.forwarding.is_empty() || id.is_some_and(|id| self.ahead.has(id))
    }
}

/// What arrived since images were taken, or taken in.
#[derive(Debug)]
pub(crate) struct Rest {
    partitions: Partitions,
    /// Whether the partitions come; then they get nothing before what is left of them has come.
    coming: bool,
    /// Messages with their ids.
    bytes: Vec<u8>,
    full: bool,
}

/// Messages that were delivered to some partitions before their broker has brought them, and to which.
#[derive(Debug, Default)]
pub(crate) struct Ahead(BTreeMap<(u64, u64), Partitions>);

/// What is put together for those who came.
struct Sift {
    out: Vec<u8>,
    /// Ids of what is in it.
    known: BTreeSet<(u64, u64)>,
    /// Of these, what no broker has brought here yet.
    ahead: BTreeSet<(u64, u64)>,
}

impl Sift {
    fn put(&mut self, now: Now, id: Option<&MessageId>, message: &MessageRef) {
        if let Some(id) = id {
            self.known.insert((id.origin, id.number));
        }
        put_noted(&mut self.out, now, id, message);
    }
}

pub(super) fn put_noted(out: &mut Vec<u8>, now: Now, id: Option<&MessageId>, message: &MessageRef) {
    out.put_u64(id.map_or(0, |id| id.origin));
    out.put_u64(id.map_or(0, |id| id.number));
    put_message(out, now, message);
}

/// Reads what was noted.
pub(super) fn each_noted(
    now: Now,
    bytes: &[u8],
    mut take: impl FnMut(Option<&MessageId>, &MessageRef),
) -> Result<(), ImageError> {
    let mut reader = open(bytes)?;
    while !reader.is_empty() {
        let (origin, number) = (reader.u64("an origin")?, reader.u64("a number of an origin")?);
        let message = read_message(&mut reader, now, TenantId::DEFAULT)?;
        let id = MessageId { origin, number, entered: 0, publisher: 0, retain: false };
        // Numbers begin with 1; a message of a broker that brings no ids has none.
        take(Some(&id).filter(|_| number != 0), &message);
    }
    Ok(())
}

impl Ahead {
    /// Whether a message is ahead of its broker.
    #[inline]
    fn has(&self, id: &MessageId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(id.origin, id.number))
    }

    /// Who has got a message already.
    fn take(&mut self, id: &MessageId) -> Option<Partitions> {
        self.0.remove(&(id.origin, id.number))
    }

    /// These partitions have got these messages.
    pub(super) fn add(&mut self, partitions: Partitions, ids: BTreeSet<(u64, u64)>) {
        for id in ids {
            let known = self.0.entry(id).or_default();
            *known = known.with(partitions);
        }
        // Better twice than memory without a bound.
        while self.0.len() > AHEAD_MAX {
            self.0.pop_first();
        }
    }
}

impl Handover {
    /// Begins to note what arrives for partitions that leave, or come.
    pub(super) fn begin_rest(&mut self, partitions: Partitions, coming: bool) {
        self.rest = Some(Box::new(Rest { partitions, coming, bytes: begin(), full: false }));
    }
}

impl Moving<'_> {
    /// Looks at a live message of a broker while partitions move: it is noted if it is for somebody of them. What those
    /// who come are to get later, or have got already, goes to all others now. Says whether it has been delivered.
    #[cold]
    pub(crate) fn attend_moves(
        &mut self,
        now: Now,
        slot: RouteSlot,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> bool {
        let mut passed_over = id.and_then(|id| self.handover.ahead.take(id)).unwrap_or_default();
        if self.handover.concerns_rest(self.place, self.desk, self.cache.get(slot).1) {
            if let Some(rest) = self.handover.rest.as_ref().filter(|rest| rest.coming) {
                passed_over = passed_over.with(rest.partitions);
            }
            self.handover.note_rest(now, id, message);
        }
        if !self.handover.forwarding.is_empty() {
            passed_over = passed_over.with(self.attend_forwarding(now, slot, id, message));
        }
        if passed_over.is_empty() {
            return false;
        }
        self.deliver_only(now, message, |session| !session.is_some_and(|session| session.is_of(passed_over)));
        publishing!(self).deal_live(now, message);
        true
    }

    /// Delivers to those sessions of this shard that are meant.
    pub(crate) fn deliver_only(&mut self, now: Now, message: &MessageRef, is_meant: impl Fn(Option<&Session>) -> bool) {
        let Some((tenant, topic)) = of_brokers(self.settings, message.topic()) else { return };
        let slot = publishing!(self).route_of(tenant, topic);
        let (_, route) = self.cache.get(slot);
        let targets: Vec<_> = route
            .targets()
            .iter()
            .filter(|target| is_meant(self.desk.sessions.get(target.session.0)))
            .copied()
            .collect();
        let mut publication = message.publication().named(tenant, topic);
        let source = Source::inside(self.place.shard, now);
        reach!(self).deliver_to(now, route, &targets, &mut publication, &source);
    }
}

impl Engine {
    /// Stops noting and gives out what was noted; `None` when it was too much, or nothing was to be noted.
    pub fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.handover.rest.take().filter(|rest| !rest.full).map(|rest| seal(rest.bytes))
    }

    /// What those who came are to get now, for [`Engine::deliver_rest`]: a rest, and what was noted here and is not in
    /// it. On the shard of the uplinks.
    ///
    /// # Errors
    /// When the bytes are no rest, or too much was to be noted here.
    pub fn sift_rest(&mut self, now: Now, partitions: Partitions, rest: &[u8]) -> Result<Vec<u8>, ImageError> {
        let mut sift = Sift { out: begin(), known: BTreeSet::new(), ahead: BTreeSet::new() };
        // With several shards nothing was noted here: what came since has been delivered, and is told by what had come
        // before.
        let before = self.handover.arrived.take().filter(|_| self.place.shards > 1);
        each_noted(now, rest, |id, message| {
            let here = id.is_some_and(|id| self.uplinks.settlement.has_seen(id));
            if let (Some(id), Some(before), true) = (id, &before, here)
                && !before.contains(id)
            {
                return;
            }
            if let Some(id) = id.filter(|_| !here && self.place.shards == 1 && sift.ahead.len() < AHEAD_MAX) {
                sift.ahead.insert((id.origin, id.number));
            }
            sift.put(now, id, message);
        })?;
        if let Some(own) = self.handover.rest.take().filter(|own| own.coming) {
            if own.full {
                return Err(ImageError::TooLarge { bytes: own.bytes.len() as u64, max_bytes: REST_MAX_BYTES as u64 });
            }
            each_noted(now, &seal(own.bytes), |id, message| {
                if id.is_none_or(|id| !sift.known.contains(&(id.origin, id.number))) {
                    sift.put(now, id, message);
                }
            })?;
        }
        self.handover.ahead.add(partitions, sift.ahead);
        Ok(seal(sift.out))
    }

    /// Delivers what was sifted to the sessions of these partitions that are at home on this shard; says how many
    /// messages there were.
    ///
    /// # Errors
    /// When the bytes are no rest.
    pub fn deliver_rest(&mut self, now: Now, partitions: Partitions, sifted: &[u8]) -> Result<u64, ImageError> {
        self.desk.journal.now = now;
        let mut messages = 0;
        each_noted(now, sifted, |_, message| {
            moving!(self)
                .deliver_only(now, message, |session| session.is_some_and(|session| session.is_of(partitions)));
            messages += 1;
        })?;
        self.after_frame(now);
        Ok(messages)
    }
}

impl Publishing<'_> {
    /// Deals a live message to the shared groups of this shard.
    fn deal_live(&mut self, now: Now, message: &MessageRef) {
        let Some((tenant, topic)) = of_brokers(&self.desk.settings, message.topic()) else { return };
        let slot = publishing!(self).route_of(tenant, topic);
        let (_, route) = self.cache.get(slot);
        let source = Source::inside(self.links.place.shard, now);
        reach!(self).deal(now, route, &mut message.publication().named(tenant, topic), &source);
    }
}

impl Handover {
    fn note_rest(&mut self, now: Now, id: Option<&MessageId>, message: &MessageRef) {
        let Some(rest) = &mut self.rest else { return };
        if rest.bytes.len() > REST_MAX_BYTES {
            rest.full = true;
            return;
        }
        put_noted(&mut rest.bytes, now, id, message);
    }

    /// Whether a message with this route is for somebody who moves.
    fn concerns_rest(&self, place: Place, desk: &Desk, route: &Route) -> bool {
        self.rest.as_ref().is_some_and(|rest| concerns(rest.partitions, place, desk, route))
    }
}

/// Whether a message with this route is for a session of these partitions.
pub(super) fn concerns(partitions: Partitions, place: Place, desk: &Desk, route: &Route) -> bool {
    let elsewhere = partitions.iter().any(|partition| {
        let shard = place.home_of(partition);
        shard != place.shard && route.remote_bits() >> shard.0 & 1 != 0
    });
    elsewhere
        || route.targets().iter().any(|target| {
            let session = desk.sessions.get(target.session.0);
            session.is_some_and(|session| session.is_of(partitions))
        })
}
