//! Nodes that die and return, links that break, and tables that say so.

use super::World;
use crate::harness::net::Step;

impl World {
    /// How many nodes there are, and of how many shards.
    pub(crate) fn nodes(&self) -> (usize, u16) {
        let nodes = self.0.borrow().nodes;
        (usize::from(nodes.count()), nodes.engines() / nodes.count())
    }

    /// A node of the cluster dies, and the others hear of it.
    pub(crate) fn end_node(&self, node: usize) {
        self.0.borrow_mut().end_node(node);
        self.run();
    }

    /// The same, and only this number of its batches to each shard still arrive. Nothing else happens yet.
    pub(crate) fn kill_node(&self, node: usize, arrive: usize) {
        let mut net = self.0.borrow_mut();
        net.lose_batches_of(node, arrive);
        net.end_node(node);
    }

    /// A node of the cluster dies, and other nodes will take over.
    pub(crate) fn await_node(&self, node: usize) {
        self.0.borrow_mut().await_node(node);
        self.run();
    }

    /// A node dies as with [`World::kill_node`], and other nodes will take over. Nothing else happens yet.
    pub(crate) fn kill_awaited_node(&self, node: usize, arrive: usize) {
        let mut net = self.0.borrow_mut();
        net.lose_batches_of(node, arrive);
        net.await_node(node);
    }

    /// A node with its store on the bus dies. `kept` of its uncommitted batches are kept, and `arrive` of its batches
    /// to each shard still arrive. Other nodes will take over. Nothing else happens yet.
    pub(crate) fn fall(&self, node: usize, kept: usize, arrive: usize) {
        self.0.borrow_mut().fall(node, kept, arrive);
    }

    /// The same, and the others know no more than that they do not reach it.
    pub(crate) fn fall_unnoticed(&self, node: usize, kept: usize, arrive: usize) {
        self.0.borrow_mut().fall_unnoticed(node, kept, arrive);
    }

    /// A table says that a node is dead.
    pub(crate) fn bury(&self, node: usize) {
        self.0.borrow_mut().bury(node);
    }

    /// A table says that the nodes that have taken in a dead node's partitions serve them.
    pub(crate) fn serve_by_table(&self) {
        self.0.borrow_mut().serve_by_table();
    }

    /// Whether some node has yet to read a table.
    pub(crate) fn has_unread_tables(&self) -> bool {
        self.0.borrow().has_unread()
    }

    /// A node reads the next table.
    pub(crate) fn read_table(&self, node: usize) {
        assert!(self.0.borrow_mut().read_table(node), "node {node} has a table to read");
        self.run();
    }

    /// All nodes read all tables.
    pub(crate) fn read_all_tables(&self) {
        self.0.borrow_mut().read_all_tables();
    }

    /// A node is gone, others take its place, and all have read that they have.
    pub(crate) fn take_place_of(&self, node: usize) {
        self.bury(node);
        self.fetch_of(node);
        self.run();
        self.serve_by_table();
        self.read_all_tables();
        self.run();
    }

    /// Other nodes take in a dead node's partitions, and do not serve them yet.
    pub(crate) fn fetch_of(&self, node: usize) {
        self.0.borrow_mut().fetch_of(node, false);
    }

    /// The same, and the dead node has its state again before the last of them has fetched it.
    pub(crate) fn fetch_of_returning(&self, node: usize) {
        self.0.borrow_mut().fetch_of(node, true);
    }

    /// They serve it.
    pub(crate) fn serve_for(&self, node: usize) {
        self.0.borrow_mut().serve_for(node);
    }

    /// Other nodes take in a dead node's partitions, and serve them.
    pub(crate) fn take_over(&self, node: usize) {
        self.fetch_of(node);
        self.run();
        self.serve_for(node);
        self.run();
    }

    /// A dead node returns with its data before others serve it.
    pub(crate) fn revive(&self, node: usize) {
        self.0.borrow_mut().revive(node);
    }

    /// A dead node has the state of its store again, and is no member of its cluster.
    pub(crate) fn return_without_place(&self, node: usize) {
        self.0.borrow_mut().return_without_place(node);
    }

    /// It is a member, and has the place that the table gives it.
    pub(crate) fn take_place(&self, node: usize) {
        self.0.borrow_mut().take_place(node);
    }

    /// A dead node joins with nothing. Nothing else happens yet.
    pub(crate) fn rejoin(&self, node: usize) {
        self.0.borrow_mut().begin_node(node);
    }

    /// A dead node returns with nothing.
    pub(crate) fn begin_node(&self, node: usize) {
        self.0.borrow_mut().begin_node(node);
        self.run();
    }

    /// Other nodes take over from a dead node.
    pub(crate) fn replace_node(&self, node: usize) {
        self.0.borrow_mut().replace_node(node);
        self.run();
    }

    /// The nodes keep no messages on the bus: no other node can take them over.
    pub(crate) fn keep_nothing(&self) {
        self.0.borrow_mut().nodes.keep_nothing();
    }

    /// Two nodes lose their link, and only this number of batches of each shard to each still arrive. Nothing else
    /// happens yet.
    pub(crate) fn break_link(&self, one: usize, other: usize, arrive: usize) {
        self.0.borrow_mut().break_link(one, other, arrive);
    }

    /// All nodes have their links again.
    pub(crate) fn mend_links(&self) {
        self.0.borrow_mut().mend_links();
    }

    /// Runs until a shard has handled a batch of another one, and its records for that are not committed.
    pub(crate) fn until_it_has(&self, to: u16, from: u16) {
        let mut net = self.0.borrow_mut();
        while let Some(step) = net.steps().first().copied() {
            net.take(step);
            if step == (Step::Deliver { from: usize::from(from), to: usize::from(to) }) {
                return;
            }
        }
        panic!("nothing comes from shard {from} to shard {to}");
    }
}
