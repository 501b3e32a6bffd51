//! Partitions that have moved between orchestrators, and messages that are passed on for them: calls of the engine.

use std::collections::BTreeSet;

use crate::cluster::transfer::error::ImageError;
use crate::engine::Engine;
use crate::flows::image::leaving::moving;
use crate::ids::Partitions;
use crate::image::forwarding::{Behind, Come, Forwarding, KeptBack, Left};
use crate::image::rest::{each_noted, put_noted};
use crate::image::{begin, open, seal};
use crate::now::Now;

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

    /// Takes a piece that the old home has passed on, and delivers it to the sessions of this shard. With
    /// [`Behind::LatePieces`] and the last one also what was kept back. On the shard of the brokers; returns what the other shards have to deliver by
    /// [`Engine::deliver_rest`], and to whom.
    ///
    /// # Errors
    /// When the bytes are no piece.
    pub fn take_piece(
        &mut self,
        now: Now,
        id: u64,
        piece: &[u8],
        behind: Behind,
    ) -> Result<(Partitions, Vec<u8>), ImageError> {
        self.state.journal.now = now;
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
        if behind != Behind::Pieces {
            let kept_back = moving!(self).deliver_kept_back(now, id)?;
            let mut both = begin();
            for part in [out, seal(kept_back)] {
                both.extend_from_slice(open(&part)?.rest());
            }
            out = seal(both);
            if behind == Behind::Nothing {
                self.end_awaiting(id);
            }
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
