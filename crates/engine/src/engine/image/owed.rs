//! What an engine owes its clients, for the proof that a move has lost nothing.

use crate::engine::Engine;
use crate::ids::PartitionId;
use crate::image::owed::Owed;

impl Engine {
    /// What a partition owes and keeps.
    pub fn owed(&self, partition: PartitionId) -> Owed {
        let mut owed = Owed::default();
        for key in self.state.sessions.sessions_of(partition) {
            if let Some(session) = self.state.sessions.get(key.0).filter(|session| session.lasts()) {
                owed.add_session(session);
            }
        }
        owed.wills += self.outgoing.count_of(partition);
        owed.retained = self.retained.retained_of(partition).count() as u64;
        owed
    }
}
