//! Moves of sessions, and the messages that old homes forward.

use tidegate_engine::{Behind, Forwarded, OrchestratorMoves, PartitionImage, Partitions, Settling, Snapshot};

use super::{READERS, Run, partitions_of};

/// Rounds in which a move waits for all members before everything happens that can.
const CUT_ROUNDS: usize = 40;

/// A move whose old home forwards messages.
pub(super) struct Stream {
    pub(super) id: u64,
    pub(super) reader: usize,
    pub(super) from: usize,
    settling: Option<Settling>,
    /// The piece whose answer has not come, and whether it is the last one.
    piece: Option<(Forwarded, bool)>,
}

impl Run {
    pub(super) fn partitions(&self, reader: usize) -> Partitions {
        partitions_of(&self.readers[reader].name)
    }

    /// A session moves, whether its last move is over or not.
    pub(super) fn begin_move(&mut self) {
        let reader = self.random.below(READERS);
        let (from, partitions) = (self.readers[reader].home, self.partitions(reader));
        // Where all wait for their brokers, nothing moves.
        let takers = self.takers().into_iter().filter(|member| *member != from && !self.has_lines(*member));
        let others: Vec<usize> = takers.collect();
        // It may have returned, and not have got its messages.
        let is_back = self.streams.iter().any(|it| it.from == from && it.reader == reader);
        if self.members[from].is_dead || others.is_empty() || is_back {
            return;
        }
        let to = self.random.pick(&others);
        self.transfers += 1;
        let id = self.transfers;
        self.run(from);
        // Messages are kept back for a limited time, and no longer than the partition stays.
        self.end_waiting(from, reader);
        self.mend_links();
        self.moving = Some(id);
        self.tell_rosters();
        self.run(from);
        self.keep_will(reader);
        let (images, had) = self.members[from].world.engine(0, |engine, now| {
            engine.moves().hold_partitions(now, partitions, None);
            let Ok(Snapshot::Taken(images)) = engine.moves().snapshot_partitions(now, partitions, u64::MAX) else {
                panic!("all of it is in memory");
            };
            OrchestratorMoves::of(engine).begin_forwarding(id, partitions);
            engine.moves().begin_leaving(id, partitions);
            (images, OrchestratorMoves::of(engine).take_had(id))
        });
        for member in self.living() {
            let steps = self.random.below(20);
            self.members[member].world.run_some(steps);
            self.spread();
        }
        self.set_clock(to, from);
        let stream = Stream { id, reader, from, settling: None, piece: None };
        if self.random.percent(10) {
            // The new home refuses, and the old one continues.
            self.arrive(to, id, &[reader], &images, &had);
            self.begin_coming(to, id, partitions);
            self.pass_time();
            let is_forwarded = self.streams.iter().any(|it| it.from == to && it.reader == reader);
            self.members[to].world.engine(0, |engine, now| {
                if is_forwarded {
                    OrchestratorMoves::of(engine).refuse_arrival(now, partitions);
                } else {
                    engine.moves().forget_partitions(now, partitions);
                }
            });
            self.end_transfer(to, reader, id);
            self.run(to);
            self.moving = None;
            self.tell_rosters();
            self.members[from].world.engine(0, |engine, now| {
                OrchestratorMoves::of(engine).end_forwarding(now, id, partitions);
                engine.moves().release_partitions(now, partitions);
            });
            if !is_forwarded {
                self.members[to].world.engine(0, |engine, now| engine.moves().release_partitions(now, partitions));
            }
            return;
        }
        if self.random.percent(10) {
            return self.kill_before_the_table(stream);
        }
        self.arrive(to, id, &[reader], &images, &had);
        self.begin_coming(to, id, partitions);
        self.finish_move(from, to, id);
        self.run(to);
        self.moving = None;
        self.streams.push(stream);
        self.serve(to, reader);
        for transfer in self.open.get(&(from, reader)).cloned().unwrap_or_default() {
            self.end_transfer(from, reader, transfer);
        }
        self.serve_elsewhere(from);
    }

    /// The old home dies before a table has decided a move, and comes back or not. The move is called off.
    fn kill_before_the_table(&mut self, stream: Stream) {
        let (from, reader) = (stream.from, stream.reader);
        self.moving = None;
        self.streams.push(stream);
        if self.random.percent(50) {
            self.die(from);
        }
        if !self.members[from].is_dead {
            self.restart(from);
        }
        for it in self.streams.extract_if(.., |it| it.from == from && it.reader == reader).collect::<Vec<_>>() {
            self.take_back(&it);
        }
    }

