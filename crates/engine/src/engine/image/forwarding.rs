//! Moves of partitions between orchestrators, and the messages that the old home forwards for them: calls of the engine.

use crate::cluster::transfer::error::ImageError;
use crate::engine::Engine;
use crate::flows::contexts::answering;
use crate::flows::contexts::dealing;
use crate::flows::contexts::moving;
use crate::flows::contexts::subscribing;
use crate::ids::Partitions;
use crate::image::forwarding::{AtHand, Behind, Come, Departed, Forwarded, Forwarding, KeptBack};
use crate::image::noted::{each_noted, put_noted};
use crate::image::{begin, seal};
use crate::now::Now;
use crate::orchestrator::broker_link::adopted::Awaiting;

/// The calls of an engine for moves of partitions between orchestrators, and for takeovers from a dead one.
#[derive(Debug)]
pub struct OrchestratorMoves<'e> {
    pub(crate) engine: &'e mut Engine,
}

impl OrchestratorMoves<'_> {
    /// New homes have stored messages that were forwarded.
    pub(super) fn end_awaiting_homes(&mut self, now: Now, confirmed: Vec<Awaiting>) {
        for it in confirmed {
            match it {
                Awaiting::Answer(ticket) => answering!(self.engine).confirm(now, ticket, None, false),
                Awaiting::Copy(number) => {
                    let Engine { state, handover, .. } = &mut *self.engine;
                    handover.forwarding.stored.end(&mut state.journal, number);
                }
            }
        }
        self.engine.after_frame(now);
    }
}

impl<'e> OrchestratorMoves<'e> {
    /// The calls of this engine.
    pub const fn of(engine: &'e mut Engine) -> Self {
        Self { engine }
    }

    /// Begins to collect the brokers' messages for partitions that leave. It is called in the turn in which this shard
    /// exported their images; `id` is the id of the move.
    pub fn begin_forwarding(&mut self, id: u64, partitions: Partitions) {
        let had = self.messages_of(partitions);
        let forwarding = &mut self.engine.handover.forwarding;
        forwarding.left.insert(id, Departed::new(partitions, had));
        forwarding.note_copies(self.engine.state.journal.now, id);
        self.engine.handover.tell_departures(&mut self.engine.state);
        // After a restart, the store has returned these sessions as sessions of nodes, and their home is elsewhere.
        let now = self.engine.state.journal.now;
        self.engine.cluster().forget_nodes_that_left(now);
    }

    /// Continues to collect messages for a move of the last life of this process, on each shard before brokers are connected
    /// to. Partitions that the first roster has here have returned, or have not left.
    pub fn resume_forwarding(&mut self, id: u64, partitions: Partitions) {
        self.begin_forwarding(id, partitions);
        if let Some(left) = self.engine.handover.forwarding.left.get_mut(&id) {
            left.is_resumed = true;
        }
        if self.engine.links.roster.is_of_orchestrators() {
            let now = self.engine.state.journal.now;
            moving!(self.engine).follow_roster(now);
        }
    }

    /// The messages that these partitions have from brokers, for [`OrchestratorMoves::begin_awaiting`] of the next home of these
    /// partitions.
    pub fn messages_of(&self, partitions: Partitions) -> Vec<u8> {
        let engine = &*self.engine;
        engine.handover.arrivals.write(engine.broker_links.settlement.seen_ids(), partitions)
    }

    /// The messages that the sessions of a move had when they left.
    pub fn take_had(&mut self, id: u64) -> Vec<u8> {
        let left = self.engine.handover.forwarding.left.get_mut(&id);
        left.map(|left| std::mem::take(&mut left.had)).unwrap_or_default()
    }

    /// The new home serves the partitions of a move: their sessions on this shard receive no more messages.
    pub fn note_served_elsewhere(&mut self, id: u64) {
        if let Some(left) = self.engine.handover.forwarding.left.get_mut(&id) {
            left.is_over = true;
        }
    }

    /// The messages collected for a move since the last piece; `None` without any. Messages of QoS 1 and 2 are
    /// acknowledged after [`OrchestratorMoves::confirm_forwarded`].
    pub fn take_forwarded(&mut self, id: u64) -> Option<Forwarded> {
        let empty = begin();
        let left = self.engine.handover.forwarding.left.get_mut(&id).filter(|left| left.noted.len() > empty.len())?;
        let messages = seal(std::mem::replace(&mut left.noted, empty));
        Some(Forwarded { messages, unanswered: left.unanswered.len() })
    }

