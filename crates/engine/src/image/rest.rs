//! What arrives for a partition while it moves: noted at the old place from the image on, and at the new one from its
//! arrival on. In the end the new place delivers the old one's messages, then its own that were not among those, so
//! that each comes once and in its order.

use super::begin;
use super::fields::put_message;
use crate::desk::Desk;
use crate::ids::{Partitions, Place};
use crate::image::leaving::Moving;
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::id::{MessageId, SeenIds};
use crate::publish::dispatch::{Source, reach};
use crate::publish::publishing::{Publishing, publishing};
use crate::session::Session;
use crate::settings::fleet_topics::of_brokers;
use crate::topics::{Route, RouteSlot};
use crate::wire::WireWrite;
use std::collections::BTreeSet;

/// Bytes noted for one move, beyond which it is given up.
pub(crate) const REST_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Partitions that move to another process, or have come from one.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// What arrives for partitions that move away.
    pub(crate) rest: Option<Box<Rest>>,
    /// Which messages had come when partitions arrived here.
    pub(crate) arrived: Option<Box<SeenIds>>,
    /// Messages that those have got before their broker has brought them.
    pub(crate) ahead: Ahead,
    /// Whether a partition is being moved out: the sessions of its connections go on elsewhere.
    pub(crate) exporting: bool,
}

impl Handover {
    /// Whether a message may be for a partition that moves.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.rest.is_some() || !self.ahead.is_empty()
    }
}

/// What arrived since images were taken, or taken in.
#[derive(Debug)]
pub(crate) struct Rest {
    partitions: Partitions,
    /// Whether the partitions come; then they get nothing before what is left of them has come.
    pub(crate) coming: bool,
    /// Messages with their ids.
    pub(crate) bytes: Vec<u8>,
    pub(crate) full: bool,
}

/// Messages that were delivered to these partitions before their broker has brought them.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    pub(crate) partitions: Partitions,
    pub(crate) ids: BTreeSet<(u64, u64)>,
}

pub(crate) fn put_noted(out: &mut Vec<u8>, now: Now, id: Option<&MessageId>, message: &MessageRef) {
    out.put_u64(id.map_or(0, |id| id.origin));
    out.put_u64(id.map_or(0, |id| id.number));
    put_message(out, now, message);
}

impl Ahead {
    /// Whether no message is ahead of its broker.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Who has got a message already.
    fn take(&mut self, id: &MessageId) -> Option<Partitions> {
        self.ids.remove(&(id.origin, id.number)).then_some(self.partitions)
    }
}

impl Handover {
    /// Begins to note what arrives for partitions that leave, or come.
    pub(crate) fn begin_rest(&mut self, partitions: Partitions, coming: bool) {
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
        let Some(rest) = &self.rest else { return false };
        let elsewhere = rest.partitions.iter().any(|partition| {
            let shard = place.home_of(partition);
            shard != place.shard && route.remote_bits() >> shard.0 & 1 != 0
        });
        elsewhere
            || route.targets().iter().any(|target| {
                let session = desk.sessions.get(target.session.0);
                session.is_some_and(|session| session.is_of(rest.partitions))
            })
    }
}
