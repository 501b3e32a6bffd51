//! Sessions join shared groups.

use crate::flows::contexts::Answering;
use crate::groups::JOINING_INDEX;
use crate::groups::dealers::LateJoin;
use crate::now::Now;

impl Answering<'_> {
    /// Some shard's messages are dealt elsewhere than before: confirms the joins that have waited for it.
    pub(super) fn confirm_late_joins(&mut self, now: Now) {
        if self.groups.dealers.late_joins.is_empty() {
            return;
        }
        let (dealers, roster) = (&self.groups.dealers, &self.links.roster);
        let is_early = |join: &LateJoin| dealers.is_early(roster, join.from, join.partition);
        let (wait, ready): (Vec<_>, Vec<_>) = dealers.late_joins.iter().copied().partition(is_early);
        self.groups.dealers.late_joins = wait;
        for LateJoin { ticket, .. } in ready {
            if ticket.connection.index == JOINING_INDEX {
                self.confirm_joining(now, ticket.connection.generation);
            } else {
                self.confirm(now, ticket, None, false);
            }
        }
    }
}
