//! Dead letters are noted.

use crate::events::reason::Reason;
use crate::message::{MessageRef, Publication};
use crate::publish::dead_letter::Noted;
use crate::state::Reporting;

impl Reporting<'_> {
    /// Counts a message that is not delivered, and keeps it as a dead letter if that is wanted.
    #[inline]
    pub(crate) fn discard(&mut self, reason: Reason, message: &MessageRef) {
        self.counters.drop_message(reason);
        if let Some(letters) = &mut self.dead_letters
            && letters.note(reason, message) == Noted::TooMany
        {
            self.counters.dead_letters_lost += 1;
        }
    }

    /// As [`ShardState::discard`], for a message that is not kept yet.
    #[inline]
    pub(crate) fn discard_publication(&mut self, reason: Reason, publication: &mut Publication<'_>) {
        if self.dead_letters.is_some() {
            self.discard(reason, &publication.keep());
        } else {
            self.counters.drop_message(reason);
        }
    }
}
