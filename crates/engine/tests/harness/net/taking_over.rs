//! Others go on with what a dead node had in its store: the steps that a process takes, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_engine::{Engine, PARTITIONS, PartitionId, PartitionImage, Partitions, Place, Settings, Snapshot};

use super::Net;
use super::crash::restore;
use crate::harness::store::Pairs;

impl Net {
    /// What the store of a dead node holds is taken in by those who have its partitions, and served.
    pub(crate) fn take_over(&mut self, node: usize) {
        let pairs = self.store.take(node);
        let had = |partition: &PartitionId| {
            let first = usize::from(partition.0) % usize::from(self.nodes.engines());
            self.nodes.node_of(first) == node
        };
        let partitions: Partitions = (0..PARTITIONS).map(PartitionId).filter(had).collect();
        let mut by_node: BTreeMap<usize, Vec<PartitionImage>> = BTreeMap::new();
        for image in self.images_in(&pairs, partitions) {
            by_node.entry(self.nodes.node_of(self.nodes.home_of(image.partition))).or_default().push(image);
        }
        for (to, images) in &by_node {
            self.on_node(*to, |engine, now| {
                engine.arrive(now, images).expect("images as they were given out");
            });
        }
        self.replace_node(node);
        for (to, images) in &by_node {
            let partitions: Partitions = images.iter().map(|image| image.partition).collect();
            self.on_node(*to, |engine, now| engine.release_partitions(now, partitions));
        }
    }

    /// The partitions in a store, by an engine that serves nobody.
    fn images_in(&self, pairs: &Pairs, partitions: Partitions) -> Vec<PartitionImage> {
        let mut settings = Settings::clone(&self.settings);
        settings.queue.memory_bytes = u64::MAX;
        let mut engines = [Engine::new(Arc::new(settings), Place::ALONE, 0, self.now)];
        restore(&mut engines, self.now, pairs).expect("what the engines wrote can be taken in");
        engines[0].hold_partitions(self.now, partitions, None);
        match engines[0].snapshot_partitions(self.now, partitions, u64::MAX) {
            Ok(Snapshot::Taken(images)) => images,
            other => panic!("no images: {other:?}"),
        }
    }
}
