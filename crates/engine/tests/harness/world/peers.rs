//! Links between worlds of one shard each, which are members of one cluster.

use std::collections::VecDeque;

use tidegate_engine::{Batch, Roster, ShardId};

use super::World;

impl World {
    /// Takes the batches for a shard of another member, each with how much of the store has to be committed before.
    pub(crate) fn take_for_peer(&self, peer: ShardId) -> VecDeque<(u64, Batch)> {
        self.0.borrow_mut().for_peers.remove(&peer).unwrap_or_default()
    }

    /// How much of the store is committed.
    pub(crate) fn committed(&self) -> u64 {
        self.0.borrow().store.done(0)
    }

    /// A batch of another member comes, whose shard has this number here.
    pub(crate) fn take_from_peer(&self, from: ShardId, batch: &Batch) {
        let mut bytes = Vec::new();
        batch.write_to(&mut bytes);
        let batch = Batch::read_from(&bytes, from, 0).expect("a batch as it was written");
        self.note(format!("{} bytes from a member that is {from} here", batch.bytes_len()));
        let rest = self.engine(0, |engine, now| engine.cluster().handle_batch(now, batch));
        assert!(rest.expect("a batch that can be read").is_none(), "few filters match");
    }

    /// The member gets a roster, with these shards of other members.
    pub(crate) fn set_roster(&self, roster: Roster, peers: Vec<ShardId>) {
        self.0.borrow_mut().for_peers.retain(|peer, _| peers.contains(peer));
        self.0.borrow_mut().peers = peers;
        self.engine(0, |engine, now| engine.cluster().set_roster(now, roster));
    }
}
