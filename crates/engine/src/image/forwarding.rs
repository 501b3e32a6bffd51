//! Messages of brokers for partitions that have moved from one orchestrator of a cluster to another.
//!
//! A broker gives its messages to a connection, and does not know of partitions. So the old home still gets messages
//! for sessions that have left. It notes them from the image on, and passes them on in pieces, until every broker has
//! confirmed the filters of the new home and has brought all that it had before that. The new home serves the sessions
//! from the image on. What its own brokers bring for these sessions it keeps back until the last piece, so that each
//! topic keeps its order; the id of a message tells what has come both ways.

use std::collections::{BTreeMap, BTreeSet};

use super::rest::{AHEAD_MAX, concerns, each_noted, put_noted};
use super::{ImageError, begin, open, seal};
use crate::engine::Engine;
use crate::ids::Partitions;
use crate::image::leaving::{Moving, moving};
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::id::{MessageId, SeenIds};
use crate::topics::RouteSlot;

/// Bytes that one move may have noted and not passed on. Beyond it the connections to brokers end, which keep what is
/// not acknowledged.
const NOTED_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of the messages that the new home keeps back for one move. Beyond it they are delivered at once, and those that
/// the old home still passes on come behind them.
const KEPT_BACK_MAX_BYTES: usize = 64 * 1024 * 1024;

type Id = (u64, u64);

fn number_of(id: &MessageId) -> Id {
    (id.origin, id.number)
}

/// Moves whose messages still come to the old home, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    left: BTreeMap<u64, Left>,
    /// The transfer for which the connection at hand brings messages, as that of a dead old home.
    former: Option<u64>,
    come: BTreeMap<u64, Come>,
}

/// Partitions that have left.
#[derive(Debug)]
struct Left {
    partitions: Partitions,
    noted: Vec<u8>,
    /// Whether the sessions here get nothing any more, since they are served at the new home.
    is_over: bool,
}

/// Partitions that have come.
#[derive(Debug)]
struct Come {
    partitions: Partitions,
    /// Messages that had come here before the partitions.
    before: SeenIds,
    /// Messages of the own brokers that wait for the last piece; `None` where they are delivered at once.
    kept_back: Option<KeptBack>,
    /// Messages passed on that the own brokers have not brought yet.
    ahead: BTreeSet<Id>,
}

#[derive(Debug)]
struct KeptBack {
    noted: Vec<u8>,
    /// The ids among them that were not passed on.
    alone: BTreeSet<Id>,
    /// The ids among them that were passed on, and so delivered.
    delivered: BTreeSet<Id>,
}

impl Forwarding {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty() && self.come.is_empty()
    }

    /// Whether so much waits to be passed on that brokers have to keep their messages.
    fn is_full(&self) -> bool {
        self.left.values().any(|left| left.noted.len() > NOTED_MAX_BYTES)
    }
}

impl super::Handover {
    /// The messages that come next are brought by a connection of the dead old home of this transfer, or of none.
    #[inline]
    pub(crate) fn note_former(&mut self, id: Option<u64>) {
        self.forwarding.former = id;
    }

    /// The partitions of a transfer, and which messages had come before them.
    pub(super) fn awaited(&self, id: u64) -> (Partitions, SeenIds) {
        let come = self.forwarding.come.get(&id);
        come.map_or_else(Default::default, |come| (come.partitions, come.before.clone()))
    }

    /// Whether a message that has come before is for the sessions of a transfer, now that the connection of their dead
    /// old home brings it; `None` when the transfer is over.
    pub(crate) fn is_wanted(&mut self, transfer: u64, id: &MessageId) -> Option<bool> {
        self.forwarding.come.get_mut(&transfer).map(|come| come.wants(Some(id), true, true))
    }

    /// Whether brokers have to keep their messages, since more waits to be passed on than is allowed.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.forwarding.is_full()
    }
}

