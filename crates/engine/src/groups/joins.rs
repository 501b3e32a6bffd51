//! Joins of shared groups that are confirmed later, because another shard deals the messages for now.
//!
//! While the homes of groups change, a shard for which the new home deals already seats its members only there. A shard
//! that has not changed yet has its messages dealt at the old home, which does not know a new group. So the join is
//! confirmed when all shards have changed: all of them receive the change at the same moment.

use super::dealers::{Dealers, LateJoin};
use crate::groups::Groups;
use crate::ids::{PartitionId, ShardId};
use crate::link::envelope::Ticket;
use crate::roster::Roster;

impl Dealers {
    /// Whether a member of a shard has its seat here alone, and messages of other shards are dealt elsewhere.
    pub(crate) fn is_early(&self, roster: &Roster, from: ShardId, partition: PartitionId) -> bool {
        self.deals_for(from, partition) && !roster.all().into_iter().all(|shard| self.deals_for(shard, partition))
    }
}

impl Groups {
    /// Notes a join that must not be confirmed yet; returns whether it is one.
    pub(crate) fn joins_late(
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
