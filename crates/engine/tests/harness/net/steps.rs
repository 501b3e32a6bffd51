//! Possible steps of a run, the choice of the next step, and the end.

use std::collections::BTreeSet;

use tidegate_engine::Batch;

use super::Net;
use super::socket::{SocketId, Stand};
use crate::harness::Random;

/// In which order things happen.
#[derive(Debug)]
pub(crate) enum Schedule {
    /// As in the shell: each shard takes its turn and works off everything that waits.
    InTurn,
    /// Whatever can happen next happens in an order that the seed decides, and reads and writes are cut anywhere.
    Seeded(Random),
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Timers(usize),
    Deliver { from: usize, to: usize },
    Adopt(SocketId),
    ReadStore,
    Bring,
    Ship(usize),
    Dial,
    Read(SocketId),
    Write(SocketId),
    Finish(SocketId),
    Commit,
}

/// Clients beyond which the books are not looked at after each thing that happens.
const MANY_CLIENTS: usize = 100;

/// Steps after which a world that does not come to rest is taken to go round in circles.
const STEPS_MAX: usize = 400_000;

impl Net {
    /// Hands a batch over, in as many pieces as the shard takes it.
    pub(super) fn take_batch(&mut self, to: usize, batch: Batch) {
        let mut rest = Some(batch);
        while let Some(batch) = rest {
            rest = self.engines[to].cluster().handle_batch(self.now, batch).expect("a batch that can be read");
        }
    }

    /// The same, and between two pieces the shard reads from clients and looks at its timers, as between two turns. No
    /// later batch and no table comes in between.
    fn take_pieces(&mut self, to: usize, batch: Batch) {
        let mut random = Random::salted(self.trace.steps, 11);
        let mut rest = Some(batch);
        while let Some(batch) = rest {
            if random.percent(70) {
                // The share of the turn is used up: one message at a time.
                self.engines[to].cluster().resume_matching(usize::MAX / 2);
            }
            rest = self.engines[to].cluster().handle_batch(self.now, batch).expect("a batch that can be read");
            self.engines[to].cluster().begin_matching();
            self.gather(to);
            let is_here = |net: &Self, step: &Step| match *step {
                Step::Timers(shard) => shard == to,
                Step::Read(id) => net.shard_of(id) == Some(to),
                _ => false,
            };
            let between: Vec<Step> = self.steps().into_iter().filter(|step| is_here(self, step)).collect();
            if rest.is_some() && !between.is_empty() && random.percent(50) {
                self.take(random.pick(&between));
                self.pieces_interrupted += 1;
            }
        }
    }