    /// All members send records for these partitions to the new home from now on.
    fn begin_coming(&self, to: usize, id: u64, partitions: Partitions) {
        self.members[to].world.engine(0, |engine, now| engine.moves().begin_coming(now, id, partitions));
    }

    /// Some things happen at all members.
    fn pass_time(&mut self) {
        for member in self.living() {
            let steps = self.random.below(6);
            self.members[member].world.run_some(steps);
            self.spread();
            self.carry_some();
        }
    }

    /// The new home gets the records that the old one has received over links since the images.
    fn finish_move(&mut self, from: usize, to: usize, id: u64) {
        let is_cut = |run: &Self| run.members[from].world.engine(0, |engine, _| engine.questions().is_cut(id));
        for _ in 0..CUT_ROUNDS {
            if is_cut(self) {
                break;
            }
            self.pass_time();
        }
        self.run_with_links();
        let rest = self.members[from].world.engine(0, |engine, _| engine.moves().take_transfer_rest(id));
        let rests = [rest.expect("links that have not broken")];
        self.run(from);
        let world = &self.members[to].world;
        world.engine(0, |engine, now| engine.moves().finish_transfer(now, id, &rests)).expect("a rest");
    }

    /// Sets the clock of a member to that of the member whose sessions it gets, unless it is ahead. A will that is due at
    /// the old home is due at the new one then.
    pub(super) fn set_clock(&self, to: usize, from: usize) {
        let (from, to) = (&self.members[from].world, &self.members[to].world);
        to.skip(from.now().unix.saturating_sub(to.now().unix));
    }

    /// Sessions come to a member.
    pub(super) fn arrive(&mut self, to: usize, id: u64, readers: &[usize], images: &[PartitionImage], had: &[u8]) {
        let partitions = readers.iter().map(|reader| self.partitions(*reader));
        let partitions = partitions.fold(Partitions::NONE, Partitions::with);
        let world = &self.members[to].world;
        let names: Vec<&str> = readers.iter().map(|reader| self.readers[*reader].name.as_str()).collect();
        world.note(format!("{names:?} come by transfer {id}"));
        world.engine(0, |engine, now| {
            engine.moves().arrive(now, images).expect("images as they were given out");
            OrchestratorMoves::of(engine).begin_awaiting(now, id, partitions, Some(had)).expect("messages");
        });
        self.open.extend(readers.iter().map(|reader| ((to, *reader), vec![id])));
    }

    /// A member serves a session that has come. If it has forwarded messages for it, the session gets the rest of them.
    pub(super) fn serve(&mut self, home: usize, reader: usize) {
        let partitions = self.partitions(reader);
        self.readers[reader].home = home;
        self.tell_homes();
        let world = &self.members[home].world;
        world.engine(0, |engine, now| engine.moves().release_partitions(now, partitions));
        if self.random.percent(70) {
            for it in self.streams.extract_if(.., |it| it.from == home && it.reader == reader).collect::<Vec<_>>() {
                self.take_back(&it);
            }
        }
    }

    /// A session that is back at its old home gets the messages that were not forwarded.
    fn take_back(&self, it: &Stream) {
        let (world, partitions) = (&self.members[it.from].world, self.partitions(it.reader));
        world.engine(0, |engine, now| {
            let mut moves = OrchestratorMoves::of(engine);
            if let Some((piece, _)) = it.piece.as_ref().filter(|(piece, _)| !piece.messages.is_empty()) {
                moves.deliver_forwarded(now, partitions, &piece.messages).expect("a piece");
            }
            moves.return_forwarded(now, it.id, partitions).expect("messages");
        });
        self.run(it.from);
        world.engine(0, |engine, now| OrchestratorMoves::of(engine).end_forwarding(now, it.id, partitions));
    }

    /// Ends the wait of messages that are kept back for a session.
    fn end_waiting(&self, home: usize, reader: usize) {
        for transfer in self.open.get(&(home, reader)).into_iter().flatten() {
            self.members[home].world.engine(0, |engine, now| {
                let mut moves = OrchestratorMoves::of(engine);
                moves
                    .take_piece(now, *transfer, Partitions::NONE, &[], Behind::LatePieces)
                    .expect("messages kept back");
            });
        }
    }

    /// The members to which partitions have moved serve them.
    pub(super) fn serve_elsewhere(&self, from: usize) {
        for it in self.streams.iter().filter(|it| it.from == from && self.readers[it.reader].home != from) {
            self.members[from].world.engine(0, |engine, _| OrchestratorMoves::of(engine).note_served_elsewhere(it.id));
        }
    }

