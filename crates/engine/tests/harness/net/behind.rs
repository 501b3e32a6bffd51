//! Records that leave for other nodes after a commit.

use std::collections::VecDeque;

use tidegate_engine::Batch;

use super::Net;

/// Batches in their order, each with how much of its node's store has to be committed before, and from and for which
/// shard it is.
pub(super) type Behind = VecDeque<(u64, usize, usize, Batch)>;

impl Net {
    /// Takes the batch for one other shard; in turn all shards are served before anything else happens here.
    pub(super) fn ship(&mut self, shard: usize) {
        if self.shipping[shard].is_none() {
            // Before any other shard can know of its records.
            self.write_journal(shard);
            // A commit that comes in between may release records for shards that were served before it.
            self.unshipped[shard] = false;
        }
        let to = self.shipping[shard].unwrap_or(0);
        let taken = self.engines[shard].take_batch(self.nodes.number(shard, to));
        if let Some(batch) = taken {
            self.send_batch(shard, to, batch);
        }
        let last = to + 1 == self.engines.len();
        self.shipping[shard] = (!last).then_some(to + 1);
        if last {
            self.ship_to_peers(shard);
        }
    }

    /// Takes the batches for members in other worlds, each with how much of the store has to be committed before.
    fn ship_to_peers(&mut self, shard: usize) {
        for peer in self.peers.clone() {
            let Some(batch) = self.engines[shard].take_batch(peer) else { continue };
            let waits = batch.promises() && self.store.waiting_of(0) > 0;
            let until = if waits { self.store.want(0, self.now.monotonic) } else { 0 };
            self.for_peers.entry(peer).or_default().push_back((until, batch));
        }
    }

    /// Hands a batch over as the shell does: to another node what promises something goes behind all that was written
    /// before.
    pub(super) fn send_batch(&mut self, from: usize, to: usize, batch: Batch) {
        let node = self.nodes.node_of(from);
        let promises = batch.promises() && self.store.waiting_of(node) > 0;
        let follows = self.behind.iter().any(|(_, before, its, _)| (*before, *its) == (from, to));
        let is_elsewhere = self.nodes.node_of(from) != self.nodes.node_of(to);
        let batch = self.nodes.carry(batch, from, to);
        if is_elsewhere && (promises || follows) {
            let until = self.store.want(node, self.now.monotonic);
            self.trace.note(format!("shard {from}: {} bytes for shard {to} wait for the store", batch.bytes_len()));
            self.behind.push_back((until, from, to, batch));
        } else {
            self.trace.note(format!("shard {from}: sends {} bytes to shard {to}", batch.bytes_len()));
            self.inboxes[to].push_back((from, batch));
        }
    }

    /// Releases the batches whose commit has come.
    pub(super) fn release_behind(&mut self) {
        let (nodes, store) = (self.nodes, &self.store);
        let ready = |(until, from, ..): &(u64, usize, usize, Batch)| *until <= store.done(nodes.node_of(*from));
        let (leave, stay): (Behind, Behind) = std::mem::take(&mut self.behind).into_iter().partition(ready);
        self.behind = stay;
        for (_, from, to, batch) in leave {
            self.inboxes[to].push_back((from, batch));
        }
    }

    /// A node has died: its unsent batches are lost, and the others have no receiver.
    pub(super) fn forget_behind(&mut self, node: usize) {
        let nodes = self.nodes;
        self.behind.retain(|(_, from, to, _)| nodes.node_of(*from) != node && nodes.node_of(*to) != node);
    }
}
