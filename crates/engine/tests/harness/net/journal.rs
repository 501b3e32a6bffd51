//! Batches on their way to the store and back.

use std::collections::BTreeMap;

use tidegate_engine::LoadedQueue;

use super::Net;
use super::steps::Schedule;

impl Net {
    /// Hands in a shard's records for the store.
    pub(super) fn write_journal(&mut self, shard: usize) {
        if let Some(batch) = self.engines[shard].store().take_journal() {
            self.trace.note(format!("shard {shard}: writes batch {} for the store", batch.sequence));
            self.store.hand_in(&self.nodes, shard, batch, self.now.monotonic);
        }
    }

    /// Commits all waiting batches, or some of them; in a cluster the batches of one of its stores.
    pub(super) fn commit_some(&mut self) {
        let (nodes, now) = (self.nodes, self.now.monotonic);
        let of = match &mut self.schedule {
            Schedule::Seeded(random) if nodes.are_several() => {
                let of_all = self.store.waiting.iter().map(|(shard, _)| nodes.node_of(*shard));
                let due: Vec<usize> = of_all.filter(|node| self.store.is_due(*node, now)).collect();
                (!due.is_empty()).then(|| random.pick(&due))
            }
            _ => None,
        };
        let all = of.map_or(self.store.waiting.len(), |node| self.store.waiting_of(node));
        let count = match &mut self.schedule {
            Schedule::InTurn => all,
            Schedule::Seeded(random) => 1 + random.below(all),
        };
        self.commit_of(of, count);
    }

    /// Commits this number of the waiting batches, and notifies their shards.
    pub(crate) fn commit(&mut self, count: usize) {
        self.commit_of(None, count);
    }

    fn commit_of(&mut self, node: Option<usize>, count: usize) {
        let is_awaited = self.store.is_awaited(&self.nodes, node);
        let mut committed = BTreeMap::new();
        for _ in 0..count {
            let Some((shard, sequence)) = self.store.commit_one(&self.nodes, node) else { break };
            committed.insert(shard, sequence);
        }
        self.trace.note(format!("committed: {committed:?}"));
        for (shard, sequence) in committed {
            self.engines[shard].store().handle_committed(sequence);
            if !is_awaited {
                let released = self.engines[shard].outputs().pop_dirty();
                assert!(released.is_none(), "shard {shard}: an output waited for a batch that was put off");
            }
            for id in self.by_key[shard].values() {
                self.sockets[*id].awaits_commit = false;
            }
            self.gather(shard);
        }
        self.release_behind();
    }

    /// The store brings the part of a queue that was asked for first, as far as it is committed.
    pub(super) fn read_store(&mut self) {
        let Some((shard, wanted)) = self.reading.pop_front() else { return };
        let mut bytes = 0;
        let mut entries = Vec::new();
        let node = self.nodes.node_of(shard);
        for (key, value) in self.store.pairs_of_mut(node).range(wanted.from..wanted.to) {
            bytes += key.len() + value.len();
            if !entries.is_empty() && bytes > wanted.max_bytes {
                break;
            }
            entries.push((key.clone(), value.clone()));
        }
        self.trace.note(format!("shard {shard}: reads {} messages of {}", entries.len(), wanted.client_id));
        let (tenant, client_id, session) = (wanted.tenant, wanted.client_id, wanted.session);
        // The loaded messages are on their way while other things happen, commits among them.
        self.brought.push_back((shard, LoadedQueue { tenant, client_id, session, entries }));
    }

    pub(super) fn bring(&mut self) {
        let Some((shard, loaded)) = self.brought.pop_front() else { return };
        self.trace.note(format!("shard {shard}: takes {} messages of {}", loaded.entries.len(), loaded.client_id));
        self.engines[shard].store().handle_read(self.now, &loaded);
        self.gather(shard);
    }
}