    /// Partitions of a move are served here again: the messages that were collected for them and not taken are delivered to
    /// those sessions on this shard, which has the broker links, that do not have them. Returns the messages for the other
    /// shards.
    ///
    /// # Errors
    /// If this process cannot read the messages that it has collected.
    pub fn return_forwarded(&mut self, now: Now, id: u64, partitions: Partitions) -> Result<Vec<u8>, ImageError> {
        let Some(left) = self.engine.handover.forwarding.left.get_mut(&id) else { return Ok(seal(begin())) };
        let noted = seal(left.noted.clone());
        self.deliver_forwarded(now, partitions, &noted)?;
        self.end_forwarding(now, id, partitions);
        Ok(noted)
    }

    /// The new homes have stored this number of messages of a move: they are acknowledged.
    pub fn confirm_forwarded(&mut self, now: Now, id: u64, messages: usize) {
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        let Some(left) = engine.handover.forwarding.left.get_mut(&id) else { return };
        let confirmed: Vec<_> = left.unanswered.drain(..messages.min(left.unanswered.len())).collect();
        self.end_awaiting_homes(now, confirmed);
    }

    /// Ends the collection of messages for these partitions of a move: they are served here again, or nothing more comes
    /// for them. With the last partition all collected messages are acknowledged.
    pub fn end_forwarding(&mut self, now: Now, id: u64, partitions: Partitions) {
        let Some(left) = self.engine.handover.forwarding.left.get_mut(&id) else { return };
        let stay = left.partitions.among(partitions);
        left.partitions = left.partitions.without(partitions);
        let is_over = left.partitions.is_empty();
        self.engine.state.journal.now = now;
        self.engine.handover.tell_departures(&mut self.engine.state);
        moving!(self.engine).deal_noted(now, id, stay);
        if is_over {
            self.confirm_forwarded(now, id, usize::MAX);
            self.engine.handover.forwarding.left.remove(&id);
        }
        self.drop_groups(now);
    }

    /// Forgets the groups of partitions that neither leave nor come any more, and are at home elsewhere.
    fn drop_groups(&mut self, now: Now) {
        let mut subscribing = subscribing!(self.engine);
        subscribing.drop_groups_dealt_elsewhere(now);
        subscribing.remove_forsaken_groups(now);
        self.engine.after_frame(now);
    }

    /// Begins to take the messages that the old home forwards for the partitions of a move. It is called on each shard in the
    /// turn in which the images were imported, and last on the shard that has the broker links. `had` are the messages that the
    /// sessions have ([`OrchestratorMoves::take_had`]); without them a message that brokers deliver to both homes may come
    /// twice.
    ///
    /// # Errors
    /// When `had` cannot be read.
    pub fn begin_awaiting(
        &mut self,
        now: Now,
        id: u64,
        partitions: Partitions,
        had: Option<&[u8]>,
    ) -> Result<(), ImageError> {
        // A shard cannot keep messages back from the sessions of other shards.
        let is_whole = self.engine.place.shards == 1;
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        if engine.broker_links.brokers.config.has_broker_links_here() {
            let seen = engine.broker_links.settlement.seen_now();
            let had = had.filter(|_| is_whole);
            engine.handover.arrivals.add(now, &mut engine.state.journal, partitions, seen, had)?;
        }
        engine.handover.forwarding.note_back(partitions);
        let come = &mut engine.handover.forwarding.come;
        come.insert(id, Come::new(partitions, is_whole.then(KeptBack::new)));
        engine.handover.tell_departures(&mut engine.state);
        Ok(())
    }

    /// The same for partitions that came in an earlier life of this process, or from a home that has died. The store says
    /// which messages they have, as far as they came with a list of them. No messages are kept back. It is called on each
    /// shard, and last on the shard that has the broker links.
    pub fn resume_awaiting(&mut self, now: Now, id: u64, partitions: Partitions) {
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        if engine.broker_links.brokers.config.has_broker_links_here() {
            engine.handover.arrivals.resume(now, &mut engine.state.journal, partitions);
        }
        let come = engine.handover.forwarding.come.entry(id).or_insert_with(|| Come::new(Partitions::NONE, None));
        come.partitions = come.partitions.with(partitions);
        engine.handover.tell_departures(&mut engine.state);
    }

