//! Joins of shared groups that are confirmed later, since a shard's messages are dealt elsewhere for now.
//!
//! While the homes of groups change, a shard for which the new home deals already seats its members there alone. A
//! shard that has yet to change has its messages dealt at the old home, which does not know of a group that is new. So
//! such a join is confirmed when all shards have changed, which they are told to at the same moment.

use super::JOINING_INDEX;
use crate::cluster::roster::Roster;
use crate::groups::Groups;
use crate::ids::{PartitionId, ShardId};
use crate::link::envelope::Ticket;
use crate::now::Now;
use crate::publish::answering::Answering;

/// A join that waits until the messages of all shards are dealt here, or those of the member's shard no longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateJoin {
    partition: PartitionId,
    /// The member's shard.
    from: ShardId,
    /// Under which it is confirmed.
    ticket: Ticket,
}

impl super::Dealers {
    /// Whether a member of a shard has its seat here alone, and messages of other shards are dealt elsewhere.
    fn is_early(&self, roster: &Roster, from: ShardId, partition: PartitionId) -> bool {
        self.deals_for(from, partition) && !roster.all().into_iter().all(|shard| self.deals_for(shard, partition))
    }
}

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

impl Groups {
    /// Notes a join that is not to be confirmed yet; says whether it is one.
    pub(super) fn joins_late(
        &mut self,
        roster: &Roster,
        from: ShardId,
        partition: PartitionId,
        ticket: Ticket,
    ) -> bool {
        let early = self.dealers.is_early(roster, from, partition);
        if early {
            self.dealers.late_joins.push(LateJoin { partition, from, ticket });
        }
        early
    }
}
