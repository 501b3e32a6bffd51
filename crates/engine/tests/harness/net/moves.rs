//! Partitions that move from node to node while all other work continues: a node takes each step alone.

use tidegate_engine::{PARTITIONS, PartitionId, PartitionImage, Partitions, Snapshot};

use super::Net;
use super::tables::Order;
use crate::harness::Random;

/// The subject of a move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    id: u64,
    pub(super) partitions: Partitions,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A move under way.
#[derive(Debug)]
pub(crate) struct Move {
    moved: Moved,
    stage: Stage,
    /// The part of the new home's store that has to be committed before the move continues.
    until: u64,
}

#[derive(Clone, Debug)]
enum Stage {
    /// The table has it, and the old home does not know yet.
    Begun,
    /// The images are on their way.
    Sent(Vec<PartitionImage>),
    /// They are at the new home, which has asked for cuts.
    Arrived,
    /// The rests are on their way.
    Rest(Vec<Vec<u8>>),
    /// The new home has everything.
    Complete,
}

impl Net {
    /// Lets a node read a table, begins a move that the seed decides, or takes the next step of the move that is under
    /// way.
    pub(crate) fn step_move(&mut self, random: &mut Random) {
        if random.percent(50) && self.read_some_table(random) {
            return;
        }
        let decided = self.moving.as_ref().is_none_or(|it| matches!(it.stage, Stage::Begun));
        if self.moving.is_none() {
            self.new_move(random);
        } else if !decided && random.percent(8) {
            self.end_of_move(false);
        } else {
            self.advance_move();
        }
    }

    /// A node hands over its partitions from now on, one move after the other, and gets none.
    pub(crate) fn begin_to_leave(&mut self, node: usize) {
        self.trace.note(format!("node {node} is to stop"));
        self.leaving = Some(node);
    }

    /// No node is to leave any more.
    pub(crate) fn stay(&mut self) {
        self.leaving = None;
    }

    /// Whether a leaving node serves nothing by the table that it has read, and has ended its exchanges with the others.
    pub(crate) fn has_left(&mut self, node: usize, gives_kept: bool) -> bool {
        let is_unread = self.unread.get(&node).is_some_and(|tables| !tables.is_empty());
        if self.moving.is_some() || is_unread || !self.nodes.at_home(node).is_empty() {
            return false;
        }
        let left = self.on_node(node, |engine, now| engine.cluster().take_leave(now, gives_kept));
        left.into_iter().all(|left| left)
    }

    /// The process of a node that serves nothing ends, and its store has all that it has written.
    pub(crate) fn stop_node(&mut self, node: usize) {
        self.trace.note(format!("node {node} stops"));
        self.leaving = None;
        // Batches under way are lost with its links.
        self.fall_unnoticed(node, usize::MAX, 0);
        self.bury(node);
    }

    /// Brings the move to its end, and that to all nodes. Returns whether it has come there.
    pub(crate) fn end_move(&mut self) -> bool {
        self.advance_move();
        if self.moving.is_none() {
            self.read_all_tables();
        }
        self.moving.is_none()
    }

    fn new_move(&mut self, random: &mut Random) {
        let living: Vec<usize> = self.nodes.living().collect();
        let at = self.leaving.and_then(|node| living.iter().position(|other| *other == node));
        let leaves = at.is_some();
        let at = at.unwrap_or_else(|| random.below(living.len()));
        let from = living[at];
        let to = living[(at + 1 + random.below((living.len() - 1).max(1))) % living.len()];
        // The first ones stay, so that every shard of a node that stays keeps some work; partitions to be fetched cannot
        // be sent.
        let first = if leaves { 0 } else { self.nodes.engines() };
        let nodes = self.nodes;
        let at_home = (first..PARTITIONS)
            .map(PartitionId)
            .filter(|it| nodes.node_of(nodes.home_of(*it)) == from && !nodes.absent().has(*it));
        let partitions: Partitions = at_home.filter(|_| leaves || random.percent(50)).collect();
        if !partitions.is_empty() && from != to {
            self.begin_move(from, to, partitions);
        }
    }

