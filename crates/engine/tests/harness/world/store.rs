//! The batches on their way to the store, and its contents; the end of a process, and the next one.

use super::World;
use crate::harness::net::crash::Crash;
use crate::harness::store::Pairs;

impl World {
    /// Nothing is committed until [`World::commit`].
    pub(crate) fn hold_commits(&self) {
        self.0.borrow_mut().store.held = true;
    }

    /// Batches for whose commit nothing waits are put off, as in a store that waits for others to come with them.
    pub(crate) fn put_off_commits(&self) {
        self.0.borrow_mut().store.defers = true;
    }

    /// Something waits at each node for the commit of all that it has written.
    pub(crate) fn want_commits(&self) {
        let mut net = self.0.borrow_mut();
        let now = net.now.monotonic;
        for node in 0..usize::from(net.nodes.count()) {
            net.store.want(node, now);
        }
    }

    /// Commits this number of the waiting batches, and runs until nothing is left to do.
    pub(crate) fn commit(&self, count: usize) {
        self.run();
        self.0.borrow_mut().commit(count);
        self.run();
    }

    /// Commits all waiting batches until none is left, and keeps committing.
    pub(crate) fn release_commits(&self) {
        self.0.borrow_mut().store.held = false;
        self.run();
    }

    /// Commits again from now on.
    pub(crate) fn release_commits_later(&self) {
        self.0.borrow_mut().store.held = false;
    }

    /// Batches on their way to the store.
    pub(crate) fn uncommitted(&self) -> usize {
        self.0.borrow().store.waiting.len()
    }

    /// Batches among them whose commit is awaited.
    pub(crate) fn awaited(&self) -> usize {
        self.0.borrow().store.waiting.iter().filter(|(_, batch)| batch.is_awaited).count()
    }

    /// Batches of a node on their way to its store.
    pub(crate) fn uncommitted_of(&self, node: usize) -> usize {
        self.0.borrow().store.waiting_of(node)
    }

    /// Batches so far that were committed and said something.
    pub(crate) fn written(&self) -> u64 {
        self.0.borrow().store.written
    }

    /// The pairs in the store.
    pub(crate) fn pairs(&self) -> Pairs {
        self.0.borrow().store.pairs.clone()
    }

    /// The pairs in the store of a node.
    pub(crate) fn pairs_of(&self, node: usize) -> Pairs {
        self.0.borrow_mut().store.pairs_of_mut(node).clone()
    }

    /// The store of a node holds these pairs instead.
    pub(crate) fn put_pairs(&self, node: usize, pairs: Pairs) {
        *self.0.borrow_mut().store.pairs_of_mut(node) = pairs;
    }

    /// The pairs that still have an owner.
    pub(crate) fn swept(&self) -> Pairs {
        self.0.borrow().store.swept()
    }

    /// Restarts as process `number` of a member, which serves nothing before it has a table. Message ids of two numbers
    /// differ.
    pub(crate) fn become_member(&self, number: u64) {
        let mut net = self.0.borrow_mut();
        (net.crashes, net.is_member) = (number, true);
        net.crash(Crash::now(1));
    }

    /// The process dies, and another one takes over.
    pub(crate) fn crash(&self, crash: Crash) {
        self.0.borrow_mut().crash(crash);
    }

    /// Connections of clients that crashes have broken.
    pub(crate) fn broken(&self) -> u64 {
        self.0.borrow().broken
    }
}
