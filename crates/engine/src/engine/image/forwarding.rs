//! Moves of partitions between orchestrators, and the messages that the old home forwards for them: calls of the engine.

use std::collections::BTreeSet;

use crate::cluster::transfer::error::ImageError;
use crate::engine::Engine;
use crate::flows::image::leaving::moving;
use crate::ids::Partitions;
use crate::image::forwarding::{Behind, Come, Departed, Forwarding, KeptBack};
use crate::image::noted::{each_noted, put_noted};
use crate::image::{begin, open, seal};
use crate::now::Now;

/// The calls of an engine for moves of partitions between orchestrators, and for takeovers from a dead one.
#[derive(Debug)]
pub struct OrchestratorMoves<'e> {
    pub(crate) engine: &'e mut Engine,
}

impl<'e> OrchestratorMoves<'e> {
    /// The calls of this engine.
    pub const fn of(engine: &'e mut Engine) -> Self {
        Self { engine }
    }

    /// Begins to collect the brokers' messages for partitions that leave. It is called in the turn in which this shard
    /// exported their images; `id` is the id of the move.
    pub fn begin_forwarding(&mut self, id: u64, partitions: Partitions) {
        self.engine.handover.rest = None;
        let left = Departed { partitions, noted: begin(), is_over: false };
        self.engine.handover.forwarding.left.insert(id, left);
    }

    /// The new home serves the partitions of a move: their sessions on this shard receive no more messages.
    pub fn note_served_elsewhere(&mut self, id: u64) {
        if let Some(left) = self.engine.handover.forwarding.left.get_mut(&id) {
            left.is_over = true;
        }
    }

    /// The messages collected for a move since the last piece; `None` if there are none.
    pub fn take_forwarded(&mut self, id: u64) -> Option<Vec<u8>> {
        let empty = begin();
        let left = self.engine.handover.forwarding.left.get_mut(&id).filter(|left| left.noted.len() > empty.len())?;
        Some(seal(std::mem::replace(&mut left.noted, empty)))
    }

    /// Ends the collection of messages for a move.
    pub fn end_forwarding(&mut self, id: u64) {
        self.engine.handover.forwarding.left.remove(&id);
    }

    /// Begins to take the messages that the old home forwards for the partitions of a move. It is called in the turn in
    /// which the images were imported, and last on the shard that has the uplinks.
    pub fn begin_awaiting(&mut self, id: u64, partitions: Partitions) {
        self.collect_nothing();
        if !self.engine.uplinks.brokers.config.has_uplinks_here() {
            return;
        }
        // A shard cannot keep messages back from the sessions of other shards.
        let keeps_back = self.engine.place.shards == 1;
        let kept_back = KeptBack { noted: begin(), alone: BTreeSet::default(), delivered: BTreeSet::default() };
        let before = self.engine.uplinks.settlement.seen_now();
        let come = Come { partitions, before, kept_back: keeps_back.then_some(kept_back), ahead: BTreeSet::default() };
        self.engine.handover.forwarding.come.insert(id, come);
    }

    /// The images that were imported are complete: no later messages are collected for them.
    pub fn collect_nothing(&mut self) {
        (self.engine.handover.rest, self.engine.handover.arrived) = (None, None);
    }

    /// Delivers a piece of forwarded messages to the sessions of this shard, which has the uplinks. With
    /// [`Behind::LatePieces`] and the last piece it also delivers the messages that were kept back. Returns the messages that the other shards have to deliver
    /// ([`MoveCalls::deliver_rest`](crate::MoveCalls::deliver_rest)), and the partitions of their receivers.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    pub fn take_piece(
        &mut self,
        now: Now,
        id: u64,
        piece: &[u8],
        behind: Behind,
    ) -> Result<(Partitions, Vec<u8>), ImageError> {
        self.engine.state.journal.now = now;
        let is_whole = self.engine.place.shards == 1;
        let mut out = begin();
        let Forwarding { left, come, .. } = &mut self.engine.handover.forwarding;
        let Some(come) = come.get_mut(&id) else { return Ok((Partitions::NONE, seal(out))) };
        let partitions = come.partitions;
        if !piece.is_empty() {
            let settlement = &self.engine.uplinks.settlement;
            // Some of the partitions may have left again.
            let gone_on = left.values_mut().filter(|left| left.partitions.without(partitions) != left.partitions);
            let mut gone_on: Vec<&mut Departed> = gone_on.collect();
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
        self.engine.moves().deliver_rest(now, partitions, &out)?;
        if behind != Behind::Pieces {
            let engine = &mut *self.engine;
            let kept_back = moving!(engine).deliver_kept_back(now, id)?;
            let mut both = begin();
            for part in [out, seal(kept_back)] {
                both.extend_from_slice(open(&part)?.rest());
            }
            out = seal(both);
            if behind == Behind::Nothing {
                self.end_awaiting(id);
            }
            self.engine.after_frame(now);
        }
        Ok((partitions, out))
    }

    /// Ends the wait for pieces. The ids of messages that a broker has still to deliver outlast the move.
    fn end_awaiting(&mut self, id: u64) {
        let Some(come) = self.engine.handover.forwarding.come.remove(&id) else { return };
        self.engine.handover.ahead.add(come.partitions, come.ahead);
    }
}
