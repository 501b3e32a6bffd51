//! The tables of a cluster: each node reads them in order, in its own time, and carries out their orders.

use std::collections::VecDeque;

use tidegate_engine::{Engine, Now, Partitions};

use super::Net;
use super::moves::{self, Moved};
use super::nodes::Table;
use crate::harness::Random;

/// An order of a table to nodes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// A move begins.
    Begin(Moved),
    /// It is over.
    End { moved: Moved, committed: bool },
    /// The nodes that have taken in a dead node's partitions serve them.
    Serve(Partitions),
}

/// Tables that a node has yet to read.
pub(super) type Unread = VecDeque<(Table, Vec<Order>)>;

impl Net {
    /// A table is stored. No node has read it.
    pub(super) fn publish_table(&mut self, orders: &[Order]) {
        for node in self.nodes.living() {
            self.unread.entry(node).or_default().push_back((self.nodes.newest(), orders.to_vec()));
        }
    }

    /// Whether some node has yet to read something.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread.values().any(|tables| !tables.is_empty())
    }

    /// A node reads the next table; returns whether there was one.
    pub(crate) fn read_table(&mut self, node: usize) -> bool {
        let Some((table, orders)) = self.unread.get_mut(&node).and_then(VecDeque::pop_front) else { return false };
        self.trace.note(format!("node {node} reads a table: {orders:?}"));
        for order in &orders {
            match *order {
                Order::Begin(moved) if moved.from == node => {
                    self.let_leave(node, moved.partitions);
                    self.on_node(node, |engine, now| engine.moves().hold_partitions(now, moved.partitions, None));
                }
                Order::End { moved, committed } if node == if committed { moved.from } else { moved.to } => {
                    self.forget_at(node, moved.partitions);
                    let next: Vec<u64> = self.moving.iter().map(moves::Move::id).collect();
                    self.on_node(node, |engine, _| engine.moves().keep_ahead(&next));
                }
                Order::Begin(_) | Order::End { .. } | Order::Serve(_) => {}
            }
        }
        self.read[node] = table;
        self.nodes.introduce_to(node, &table, &mut self.engines, self.now);
        self.nodes.engines_of(node).for_each(|engine| self.gather(engine));
        for order in orders {
            match order {
                Order::Begin(moved) if moved.from == node => self.send_images(moved),
                Order::Begin(_) => {}
                Order::End { moved: Moved { partitions, .. }, .. } | Order::Serve(partitions) => {
                    self.on_node(node, |engine, now| engine.moves().release_partitions(now, partitions));
                }
            }
        }
        self.continue_departed();
        true
    }

    /// A node reads all that there is.
    pub(super) fn read_tables(&mut self, node: usize) {
        while self.read_table(node) {}
    }

    /// All do.
    pub(crate) fn read_all_tables(&mut self) {
        self.nodes.living().for_each(|node| self.read_tables(node));
    }

    /// Some node reads the next table; returns whether there was one to read.
    pub(super) fn read_some_table(&mut self, random: &mut Random) -> bool {
        let those: Vec<usize> =
            self.unread.iter().filter(|(_, tables)| !tables.is_empty()).map(|(node, _)| *node).collect();
        !those.is_empty() && self.read_table(random.pick(&those))
    }

    /// A node forgets partitions that live elsewhere.
    pub(super) fn forget_at(&mut self, node: usize, partitions: Partitions) {
        self.on_node(node, |engine, now| {
            engine.moves().forget_partitions(now, partitions);
            engine.moves().forget_retained(now, partitions);
        });
    }

    pub(super) fn on_node<T>(&mut self, node: usize, call: impl Fn(&mut Engine, Now) -> T) -> Vec<T> {
        self.nodes.engines_of(node).map(|engine| self.with_engine(engine, &call)).collect()
    }
}
