//! Homes of partitions, sessions and groups.

use tidegate_engine::{PartitionId, TenantId, partition_of};

use super::World;

impl World {
    pub(crate) fn shards(&self) -> u16 {
        self.0.borrow().engines.len() as u16
    }

    /// The home of a client id, a retained topic, or (`share/filter`) a shared group.
    pub(crate) fn home_of(&self, name: &str) -> u16 {
        self.home_of_partition(partition_of(TenantId::DEFAULT, name).0)
    }

    /// The shard that works a partition.
    pub(crate) fn home_of_partition(&self, partition: u16) -> u16 {
        self.0.borrow().nodes.home_of(PartitionId(partition)) as u16
    }

    /// Whether a shard works any partition.
    pub(crate) fn works_something(&self, shard: u16) -> bool {
        let nodes = self.0.borrow().nodes;
        (0..tidegate_engine::PARTITIONS).any(|at| nodes.home_of(PartitionId(at)) == usize::from(shard))
    }

    /// A name that starts with `stem` and whose home is the given shard.
    pub(crate) fn name_on(&self, shard: u16, stem: &str) -> String {
        let shard = shard % self.shards();
        let absent = self.0.borrow().nodes.absent();
        let is_there =
            |name: &String| self.home_of(name) == shard && !absent.has(partition_of(TenantId::DEFAULT, name));
        let name = (0..100_000).map(|number| format!("{stem}{number}")).find(is_there);
        name.expect("one of many names")
    }
}
