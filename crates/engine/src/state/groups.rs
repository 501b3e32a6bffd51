//! Whether a session takes a message of a shared group.

use crate::ids::SessionKey;
use crate::message::Publication;
use crate::publish::admission::Wanted;
use crate::state::ShardState;

impl ShardState {
    /// Whether a session takes a message that a group of another shard has dealt to it, or notes that it does not.
    pub(crate) fn takes_dealt(&mut self, to: SessionKey, publication: &Publication<'_>) -> bool {
        if self.has_room_now(self.journal.now.monotonic, to, &Wanted::of(publication)) {
            return true;
        }
        let bounds = self.overflow.bounds_of(&self.sessions, to, publication.topic);
        if let Some(flow) = self.sessions.get_mut(to.0).and_then(|session| session.flow.as_mut()) {
            flow.full_at = Some(bounds);
            flow.gave_back = true;
        }
        false
    }
}
