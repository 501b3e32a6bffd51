//! Partitions that go from node to node.

use tidegate_engine::{TenantId, partition_of};

use super::World;
use crate::harness::Random;

impl World {
    /// Half of the partitions that the first node works are a node's from now on; nothing is in them.
    pub(crate) fn give_some(&self, node: usize) {
        self.0.borrow_mut().give_some(node);
        self.run();
    }

    /// The sockets of clients stay when their homes move, from now on.
    pub(crate) fn keep_sockets(&self) {
        self.0.borrow_mut().sockets_stay = true;
    }

    /// Shards do other work between two pieces of a batch from now on.
    pub(crate) fn interrupt_batches(&self) {
        self.0.borrow_mut().interrupts_batches = true;
    }

    /// How often a shard has done other work between two pieces of a batch.
    pub(crate) fn pieces_interrupted(&self) -> u64 {
        self.0.borrow().pieces_interrupted
    }

    /// Connections that have continued at another home.
    pub(crate) fn continued(&self) -> u64 {
        self.0.borrow().continued
    }

    /// Begins a move of partitions from node to node, or takes the next step of the present move.
    pub(crate) fn step_move(&self, random: &mut Random) {
        self.0.borrow_mut().step_move(random);
    }

    /// A node hands over its partitions from now on, one move after the other.
    pub(crate) fn begin_to_leave(&self, node: usize) {
        self.0.borrow_mut().begin_to_leave(node);
    }

    /// No node is to leave any more.
    pub(crate) fn stay(&self) {
        self.0.borrow_mut().stay();
    }

    /// Whether a leaving node serves nothing and has ended its exchanges with the others.
    pub(crate) fn has_left(&self, node: usize, gives_kept: bool) -> bool {
        self.0.borrow_mut().has_left(node, gives_kept)
    }

    /// The process of a node that serves nothing ends.
    pub(crate) fn stop_node(&self, node: usize) {
        self.0.borrow_mut().stop_node(node);
    }

    /// Begins a move of all partitions of a node.
    pub(crate) fn begin_move_of_all(&self, from: usize, to: usize) {
        let mut net = self.0.borrow_mut();
        let partitions = net.nodes.at_home(from);
        net.begin_move(from, to, partitions);
    }

    /// Begins a move of the partition of a name.
    pub(crate) fn begin_move(&self, from: usize, to: usize, name: &str) {
        let partitions = std::iter::once(partition_of(TenantId::DEFAULT, name)).collect();
        self.0.borrow_mut().begin_move(from, to, partitions);
    }

    /// Sends the queues of the partition of a name ahead of the next move. Returns the number of messages.
    pub(crate) fn send_ahead(&self, from: usize, to: usize, name: &str) -> usize {
        let partitions = std::iter::once(partition_of(TenantId::DEFAULT, name)).collect();
        let mut net = self.0.borrow_mut();
        let transfer = net.moves + 1;
        net.send_ahead(from, to, partitions, transfer)
    }

    /// Bytes of the images that are on their way, and the number of messages that they waited for.
    pub(crate) fn weight_of_images(&self) -> (usize, usize) {
        let net = self.0.borrow();
        (net.bytes_of_images(), net.awaited_by_images)
    }

    /// Takes the next step of the move that is under way.
    pub(crate) fn advance_move(&self) {
        self.0.borrow_mut().advance_move();
        self.run();
    }

    /// A table says that the move is called off.
    pub(crate) fn call_off_move(&self) {
        self.0.borrow_mut().end_of_move(false);
    }

    /// Brings the move that is under way to its end.
    pub(crate) fn end_move(&self) {
        while !self.0.borrow_mut().end_move() {
            self.run();
        }
    }

    /// Moves of partitions so far.
    pub(crate) fn moves(&self) -> u64 {
        self.0.borrow().moves
    }
}
