//! Nodes with stores on the bus: others take over the state of a dead one, or it returns with it.

use std::sync::Arc;

use tidegate_engine::{Engine, PARTITIONS, PartitionId, PartitionImage, Partitions, ShardPosition, Snapshot, Sweep};

use super::Net;
use super::crash::restore;
use super::steps::Step;
use super::tables::Order;
use crate::harness::store::Pairs;

impl Net {
    /// A node dies with a part of its uncommitted batches, and others will take over. Only this number of its batches
    /// to each shard still arrive.
    pub(crate) fn fall(&mut self, node: usize, kept: usize, arrive: usize) {
        let waiting = self.store.waiting_of(node);
        self.trace.note(format!("node {node} falls: {kept} of {waiting} batches survive, {arrive} arrive"));
        self.store.crash(&self.nodes, node, kept.min(waiting));
        self.lose_batches_of(node, arrive);
        self.await_node(node);
    }

    /// A node falls, and the others know no more than that they do not reach it.
    pub(crate) fn fall_unnoticed(&mut self, node: usize, kept: usize, arrive: usize) {
        let waiting = self.store.waiting_of(node);
        self.trace.note(format!("node {node} falls: {kept} of {waiting} batches survive, {arrive} arrive"));
        self.store.crash(&self.nodes, node, kept.min(waiting));
        self.lose_batches_of(node, arrive);
        self.lose_node(node);
    }

    /// A table names the successors of a fallen node.
    pub(crate) fn bury(&mut self, node: usize) {
        self.trace.note(format!("node {node} is taken for dead"));
        self.call_off_moves_of(node);
        self.nodes.bury(node);
        self.publish_table(&[]);
    }

    /// A table says that the nodes that have taken in a dead node's state serve it.
    pub(crate) fn serve_by_table(&mut self) {
        let taken = self.nodes.end_absence();
        self.publish_table(&[Order::Serve(taken)]);
    }

    /// The successors of a dead node fetch the state of its store and take it in. If the node `returns`, it has its
    /// state again when the first one has fetched it, and writes to the store before the others do.
    pub(crate) fn fetch_of(&mut self, node: usize, returns: bool) {
        self.read_all_tables();
        let awaited = self.nodes.absent();
        let nodes = self.nodes;
        for (at, taker) in (0..usize::from(nodes.count())).filter(|taker| nodes.lives(*taker)).enumerate() {
            if returns && at == 1 {
                self.return_without_place(node);
            }
            let pairs = self.store.pairs_of_mut(node).clone();
            let its = awaited.iter().filter(|partition| nodes.node_of(nodes.home_of(*partition)) == taker).collect();
            let images = self.images_of(&pairs, its);
            self.trace.note(format!("node {taker} takes in {} partitions of node {node}", images.len()));
            for engine in nodes.engines_of(taker) {
                self.with_engine(engine, |engine, now| engine.moves().arrive(now, &images)).expect("images of a store");
                // It is served when these batches are committed.
                self.write_journal(engine);
            }
        }
    }

    /// They serve it, when it is committed.
    pub(crate) fn serve_for(&mut self, node: usize) {
        let taken = self.nodes.absent();
        self.replace_node(node);
        for engine in 0..self.engines.len() {
            if self.nodes.lives(self.nodes.node_of(engine)) {
                self.with_engine(engine, |engine, now| engine.moves().release_partitions(now, taken));
            }
        }
    }

    /// A dead node returns with the state of its store.
    pub(crate) fn revive(&mut self, node: usize) {
        // Its moves were cancelled.
        self.sent_ahead.clear();
        self.return_without_place(node);
        self.take_place(node);
    }

    /// A node that has its state again is a member, and has the place that the table gives it.
    pub(crate) fn take_place(&mut self, node: usize) {
        self.call_off_moves_of(node);
        self.read_all_tables();
        self.nodes.begin(node);
        // Partitions that left for others while it was away, or that never came as a whole.
        let its = self.nodes.at_home(node);
        self.forget_at(node, (0..PARTITIONS).map(PartitionId).filter(|partition| !its.has(*partition)).collect());
        self.introduce_all();
    }

    /// A dead node has the state of its store again, and is no member of its cluster.
    pub(crate) fn return_without_place(&mut self, node: usize) {
        self.trace.note(format!("node {node} returns with its data"));
        let mut pairs = self.store.pairs_of_mut(node).clone();
        let mut sweep = Sweep::default();
        pairs.retain(|key, value| sweep.keep(key, value));
        let its = self.nodes.engines_of(node);
        restore(&mut self.engines[its.clone()], self.now, &pairs).expect("what engines wrote can be taken in");
        its.clone().for_each(|engine| self.gather(engine));
        while !self.engines[its.clone()].iter().all(|engine| engine.questions().is_settled()) {
            let between = |step: &Step| match *step {
                Step::Ship(shard) | Step::Timers(shard) => its.contains(&shard),
                Step::Deliver { from, to } => its.contains(&from) && its.contains(&to),
                _ => false,
            };
            match self.steps().into_iter().find(between) {
                Some(step) => self.take(step),
                None => its.clone().for_each(|engine| self.unshipped[engine] = true),
            }
        }
        // As its driver does with a table that does not have it.
        self.on_node(node, |engine, now| engine.moves().release_partitions(now, Partitions::ALL));
        its.for_each(|engine| self.write_journal(engine));
        self.commit_all_of(node);
    }

    /// Gives half of the first node's partitions to another one.
    pub(crate) fn give_some(&mut self, node: usize) {
        let half = self.nodes.at_home(0).iter().step_by(2).collect();
        self.nodes.give(half, node);
        self.introduce_all();
    }

    /// As `images_of` of the crate `node` makes them.
    fn images_of(&self, pairs: &Pairs, partitions: Partitions) -> Vec<PartitionImage> {
        let mut settings = (*self.settings).clone();
        settings.queue.memory_bytes = u64::MAX;
        let mut engine = Engine::new(Arc::new(settings), ShardPosition::ALONE, 0, self.now);
        engine.store().restore_for_others();
        let mut sweep = Sweep::default();
        let kept = pairs.iter().filter(|(key, value)| sweep.keep(key, value));
        let kept: Pairs = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        restore(std::slice::from_mut(&mut engine), self.now, &kept).expect("what engines wrote can be taken in");
        engine.moves().hold_partitions(self.now, partitions, None);
        match engine.moves().snapshot_of_dead(self.now, partitions, u64::MAX) {
            Ok(Snapshot::Taken(images)) => images,
            other => panic!("no images: {other:?}"),
        }
    }
}
