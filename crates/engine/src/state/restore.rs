//! Restored messages that are given up.

use crate::addresses::mailbox::is_addressed;
use crate::events::reason::Reason;
use crate::ids::SessionKey;
use crate::session::Delivery;
use crate::state::ShardState;

impl ShardState {
    /// Gives up a message that a restored session was owed unless it is addressed to its client; returns whether it did.
    pub(crate) fn gives_up_restored(&mut self, key: SessionKey, delivery: &Delivery) -> bool {
        let Some(session) = self.sessions.get(key.0) else { return true };
        let stored = session.stored;
        if is_addressed(self.settings.addresses.as_ref(), session, &delivery.message) {
            return false;
        }
        self.journal.forget_stored(stored, delivery.number);
        self.counters.drop_message(Reason::SessionDiscarded);
        true
    }
}
