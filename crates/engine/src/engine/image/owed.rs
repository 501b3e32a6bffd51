//! What an engine owes its clients, for the proof that a move has lost nothing.

use crate::engine::facets::ShardQuestions;
use crate::ids::{PartitionId, Partitions};
use crate::image::owed::Owed;

impl ShardQuestions<'_> {
    /// The counts of a partition's sessions, queued messages and retained messages.
    pub fn owed(&self, partition: PartitionId) -> Owed {
        self.owed_of(Partitions::of(partition)).pop().map(|(_, owed)| owed).unwrap_or_default()
    }

    /// What each of some partitions owes and keeps, in their order.
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
