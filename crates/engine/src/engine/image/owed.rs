//! What an engine owes its clients, for the proof that a move has lost nothing.

use crate::engine::facets::ShardQuestions;
use crate::ids::PartitionId;
use crate::image::owed::Owed;

impl ShardQuestions<'_> {
    /// What a partition owes and keeps.
    pub fn owed(&self, partition: PartitionId) -> Owed {
        let mut owed = Owed::default();
        for key in self.engine.state.sessions.sessions_of(partition) {
            if let Some(session) = self.engine.state.sessions.get(key.0).filter(|session| session.lasts()) {
                owed.add_session(session);
            }
        }
        owed.wills += self.engine.outgoing.count_of(partition);
        owed.retained = self.engine.retained.retained_of(partition).count() as u64;
        owed
    }
}