    /// The next life of a member continues to forward.
    pub(super) fn resume_streams(&mut self, member: usize) {
        for at in 0..self.streams.len() {
            let partitions = self.partitions(self.streams[at].reader);
            let it = &mut self.streams[at];
            if it.from == member {
                (it.settling, it.piece) = (None, None);
                self.members[member]
                    .world
                    .engine(0, |engine, _| OrchestratorMoves::of(engine).resume_forwarding(it.id, partitions));
            }
        }
        self.serve_elsewhere(member);
    }

    /// An old home forwards its next piece, or a connection of a dead member is worked off.
    pub(super) fn forward(&mut self) {
        let all = self.streams.len() + self.lines.len();
        if all == 0 {
            return;
        }
        let at = self.random.below(all);
        if at >= self.streams.len() {
            return self.work_off(at - self.streams.len());
        }
        let mut it = self.streams.swap_remove(at);
        if self.readers[it.reader].home == it.from {
            self.take_back(&it);
        } else if self.members[self.readers[it.reader].home].is_dead || !self.forward_piece(&mut it) {
            self.streams.push(it);
        }
    }

    /// Returns whether it was the last one.
    fn forward_piece(&mut self, it: &mut Stream) -> bool {
        let (from, home, partitions) =
            (self.members[it.from].world.clone(), self.readers[it.reader].home, self.partitions(it.reader));
        if it.piece.is_none() {
            let know = self.members[home].knows_groups(partitions) && self.members[home].brokers_know();
            let is_settled = know && {
                let settling = it.settling.take();
                let (settling, is_settled) = from.engine(0, |engine, now| {
                    let is_new = settling.is_none();
                    let mut settling = settling.unwrap_or_else(|| OrchestratorMoves::of(engine).begin_settling(now));
                    let is_settled = !is_new && engine.fleet().settle(now, &mut settling);
                    (settling, is_settled)
                });
                it.settling = Some(settling);
                is_settled
            };
            if !know {
                it.settling = None;
            }
            let taken = from.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(it.id));
            it.piece = Some((taken.unwrap_or_default(), is_settled));
        }
        let Some((piece, is_last)) = it.piece.clone() else { return false };
        from.note(format!("a piece of transfer {}, the last one: {is_last}", it.id));
        if !self.give(home, it.reader, it.id, &piece.messages) {
            return false;
        }
        it.piece = None;
        let is_over = is_last && self.members[home].brokers_know();
        if is_last && !is_over {
            it.settling = None;
        }
        if is_over {
            self.end_transfer(home, it.reader, it.id);
        }
        from.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).confirm_forwarded(now, it.id, piece.unanswered);
            if is_over {
                OrchestratorMoves::of(engine).end_forwarding(now, it.id, partitions);
                engine.moves().forget_partitions(now, partitions);
                engine.moves().release_partitions(now, partitions);
            }
        });
        self.run(it.from);
        is_over
    }

    /// Messages for a session come to its home, by the transfer that has brought it. Returns whether the answer comes.
    pub(super) fn give(&mut self, home: usize, reader: usize, stream: u64, messages: &[u8]) -> bool {
        let (world, partitions) = (self.members[home].world.clone(), self.partitions(reader));
        if !self.members[home].knows_groups(partitions) {
            return false;
        }
        let open = self.open.entry((home, reader)).or_default();
        let transfer = if open.contains(&stream) { Some(stream) } else { open.first().copied() };
        if transfer.is_none() {
            open.push(stream);
        }
        world.note(format!("a piece of transfer {stream} by {transfer:?}"));
        world.engine(0, |engine, now| {
            let mut moves = OrchestratorMoves::of(engine);
            if transfer.is_none() {
                moves.resume_awaiting(now, stream, partitions);
            }
            let transfer = transfer.unwrap_or(stream);
            moves.take_piece(now, transfer, partitions, messages, Behind::Pieces).expect("a piece");
        });
        if self.random.percent(25) {
            let steps = self.random.below(6);
            world.run_some(steps);
            self.spread();
            return false;
        }
        self.run(home);
        true
    }

    /// The last piece of a transfer has come for a session, or the session has left.
    pub(super) fn end_transfer(&mut self, home: usize, reader: usize, transfer: u64) {
        let Some(open) = self.open.get_mut(&(home, reader)).filter(|open| open.contains(&transfer)) else { return };
        open.retain(|open| *open != transfer);
        let is_open = |(of, _): &(usize, usize), open: &Vec<u64>| *of == home && open.contains(&transfer);
        if !self.open.iter().any(|(key, open)| is_open(key, open)) {
            self.members[home].world.engine(0, |engine, now| {
                let mut moves = OrchestratorMoves::of(engine);
                moves.take_piece(now, transfer, Partitions::NONE, &[], Behind::Nothing).expect("messages kept back");
            });
        }
        self.run(home);
    }
}