    /// Partitions do not come after all or have left, and this process continues to forward messages for them. Their
    /// sessions stay, since they say which messages these are. Groups get back the messages dealt to arriving ones, and deal
    /// them none from now on. It is called on each shard.
    pub fn refuse_arrival(&mut self, now: Now, partitions: Partitions) {
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        // Others have left, and their moves continue.
        let coming = &engine.state.transfers.coming;
        let arriving = partitions.iter().filter(|partition| coming.contains_key(partition));
        let arriving = arriving.fold(Partitions::default(), |all, partition| all.with(Partitions::of(partition)));
        let aside = moving!(engine).abandon_transfers(arriving);
        engine.state.transfers.leave_again(engine.place.own(arriving));
        engine.handover.forget(now, &mut engine.state.journal, partitions);
        engine.handover.tell_departures(&mut engine.state);
        dealing!(engine).give_back_aside(now, aside);
        self.drop_groups(now);
    }

    /// Delivers a piece of forwarded messages to the sessions of these partitions on this shard, which has the broker
    /// links. With [`Behind::LatePieces`] and the last piece it also delivers the messages that were kept back; with the
    /// last one it ends the wait here, and [`OrchestratorMoves::end_awaiting`] ends it on the other shards. Returns the
    /// messages that the other shards have to deliver ([`OrchestratorMoves::deliver_forwarded`]), and the partitions of
    /// their receivers.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    pub fn take_piece(
        &mut self,
        now: Now,
        id: u64,
        partitions: Partitions,
        piece: &[u8],
        behind: Behind,
    ) -> Result<(Partitions, Vec<u8>), ImageError> {
        self.engine.state.journal.now = now;
        let Some(come) = self.engine.handover.forwarding.come.get(&id) else {
            return Ok((Partitions::NONE, seal(begin())));
        };
        let all = come.partitions;
        let out = if piece.is_empty() { seal(begin()) } else { self.deliver_piece(now, id, partitions, piece)? };
        if behind != Behind::Pieces {
            let engine = &mut *self.engine;
            moving!(engine).deliver_kept_back(now, id)?;
            if behind == Behind::Nothing {
                self.end_awaiting(now, id);
            }
        }
        self.engine.after_frame(now);
        Ok((partitions.among(all), out))
    }

    /// Delivers forwarded messages to the sessions of these partitions on this shard, unless they have them.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    pub fn deliver_forwarded(&mut self, now: Now, partitions: Partitions, messages: &[u8]) -> Result<(), ImageError> {
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        let is_whole = engine.place.shards == 1;
        each_noted(now, messages, |id, message| {
            let mut wanted = partitions;
            if let Some(id) = id {
                let is_here = engine.broker_links.settlement.has_seen(id);
                wanted = engine.handover.arrivals.lacking(wanted, id, is_here);
                if (is_here || is_whole) && !wanted.is_empty() {
                    engine.handover.arrivals.note_passed(&mut engine.state.journal, id, message, wanted);
                }
            }
            moving!(engine).pass_on_to(now, message, wanted);
        })?;
        self.engine.after_frame(now);
        Ok(())
    }

    /// Delivers a piece here. Returns the messages for the other shards.
    fn deliver_piece(
        &mut self,
        now: Now,
        id: u64,
        partitions: Partitions,
        piece: &[u8],
    ) -> Result<Vec<u8>, ImageError> {
        let engine = &mut *self.engine;
        let is_whole = engine.place.shards == 1;
        let mut out = begin();
        each_noted(now, piece, |noted, message| {
            let Forwarding { left, come, .. } = &mut engine.handover.forwarding;
            // Some of the partitions may have left again.
            for left in left.values_mut().filter(|left| !left.partitions.among(partitions).is_empty()) {
                Forwarding::note_left(&mut AtHand::default(), left, now, noted, message);
            }
            let Some(come) = come.get_mut(&id) else { return };
            let is_here = noted.is_some_and(|id| engine.broker_links.settlement.has_seen(id));
            let (arrivals, journal) = (&mut engine.handover.arrivals, &mut engine.state.journal);
            let wanted = come.wants(arrivals, journal, partitions, (noted, message), (is_here, is_whole));
            if !wanted.is_empty() {
                put_noted(&mut out, now, noted, message);
                moving!(engine).pass_on_to(now, message, wanted);
            }
        })?;
        Ok(seal(out))
    }

    /// Ends the wait for pieces on this shard. Which messages the partitions have outlasts it.
    pub fn end_awaiting(&mut self, now: Now, id: u64) {
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        let come = &mut engine.handover.forwarding.come;
        if come.remove(&id).is_some() {
            let open = come.values().fold(Partitions::NONE, |all, come| all.with(come.partitions));
            engine.handover.arrivals.close(now, &mut engine.state.journal, open);
            engine.handover.tell_departures(&mut engine.state);
            self.drop_groups(now);
        }
    }
}