    /// Lets everything happen that can, until nothing can.
    pub(crate) fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            let Some(step) = self.next_step() else {
                self.audit();
                return;
            };
            self.take(step);
        }
        panic!("the world does not come to rest");
    }

    /// The books of all engines have to be right.
    fn audit(&mut self) {
        // With very many clients that takes long, so it is done less often.
        let often = if self.live.len() > MANY_CLIENTS { self.live.len() as u64 } else { 1 };
        if self.trace.steps - self.audited < often {
            return;
        }
        self.audited = self.trace.steps;
        for (shard, engine) in self.engines.iter().enumerate() {
            let wrong = engine.questions().audit();
            assert!(wrong.is_empty(), "shard {shard}: {}", wrong.join("; "));
        }
    }

    /// Lets one thing happen; returns whether there was one.
    pub(crate) fn run_one(&mut self) -> bool {
        let Some(step) = self.next_step() else { return false };
        self.take(step);
        true
    }

    /// Lets one shard take one turn, as the shell does: each socket is read once, everything that waits is worked off
    /// once, batches leave, and each output is written once.
    pub(crate) fn turn(&mut self, shard: usize) {
        let here = |net: &Self, step: &Step| match *step {
            Step::Timers(at) | Step::Ship(at) | Step::Deliver { to: at, .. } => at == shard,
            Step::Adopt(id) => matches!(net.sockets[id].stand, Stand::Moving { home, .. } if home == shard),
            Step::Read(id) | Step::Write(id) | Step::Finish(id) => net.shard_of(id) == Some(shard),
            Step::ReadStore | Step::Bring | Step::Dial | Step::Commit => false,
        };
        let kinds: [fn(&Step) -> bool; 7] = [
            |step| matches!(step, Step::Read(_)),
            |step| matches!(step, Step::Adopt(_)),
            |step| matches!(step, Step::Deliver { .. }),
            |step| matches!(step, Step::Timers(_)),
            |step| matches!(step, Step::Ship(_)),
            |step| matches!(step, Step::Write(_)),
            |step| matches!(step, Step::Finish(_)),
        ];
        for kind in kinds {
            let steps: Vec<Step> = self.steps().into_iter().filter(|step| kind(step) && here(self, step)).collect();
            for step in steps {
                self.take(step);
                // A shard ships in as many steps as there are shards.
                while self.shipping[shard].is_some() {
                    self.take(Step::Ship(shard));
                }
            }
        }
    }

    fn next_step(&mut self) -> Option<Step> {
        let steps = self.steps();
        match &mut self.schedule {
            Schedule::InTurn => steps.first().copied(),
            Schedule::Seeded(random) => (!steps.is_empty()).then(|| random.pick(&steps)),
        }
    }

    /// Everything that can happen now, in the order of a shard's turn.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        // A shard that is taking its batches does nothing else before it has taken all.
        let free = |shard: usize| self.shipping[shard].is_none();
        let at = |id: SocketId| match self.sockets[id].stand {
            Stand::At { shard, .. } => free(shard).then_some(shard),
            Stand::Moving { .. } | Stand::Departed(_) | Stand::Gone => None,
        };
        // Most sockets of a large world have nothing to do: they are passed over once, not once for each kind of step.
        let busy: Vec<SocketId> = self.live.iter().copied().filter(|id| self.sockets[*id].may_act()).collect();
        let ids = || busy.iter().copied();
        let readable = |id: &SocketId| {
            let socket = &self.sockets[*id];
            let something = !socket.upstream.is_empty() || (socket.hung_up && !socket.end_reported);
            at(*id).is_some() && something && !socket.paused && socket.closing.is_none()
        };
        steps.extend(ids().filter(readable).map(Step::Read));
        let moving = |id: &SocketId| match self.sockets[*id].stand {
            Stand::Moving { home, .. } => free(home),
            Stand::At { .. } | Stand::Departed(_) | Stand::Gone => false,
        };
        steps.extend(ids().filter(moving).map(Step::Adopt));
        let shards = || (0..self.engines.len()).filter(|shard| free(*shard));
        for to in shards() {
            self.deliveries(to, &mut steps);
        }
        if !self.reading.is_empty() {
            steps.push(Step::ReadStore);
        }
        if !self.brought.is_empty() {
            steps.push(Step::Bring);
        }
        if self.dialing.front().is_some_and(|(shard, ..)| free(*shard)) {
            steps.push(Step::Dial);
        }
        let to_ship = |shard: &usize| self.unshipped[*shard] || self.shipping[*shard].is_some();
        steps.extend((0..self.engines.len()).filter(to_ship).map(Step::Ship));
        let next =
            |shard: usize| self.engines[shard].next_deadline().min(self.engines[shard].questions().next_silence());
        let due = |shard: &usize| next(*shard) <= self.now.monotonic;
        steps.extend(shards().filter(due).map(Step::Timers));
        // Messages that an output acknowledges must be under way before it is written.
        let shipped =
            |id: &SocketId| at(*id).is_some_and(|shard| !self.unshipped[shard] && self.shipping[shard].is_none());
        let writable = |id: &SocketId| {
            let socket = &self.sockets[*id];
            // To a client that has hung up a write fails, which matters where nothing is read.
            shipped(id) && socket.dirty && if socket.hung_up { socket.paused } else { socket.window > 0 }
        };
        steps.extend(ids().filter(writable).map(Step::Write));
        let waits = |id: &SocketId| self.sockets[*id].awaits_commit && !self.sockets[*id].hung_up;
        let ending = |id: &SocketId| shipped(id) && self.sockets[*id].closing.is_some() && !waits(id);
        steps.extend(ids().filter(ending).map(Step::Finish));
        if self.store.next_due() <= self.now.monotonic {
            steps.push(Step::Commit);
        }
        steps
    }

    /// The batches that a shard may take next: the first one, or the first one of each sender.
    fn deliveries(&self, to: usize, steps: &mut Vec<Step>) {
        let mut senders = BTreeSet::new();
        for (from, _) in &self.inboxes[to] {
            if !self.held.contains(&(*from, to)) && senders.insert(*from) {
                steps.push(Step::Deliver { from: *from, to });
                if self.causal {
                    break;
                }
            }
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Timers(shard) => {
                self.trace.note(format!("{} shard {shard}: timers", self.now.monotonic.0));
                self.engines[shard].handle_timers(self.now);
                let (sockets, by_key) = (&self.sockets, &self.by_key[shard]);
                let unread = |key| {
                    let socket = by_key.get(&key).map(|id| &sockets[*id]);
                    socket.is_some_and(|socket| !socket.upstream.is_empty() && !socket.paused)
                };
                self.engines[shard].timing().handle_silence(self.now, self.now.monotonic, unread);
                self.gather(shard);
            }
            Step::Deliver { from, to } => {
                let Some(first) = self.inboxes[to].iter().position(|(sender, _)| *sender == from) else { return };
                let Some((_, batch)) = self.inboxes[to].remove(first) else { return };
                self.trace.note(format!("shard {to}: {} bytes from shard {from}", batch.bytes_len()));
                if self.interrupts_batches {
                    self.take_pieces(to, batch);
                } else {
                    self.take_batch(to, batch);
                }
                self.gather(to);
            }
            Step::Adopt(id) => self.adopt(id),
            Step::ReadStore => self.read_store(),
            Step::Bring => self.bring(),
            Step::Dial => self.dial(),
            Step::Ship(shard) => self.ship(shard),
            Step::Read(id) => self.read(id),
            Step::Write(id) => {
                let part = self.part(self.output_bound(id));
                self.write(id, part);
            }
            Step::Finish(id) => self.finish(id),
            Step::Commit => self.commit_some(),
        }
    }

    /// All or, with a seed, a part of the bytes that could be read or written.
    pub(super) fn part(&mut self, all: usize) -> usize {
        match &mut self.schedule {
            Schedule::InTurn => all,
            Schedule::Seeded(random) => {
                if random.percent(40) {
                    1 + random.below(all.min(64))
                } else {
                    all
                }
            }
        }
    }

    fn output_bound(&self, id: SocketId) -> usize {
        self.sockets[id].window
    }
}