impl Come {
    /// Says whether a message of a broker is not for these sessions now: they have got it, or get it later. `concerns`
    /// tells whether it is for one of them.
    fn keeps_back(&mut self, now: Now, id: Option<&MessageId>, message: &MessageRef, concerns: bool) -> bool {
        if id.is_some_and(|id| self.ahead.remove(&number_of(id))) {
            return true;
        }
        let Some(kept_back) = self.kept_back.as_mut().filter(|_| concerns) else { return false };
        put_noted(&mut kept_back.noted, now, id, message);
        kept_back.alone.extend(id.map(number_of));
        true
    }

    /// Whether a message that was passed on is for these sessions. `is_here` says whether a broker has brought it here.
    fn wants(&mut self, id: Option<&MessageId>, is_here: bool, place_is_whole: bool) -> bool {
        let Some(id) = id else { return true };
        if let Some(kept_back) = &mut self.kept_back
            && kept_back.alone.remove(&number_of(id))
        {
            kept_back.delivered.insert(number_of(id));
            return true;
        }
        if is_here {
            return self.before.contains(id);
        }
        if place_is_whole && self.ahead.len() < AHEAD_MAX {
            self.ahead.insert(number_of(id));
        }
        true
    }
}

impl Moving<'_> {
    /// Looks at a message of a broker. Returns the partitions whose sessions do not get it now.
    pub(super) fn attend_forwarding(
        &mut self,
        now: Now,
        slot: RouteSlot,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> Partitions {
        let mut passed_over = Partitions::NONE;
        let (_, route) = self.cache.get(slot);
        let (place, desk) = (self.place, &*self.desk);
        let Forwarding { left, come, former } = &mut self.handover.forwarding;
        for left in left.values_mut().filter(|left| concerns(left.partitions, place, desk, route)) {
            put_noted(&mut left.noted, now, id, message);
            if left.is_over && place.shards == 1 {
                passed_over = passed_over.with(left.partitions);
            }
        }
        let mut full = Vec::new();
        for (number, come) in come.iter_mut().filter(|(number, _)| Some(**number) != *former) {
            let concerns = come.kept_back.is_some() && concerns(come.partitions, place, desk, route);
            if come.keeps_back(now, id, message, concerns) {
                passed_over = passed_over.with(come.partitions);
            }
            full.extend(come.kept_back.as_ref().filter(|it| it.noted.len() > KEPT_BACK_MAX_BYTES).map(|_| *number));
        }
        for number in full {
            // What was kept back before is complete and in order. An error would mean that this process cannot read
            // what it has written.
            let _ = self.deliver_kept_back(now, number);
        }
        passed_over
    }

    /// Delivers what was kept back for a move and was not passed on; from now on nothing is kept back.
    fn deliver_kept_back(&mut self, now: Now, id: u64) -> Result<Vec<u8>, ImageError> {
        let mut out = begin();
        let come = self.handover.forwarding.come.get_mut(&id);
        if let Some((kept_back, partitions)) = come.and_then(|come| Some((come.kept_back.take()?, come.partitions))) {
            each_noted(now, &seal(kept_back.noted), |id, message| {
                if id.is_none_or(|id| !kept_back.delivered.contains(&number_of(id))) {
                    put_noted(&mut out, now, id, message);
                    self.deliver_only(now, message, |session| session.is_some_and(|session| session.is_of(partitions)));
                }
            })?;
        }
        Ok(out)
    }
}

impl Engine {
    /// Begins to note the messages of brokers for partitions whose images this shard has just given out, in the same
    /// turn; `id` is that of the move.
    pub fn begin_forwarding(&mut self, id: u64, partitions: Partitions) {
        self.handover.rest = None;
        let left = Left { partitions, noted: begin(), is_over: false };
        self.handover.forwarding.left.insert(id, left);
    }

    /// The new home serves the partitions of a move: their sessions here get nothing any more.
    pub fn note_served_elsewhere(&mut self, id: u64) {
        if let Some(left) = self.handover.forwarding.left.get_mut(&id) {
            left.is_over = true;
        }
    }

