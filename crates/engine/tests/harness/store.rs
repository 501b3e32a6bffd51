//! The model of a store: pairs that are committed, and batches on their way there in one order for all shards.

use std::collections::{BTreeMap, VecDeque};

use tidegate_engine::{JournalBatch, Sweep};

/// Pairs as a store keeps them.
pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys and values that survive, and what does not yet.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub pairs: Pairs,
    /// Those of further nodes of a cluster: each has a store of its own.
    pub others: BTreeMap<usize, Pairs>,
    /// Shards of each node; 0 if there is only one.
    pub shards: usize,
    /// Batches that were handed in and are not committed, with the shard that wrote them.
    pub waiting: VecDeque<(usize, JournalBatch)>,
    /// Nothing is committed for the time being.
    pub held: bool,
    /// Batches that were committed, or lost.
    pub done: u64,
    /// Those of them that said something.
    pub written: u64,
}

impl Store {
    /// Commits the oldest batch; returns its shard and sequence.
    pub(crate) fn commit_one(&mut self) -> Option<(usize, u64)> {
        let (shard, batch) = self.waiting.pop_front()?;
        let node = shard.checked_div(self.shards).unwrap_or(0);
        let pairs = if node == 0 { &mut self.pairs } else { self.others.entry(node).or_default() };
        apply(pairs, &batch.operations);
        self.done += 1;
        self.written += u64::from(!batch.operations.is_empty());
        Some((shard, batch.sequence))
    }

    /// The process is gone: so many of the batches that were on their way have still been written.
    pub(crate) fn crash(&mut self, kept: usize) {
        for _ in 0..kept {
            self.commit_one();
        }
        self.done += self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// What is somebody's, in the order of the keys.
    pub(crate) fn swept(&self) -> Pairs {
        sweep(&self.pairs)
    }

    /// The same of a node that is dead; nothing of it is left.
    pub(crate) fn take(&mut self, node: usize) -> Pairs {
        let pairs = if node == 0 { Some(std::mem::take(&mut self.pairs)) } else { self.others.remove(&node) };
        sweep(&pairs.unwrap_or_default())
    }
}

fn sweep(pairs: &Pairs) -> Pairs {
    let mut sweep = Sweep::default();
    let pairs = pairs.iter().filter(|(key, value)| sweep.keep(key, value));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
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
