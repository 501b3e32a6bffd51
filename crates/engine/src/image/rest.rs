//! What arrives for a partition while it moves: noted at the old place from the image on, and delivered at the new one unless it
//! has arrived there as well.

use std::collections::BTreeSet;

use super::fields::{put_message, read_message};
use super::{ImageError, begin, open, seal};
use crate::dispatch::{Source, reach};
use crate::engine::Engine;
use crate::ids::{Partitions, TenantId};
use crate::message::MessageRef;
use crate::now::Now;
use crate::topics::{Route, RouteSlot};
use crate::uplink::id::MessageId;
use crate::wire::WireWrite;

/// Bytes noted for one move, beyond which it is given up.
const REST_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Ids remembered that may still come from brokers after they were delivered here.
const AHEAD_MAX: usize = 1 << 16;

/// What arrived since images were taken.
#[derive(Debug)]
pub(crate) struct Rest {
    partitions: Partitions,
    /// Messages with their ids.
    bytes: Vec<u8>,
    full: bool,
}

/// Messages that were delivered to these partitions before their broker has brought them.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    partitions: Partitions,
    ids: BTreeSet<(u64, u64)>,
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

impl Engine {
    pub(super) fn begin_rest(&mut self, partitions: Partitions) {
        self.rest = Some(Box::new(Rest { partitions, bytes: begin(), full: false }));
    }

    /// Looks at a message of a broker while partitions move: what is for somebody who leaves is noted, and what those who came
    /// have got already goes to all others. Says whether it has been delivered.
    #[cold]
    pub(crate) fn attend_moves(
        &mut self,
        now: Now,
        slot: RouteSlot,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> bool {
        if self.concerns_rest(self.cache.get(slot).1) {
            self.note_rest(now, id, message);
        }
        let Some(got) = id.and_then(|id| self.ahead.take(id)) else { return false };
        self.deliver_only(now, message, |engine, session| !engine.is_among(session, got));
        true
    }

    fn note_rest(&mut self, now: Now, id: Option<&MessageId>, message: &MessageRef) {
        let Some(rest) = &mut self.rest else { return };
        if rest.bytes.len() > REST_MAX_BYTES {
            rest.full = true;
            return;
        }
        rest.bytes.put_u64(id.map_or(0, |id| id.origin));
        rest.bytes.put_u64(id.map_or(0, |id| id.number));
        put_message(&mut rest.bytes, now, message);
    }

    /// Whether a message with this route is for somebody who moves.
    fn concerns_rest(&self, route: &Route) -> bool {
        let Some(rest) = &self.rest else { return false };
        let elsewhere = rest.partitions.iter().any(|partition| {
            let shard = self.place.home_of(partition);
            shard != self.place.shard && route.remote_bits() >> shard.0 & 1 != 0
        });
        elsewhere || route.targets().iter().any(|target| self.is_among(target.session, rest.partitions))
    }

    /// Stops noting and gives out what was noted; `None` when it was too much, or nothing was to be noted.
    pub fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.rest.take().filter(|rest| !rest.full).map(|rest| seal(rest.bytes))
    }

    /// What of a rest has not arrived here since the partitions have, for [`Engine::deliver_rest`]. On the shard of the uplinks.
    ///
    /// # Errors
    /// When the bytes are no rest.
    pub fn sift_rest(&mut self, now: Now, partitions: Partitions, rest: &[u8]) -> Result<Vec<u8>, ImageError> {
        let mut reader = open(rest)?;
        let mut out = begin();
        let mut ahead = Ahead { partitions, ids: BTreeSet::new() };
        while !reader.is_empty() {
            let (origin, number) = (reader.u64("an origin")?, reader.u64("a number of an origin")?);
            let message = read_message(&mut reader, now, TenantId::DEFAULT)?;
            let id = MessageId { origin, number, entered: 0, publisher: 0, retain: false };
            let (now_here, before) =
                (self.desk.uplinks.has_seen(&id), self.arrived.as_ref().map(|seen| seen.contains(&id)));
            let has_id = number != 0;
            if has_id && now_here && before == Some(false) {
                continue;
            }
            // With several shards the others would have to know as well; there such a message may come twice.
            if has_id && !now_here && self.place.shards == 1 && ahead.ids.len() < AHEAD_MAX {
                ahead.ids.insert((origin, number));
            }
            out.put_u64(origin);
            out.put_u64(number);
            put_message(&mut out, now, &message);
        }
        self.ahead = ahead;
        self.arrived = None;
        Ok(seal(out))
    }

    /// Delivers what was sifted to the sessions of these partitions that are at home on this shard; says how many messages there
    /// were.
    ///
    /// # Errors
    /// When the bytes are no rest.
    pub fn deliver_rest(&mut self, now: Now, partitions: Partitions, sifted: &[u8]) -> Result<u64, ImageError> {
        self.desk.journal.now = now;
        let mut reader = open(sifted)?;
        let mut messages = 0;
        while !reader.is_empty() {
            reader.u64("an origin")?;
            reader.u64("a number of an origin")?;
            let message = read_message(&mut reader, now, TenantId::DEFAULT)?;
            self.deliver_only(now, &message, |engine, session| engine.is_among(session, partitions));
            messages += 1;
        }
        self.after_frame(now);
        Ok(messages)
    }

    /// Delivers to those sessions of this shard that are meant.
    fn deliver_only(
        &mut self,
        now: Now,
        message: &MessageRef,
        is_meant: impl Fn(&Self, crate::ids::SessionKey) -> bool,
    ) {
        let slot = self.route_of(TenantId::DEFAULT, message.topic());
        let (_, route) = self.cache.get(slot);
        let targets: Vec<_> = route.targets().iter().filter(|target| is_meant(self, target.session)).copied().collect();
        let mut publication = message.publication();
        let source = Source::inside(self.place.shard, now);
        reach!(self).deliver_to(now, route, &targets, &mut publication, &source);
    }
}
