//! Partitions that move from node to node while everything else goes on: each step is one that a node takes by itself.

use tidegate_engine::{Engine, PARTITIONS, PartitionId, PartitionImage, Partitions, Snapshot};

use super::Net;
use crate::harness::Random;

/// A move under way.
#[derive(Debug)]
pub(crate) struct Move {
    id: u64,
    partitions: Partitions,
    from: usize,
    to: usize,
    stage: Stage,
}

#[derive(Debug)]
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
    /// The table without it is stored, and these nodes have not read it.
    Over { committed: bool, unread: Vec<usize> },
}

impl Net {
    /// Begins a move that the seed decides, or takes the next step of the one that is under way.
    pub(crate) fn step_move(&mut self, random: &mut Random) {
        match self.moving.take() {
            None => self.moving = self.new_move(random),
            Some(it) => self.moving = self.next_of_move(it, random),
        }
    }

    /// Brings the move to its end.
    pub(crate) fn end_move(&mut self, random: &mut Random) -> bool {
        if self.moving.is_some() {
            self.step_move(random);
        }
        self.moving.is_none()
    }

    fn new_move(&mut self, random: &mut Random) -> Option<Move> {
        let nodes = usize::from(self.nodes.count());
        let from = random.below(nodes);
        let to = (from + 1 + random.below(nodes - 1)) % nodes;
        // The first ones stay, so that every shard goes on working something.
        let all = (self.nodes.engines()..PARTITIONS).map(PartitionId);
        let at_home = all.filter(|partition| self.nodes.node_of(self.nodes.home_of(*partition)) == from);
        let partitions: Partitions = at_home.filter(|_| random.percent(50)).collect();
        if partitions.is_empty() {
            return None;
        }
        self.moves += 1;
        self.trace.note(format!("move {} from node {from} to node {to}", self.moves));
        self.nodes.set_moving(partitions);
        Some(Move { id: self.moves, partitions, from, to, stage: Stage::Begun })
    }

    fn next_of_move(&mut self, mut it: Move, random: &mut Random) -> Option<Move> {
        let (id, partitions) = (it.id, it.partitions);
        let undecided = !matches!(it.stage, Stage::Over { .. } | Stage::Begun);
        if undecided && random.percent(8) {
            return Some(self.decide_move(it, false));
        }
        it.stage = match it.stage {
            Stage::Begun => {
                self.on_node(it.from, |engine, now| engine.hold_partitions(now, partitions, None));
                self.read_table(it.from);
                Stage::Sent(self.images(&it))
            }
            Stage::Sent(images) => {
                self.read_table(it.to);
                self.on_node(it.to, |engine, now| {
                    engine.arrive(now, &images).expect("images as they were given out");
                    engine.begin_coming(now, id, partitions);
                });
                Stage::Arrived
            }
            Stage::Arrived if self.on_node(it.from, |engine, _| engine.is_cut(id)).into_iter().all(|cut| cut) => {
                Stage::Rest(self.on_node(it.from, |engine, _| engine.take_transfer_rest(id).expect("a rest")))
            }
            Stage::Arrived => Stage::Arrived,
            Stage::Rest(rests) => {
                self.on_node(it.to, |engine, now| engine.finish_transfer(now, id, &rests).expect("rests"));
                Stage::Complete
            }
            Stage::Complete => return Some(self.decide_move(it, true)),
            Stage::Over { committed, mut unread } => {
                let node = unread.swap_remove(random.below(unread.len()));
                self.read_end(&Move { stage: Stage::Begun, ..it }, node, committed);
                if unread.is_empty() {
                    return None;
                }
                Stage::Over { committed, unread }
            }
        };
        Some(it)
    }

    fn decide_move(&mut self, mut it: Move, committed: bool) -> Move {
        self.trace.note(format!("move {} is over: {committed}", it.id));
        self.nodes.set_moving(Partitions::NONE);
        if committed {
            self.nodes.give(it.partitions, it.to);
        }
        let unread = (0..usize::from(self.nodes.count())).collect();
        it.stage = Stage::Over { committed, unread };
        it
    }

    /// A node reads that a move is over.
    fn read_end(&mut self, it: &Move, node: usize, committed: bool) {
        let partitions = it.partitions;
        let loses = if committed { it.from } else { it.to };
        if node == loses {
            self.on_node(node, |engine, now| {
                engine.forget_partitions(now, partitions);
                engine.forget_retained(now, partitions);
            });
        }
        self.read_table(node);
        self.on_node(node, |engine, now| engine.release_partitions(now, partitions));
    }

    fn images(&mut self, it: &Move) -> Vec<PartitionImage> {
        let (id, partitions) = (it.id, it.partitions);
        let taken = self.on_node(it.from, |engine, now| {
            let taken = engine.snapshot_partitions(now, partitions, u64::MAX);
            engine.begin_leaving(id, partitions);
            match taken {
                Ok(Snapshot::Taken(images)) => images,
                other => panic!("no images: {other:?}"),
            }
        });
        taken.into_iter().flatten().collect()
    }

    fn read_table(&mut self, node: usize) {
        self.trace.note(format!("node {node} reads the table"));
        self.nodes.introduce_to(node, &mut self.engines, self.now);
        self.nodes.engines_of(node).for_each(|engine| self.gather(engine));
    }

    pub(super) fn on_node<T>(&mut self, node: usize, call: impl Fn(&mut Engine, tidegate_engine::Now) -> T) -> Vec<T> {
        self.nodes.engines_of(node).map(|engine| self.with_engine(engine, &call)).collect()
    }
}