    /// What was noted for a move since the last piece; `None` where that is nothing.
    pub fn take_forwarded(&mut self, id: u64) -> Option<Vec<u8>> {
        let empty = begin();
        let left = self.handover.forwarding.left.get_mut(&id).filter(|left| left.noted.len() > empty.len())?;
        Some(seal(std::mem::replace(&mut left.noted, empty)))
    }

    /// Nothing is noted for a move any more.
    pub fn end_forwarding(&mut self, id: u64) {
        self.handover.forwarding.left.remove(&id);
    }

    /// Partitions have come by a move: their old home passes on what brokers still bring there. In the turn in which
    /// the images were taken in, on the shard of the brokers as the last one.
    pub fn begin_awaiting(&mut self, id: u64, partitions: Partitions) {
        self.collect_nothing();
        if !self.uplinks.brokers.config.has_uplinks_here() {
            return;
        }
        // Sessions of other shards are passed over by no record.
        let keeps_back = self.place.shards == 1;
        let kept_back = KeptBack { noted: begin(), alone: BTreeSet::default(), delivered: BTreeSet::default() };
        let before = self.uplinks.settlement.seen_now();
        let come = Come { partitions, before, kept_back: keeps_back.then_some(kept_back), ahead: BTreeSet::default() };
        self.handover.forwarding.come.insert(id, come);
    }

    /// Nothing comes behind the images that were taken in.
    pub fn collect_nothing(&mut self) {
        (self.handover.rest, self.handover.arrived) = (None, None);
    }

    /// Whether the old home still passes messages on that come by this move.
    pub fn awaits_pieces(&self, id: u64) -> bool {
        self.handover.forwarding.come.contains_key(&id)
    }

    /// Takes a piece that the old home has passed on, and delivers it to the sessions of this shard. With the last one
    /// also what was kept back. On the shard of the brokers; returns what the other shards have to deliver by
    /// [`Engine::deliver_rest`], and to whom.
    ///
    /// # Errors
    /// When the bytes are no piece.
    pub fn take_piece(
        &mut self,
        now: Now,
        id: u64,
        piece: &[u8],
        is_last: bool,
    ) -> Result<(Partitions, Vec<u8>), ImageError> {
        self.desk.journal.now = now;
        let is_whole = self.place.shards == 1;
        let mut out = begin();
        let Forwarding { left, come, .. } = &mut self.handover.forwarding;
        let Some(come) = come.get_mut(&id) else { return Ok((Partitions::NONE, seal(out))) };
        let partitions = come.partitions;
        if !piece.is_empty() {
            let settlement = &self.uplinks.settlement;
            // Some of them may have left again.
            let gone_on = left.values_mut().filter(|left| left.partitions.without(partitions) != left.partitions);
            let mut gone_on: Vec<&mut Left> = gone_on.collect();
            each_noted(now, piece, |id, message| {
                for left in &mut gone_on {
                    put_noted(&mut left.noted, now, id, message);
                }
                if come.wants(id, id.is_some_and(|id| settlement.has_seen(id)), is_whole) {
                    put_noted(&mut out, now, id, message);
                }
            })?;
        }
        let mut out = seal(out);
        self.deliver_rest(now, partitions, &out)?;
        if is_last {
            let kept_back = moving!(self).deliver_kept_back(now, id)?;
            let mut both = begin();
            for part in [out, seal(kept_back)] {
                both.extend_from_slice(open(&part)?.rest());
            }
            out = seal(both);
            self.end_awaiting(id);
            self.after_frame(now);
        }
        Ok((partitions, out))
    }

    /// Those that a broker has yet to bring are remembered beyond the move.
    fn end_awaiting(&mut self, id: u64) {
        let Some(come) = self.handover.forwarding.come.remove(&id) else { return };
        self.handover.ahead.add(come.partitions, come.ahead);
    }
}
