//! The nodes of a cluster, and how each of them numbers the shards of all.

use tidegate_engine::{Batch, Engine, Home, Homes, Millis, Now, PARTITIONS, PartitionId, Place, Roster, ShardId};

/// So many nodes of so many shards each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes {
    nodes: u16,
    shards: u16,
}

impl Nodes {
    /// A process that is no node of a cluster.
    pub(crate) fn one(shards: u16) -> Self {
        Self { nodes: 1, shards }
    }

    pub(crate) fn new(nodes: u16, shards: u16) -> Self {
        Self { nodes, shards }
    }

    pub(crate) fn are_several(self) -> bool {
        self.nodes > 1
    }

    /// Number of engines.
    pub(crate) fn engines(self) -> u16 {
        self.nodes * self.shards
    }

    pub(crate) fn node_of(self, engine: usize) -> usize {
        engine / usize::from(self.shards)
    }

    /// Where an engine stands in its process.
    pub(crate) fn place(self, engine: u16) -> Place {
        Place { shard: ShardId(engine % self.shards), shards: self.shards }
    }

    /// The number that one engine's process has for another engine.
    pub(crate) fn number(self, of: usize, other: usize) -> ShardId {
        let (here, there) = (self.node_of(of), self.node_of(other));
        let row = match there.cmp(&here) {
            std::cmp::Ordering::Equal => 0,
            std::cmp::Ordering::Less => there + 1,
            std::cmp::Ordering::Greater => there,
        };
        ShardId((row * usize::from(self.shards) + other % usize::from(self.shards)) as u16)
    }

    /// A batch as it arrives: over the wire where that is another node.
    pub(crate) fn carry(self, batch: Batch, from: usize, to: usize) -> Batch {
        if self.node_of(from) == self.node_of(to) {
            return batch;
        }
        let mut bytes = Vec::new();
        batch.write_to(&mut bytes);
        Batch::read_from(&bytes, self.number(to, from), 0).expect("a batch as it was written")
    }

    /// The engine that works a partition while these nodes live.
    pub(crate) fn home_of(self, partition: PartitionId, lives: impl Fn(usize) -> bool) -> usize {
        let engines = usize::from(self.engines());
        let first = usize::from(partition.0) % engines;
        // What a dead node worked goes to the shard of the same number on the next one.
        let on_nodes = (0..usize::from(self.nodes)).map(|step| (first + step * usize::from(self.shards)) % engines);
        on_nodes.into_iter().find(|engine| lives(self.node_of(*engine))).expect("a node that lives")
    }

    /// Tells the engines of the nodes that live who else does, and who works what.
    pub(crate) fn introduce(self, engines: &mut [Engine], now: Now, lives: impl Fn(usize) -> bool) {
        if !self.are_several() {
            return;
        }
        for of in (0..engines.len()).filter(|engine| lives(self.node_of(*engine))) {
            let mut roster = Roster::alone(self.place(of as u16));
            for other in (0..engines.len()).filter(|other| lives(self.node_of(*other))) {
                roster = roster.with_peer(self.number(of, other));
            }
            let mut homes = [Home::Here; PARTITIONS as usize];
            for partition in (0..PARTITIONS).map(PartitionId) {
                let home = self.home_of(partition, &lives);
                roster = roster.with_home(partition, self.number(of, home));
                if self.node_of(home) != self.node_of(of) {
                    homes[usize::from(partition.0)] = Home::At(home as u16);
                }
            }
            let references = Vec::new();
            let table = Homes { homes, references, redirect: false, lease_until: Millis::NEVER };
            engines[of].set_homes(now, Some(table));
            engines[of].set_roster(now, roster);
        }
    }
}
