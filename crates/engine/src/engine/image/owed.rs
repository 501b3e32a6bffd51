//! The messages that an engine owes its clients, for the proof that a move has lost nothing.

use crate::engine::facets::ShardQuestions;
use crate::ids::{PartitionId, Partitions};
use crate::image::owed::Owed;

impl ShardQuestions<'_> {
    /// True if this shard is the home of its share of these partitions, and knows all members of their
    /// groups. Forwarded messages wait for that: a group may have got its first member after the image was taken.
    pub fn knows_groups(&self, partitions: Partitions) -> bool {
        let engine = self.engine;
        let roster = &engine.links.roster;
        let is_known = |partition| roster.works(partition) && engine.groups.dealers.is_complete(partition);
        !roster.awaits_members() && engine.place.own(partitions).iter().all(is_known)
    }

    /// The counts of a partition's sessions, queued messages and retained messages.
    pub fn owed(&self, partition: PartitionId) -> Owed {
        self.owed_of(Partitions::of(partition)).pop().map(|(_, owed)| owed).unwrap_or_default()
    }

    /// The owed and kept messages of each of some partitions, in their order.
    pub(super) fn owed_of(self, partitions: Partitions) -> Vec<(PartitionId, Owed)> {
        let sessions = self.engine.state.sessions.by_partition(partitions);
        let retained = self.engine.retaining.store.by_partition(partitions);
        let owed_of = |partition| {
            let mut owed = Owed::default();
            for key in sessions.of(partition) {
                if let Some(session) = self.engine.state.sessions.get(key.0).filter(|session| session.lasts()) {
                    owed.add_session(session);
                }
            }
            owed.wills += self.engine.peers.outgoing.count_of(partition);
            owed.retained = retained.of(partition).len() as u64;
            (partition, owed)
        };
        partitions.iter().map(owed_of).collect()
    }
}
