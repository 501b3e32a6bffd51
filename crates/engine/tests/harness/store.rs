//! The model of a store: pairs that are committed, and batches on their way there in one order for all shards.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_engine::{JournalBatch, Millis, Sweep};

use super::net::nodes::Nodes;

/// How long a batch waits to be committed with others, if nothing waits for its commit, milliseconds.
const UNAWAITED_WAIT_MS: u64 = 50;

/// Pairs as a store keeps them.
pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys and values that survive, and what does not yet: of one process, or of each node of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Pairs of the process, or of the first node.
    pub pairs: Pairs,
    /// Pairs of the other nodes.
    others: BTreeMap<usize, Pairs>,
    /// Batches of each node that were handed in so far, and how many of them were committed, or lost.
    counts: BTreeMap<usize, (u64, u64)>,
    /// Batches that were handed in and are not committed, with the shard that wrote them.
    pub waiting: VecDeque<(usize, JournalBatch)>,
    /// Nothing is committed for the time being.
    pub held: bool,
    /// Batches for whose commit nothing waits are put off.
    pub defers: bool,
    /// The time from which each node's batches are committed.
    due: BTreeMap<usize, Millis>,
    /// Nodes at which something waits for the commit of all that was handed in.
    wanted: BTreeSet<usize>,
    /// Batches that were committed and said something.
    pub written: u64,
}

impl Store {
    /// Hands a batch in.
    pub(crate) fn hand_in(&mut self, nodes: &Nodes, shard: usize, batch: JournalBatch, now: Millis) {
        let node = nodes.node_of(shard);
        self.counts.entry(node).or_default().0 += 1;
        let put_off = self.defers && !batch.is_awaited;
        let due = if put_off { now.plus(UNAWAITED_WAIT_MS) } else { now };
        let before = self.due.get(&node).copied().unwrap_or(Millis::NEVER);
        self.due.insert(node, before.min(due));
        self.waiting.push_back((shard, batch));
    }

    /// Something waits for the commit of all that a node has handed in; says for how many batches.
    pub(crate) fn want(&mut self, node: usize, now: Millis) -> u64 {
        if self.waiting_of(node) > 0 {
            self.due.insert(node, now);
            self.wanted.insert(node);
        }
        self.handed_in(node)
    }

    /// Whether batches of a node are to be committed by now.
    pub(crate) fn is_due(&self, node: usize, now: Millis) -> bool {
        self.due.get(&node).is_some_and(|due| *due <= now)
    }

    /// When batches of any node are to be committed.
    pub(crate) fn next_due(&self) -> Millis {
        let next = self.due.values().copied().min().unwrap_or(Millis::NEVER);
        if self.held { Millis::NEVER } else { next }
    }

    /// Whether anything waits for the commit of a node's batches; of any, where none is named.
    pub(crate) fn is_awaited(&self, nodes: &Nodes, of: Option<usize>) -> bool {
        let is_its = |node: usize| of.is_none_or(|of| node == of);
        let is_awaited = |(shard, batch): &(usize, JournalBatch)| is_its(nodes.node_of(*shard)) && batch.is_awaited;
        self.waiting.iter().any(is_awaited) || self.wanted.iter().any(|node| is_its(*node))
    }

    fn forget_due(&mut self, node: usize) {
        if self.waiting_of(node) == 0 {
            self.due.remove(&node);
            self.wanted.remove(&node);
        }
    }

    /// Commits the oldest batch, of this node where one is named; returns its shard and sequence.
    pub(crate) fn commit_one(&mut self, nodes: &Nodes, of: Option<usize>) -> Option<(usize, u64)> {
        let is_its = |shard: usize| of.is_none_or(|node| nodes.node_of(shard) == node);
        let first = self.waiting.iter().position(|(shard, _)| is_its(*shard))?;
        let (shard, batch) = self.waiting.remove(first)?;
        let node = nodes.node_of(shard);
        apply(self.pairs_of_mut(node), &batch.operations);
        self.counts.entry(node).or_default().1 += 1;
        self.written += u64::from(!batch.operations.is_empty());
        self.forget_due(node);
        Some((shard, batch.sequence))
    }

    /// A process is gone: this number of the batches on their way have still been written.
    pub(crate) fn crash(&mut self, nodes: &Nodes, node: usize, kept: usize) {
        for _ in 0..kept {
            self.commit_one(nodes, Some(node));
        }
        let before = self.waiting.len();
        self.waiting.retain(|(shard, _)| nodes.node_of(*shard) != node);
        self.counts.entry(node).or_default().1 += (before - self.waiting.len()) as u64;
        self.forget_due(node);
    }

    /// Batches that a node has handed in so far.
    pub(crate) fn handed_in(&self, node: usize) -> u64 {
        self.counts.get(&node).map_or(0, |counts| counts.0)
    }

    /// How many of them are committed or lost.
    pub(crate) fn done(&self, node: usize) -> u64 {
        self.counts.get(&node).map_or(0, |counts| counts.1)
    }

    /// Batches of a node on their way.
    pub(crate) fn waiting_of(&self, node: usize) -> usize {
        (self.handed_in(node) - self.done(node)) as usize
    }

    /// The pairs in the store of a node.
    pub(crate) fn pairs_of_mut(&mut self, node: usize) -> &mut Pairs {
        if node == 0 { &mut self.pairs } else { self.others.entry(node).or_default() }
    }

    /// A node loses its store.
    pub(crate) fn forget_pairs(&mut self, node: usize) {
        self.pairs_of_mut(node).clear();
    }

    /// The pairs with an owner, in the order of the keys.
    pub(crate) fn swept(&self) -> Pairs {
        let mut sweep = Sweep::default();
        let pairs = self.pairs.iter().filter(|(key, value)| sweep.keep(key, value));
        pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// Carries out the operations of a batch.
fn apply(pairs: &mut Pairs, operations: &[u8]) {
    let mut rest = operations;
    while let Some((operation, behind)) = rest.split_first() {
        let (len, behind) = behind.split_first_chunk::<2>().expect("the length of a key");
        let (key, behind) = behind.split_at(usize::from(u16::from_le_bytes(*len)));
        rest = behind;
        match operation {
            1 => {
                let (len, behind) = behind.split_first_chunk::<4>().expect("the length of a value");
                let (value, behind) = behind.split_at(u32::from_le_bytes(*len) as usize);
                pairs.insert(key.to_vec(), value.to_vec());
                rest = behind;
            }
            2 => {
                pairs.remove(key);
            }
            other => panic!("no operation: {other}"),
        }
    }
}