    /// Begins a move.
    pub(crate) fn begin_move(&mut self, from: usize, to: usize, partitions: Partitions) {
        self.moves += 1;
        self.trace.note(format!("move {} from node {from} to node {to}", self.moves));
        self.nodes.begin_move(self.moves, partitions);
        let moved = Moved { id: self.moves, partitions, from, to };
        self.moving = Some(Move { moved, stage: Stage::Begun, until: 0 });
        self.publish_table(&[Order::Begin(moved)]);
    }

    /// Takes the next step of the present move, if its node is there and ready.
    pub(crate) fn advance_move(&mut self) {
        let Some(it) = &self.moving else { return };
        let Moved { id, partitions, from, to } = it.moved;
        let (from_lives, to_lives) = (self.nodes.lives(from), self.nodes.lives(to));
        let committed = self.store.done(to) >= it.until;
        match it.stage.clone() {
            Stage::Begun if from_lives => self.read_tables(from),
            Stage::Sent(images) if to_lives => {
                self.read_tables(to);
                self.on_node(to, |engine, now| {
                    engine.moves().arrive(now, &images).expect("images as they were given out");
                    engine.moves().begin_coming(now, id, partitions);
                });
                self.go_on_when_written(Stage::Arrived);
            }
            Stage::Arrived
                if from_lives
                    && self.on_node(from, |engine, _| engine.questions().is_cut(id)).iter().all(|cut| *cut) =>
            {
                let rests = self.on_node(from, |engine, _| engine.moves().take_transfer_rest(id));
                match rests.into_iter().collect() {
                    Ok(rests) => self.go_on(Stage::Rest(rests)),
                    Err(error) => {
                        self.trace.note(format!("node {from} refuses move {id}: {error}"));
                        self.end_of_move(false);
                    }
                }
            }
            Stage::Rest(rests) if to_lives && committed => {
                let done = self.on_node(to, |engine, now| engine.moves().finish_transfer(now, id, &rests));
                if let Some(error) = done.into_iter().find_map(Result::err) {
                    self.trace.note(format!("node {to} refuses move {id}: {error}"));
                    self.forget_at(to, partitions);
                    return self.end_of_move(false);
                }
                self.go_on_when_written(Stage::Complete);
            }
            Stage::Complete if to_lives && committed => self.end_of_move(true),
            _ => {}
        }
    }

    fn go_on(&mut self, stage: Stage) {
        if let Some(it) = &mut self.moving {
            it.stage = stage;
        }
    }

    /// The same, when what the new home has written by now is in its store.
    fn go_on_when_written(&mut self, stage: Stage) {
        let Some(to) = self.moving.as_ref().map(|it| it.moved.to) else { return };
        self.nodes.engines_of(to).for_each(|engine| self.write_journal(engine));
        let until = self.store.want(to, self.now.monotonic);
        if let Some(it) = &mut self.moving {
            it.until = until;
        }
        self.go_on(stage);
    }

    /// The old home has read that partitions leave: it gives out their images.
    pub(super) fn send_images(&mut self, moved: Moved) {
        let taken = self.on_node(moved.from, |engine, now| {
            let taken = engine.moves().snapshot_partitions(now, moved.partitions, u64::MAX);
            engine.moves().begin_leaving(moved.id, moved.partitions);
            match taken {
                Ok(Snapshot::Taken(images)) => images,
                other => panic!("no images: {other:?}"),
            }
        });
        if self.moving.as_ref().is_some_and(|it| it.moved.id == moved.id) {
            self.go_on(Stage::Sent(taken.into_iter().flatten().collect()));
        }
    }

    /// A table without the move is stored.
    pub(crate) fn end_of_move(&mut self, committed: bool) {
        let Some(Move { moved, .. }) = self.moving.take() else { return };
        self.trace.note(format!("move {} is over: {committed}", moved.id));
        self.nodes.end_move();
        if committed {
            self.nodes.give(moved.partitions, moved.to);
        }
        self.publish_table(&[Order::End { moved, committed }]);
    }

    /// A move from or to a node that is gone is called off.
    pub(super) fn call_off_moves_of(&mut self, node: usize) {
        if self.moving.as_ref().is_some_and(|it| it.moved.from == node || it.moved.to == node) {
            self.end_of_move(false);
        }
    }
}
