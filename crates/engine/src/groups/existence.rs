//! Groups that exist although no member is known.
//!
//! A group's members can be at a dead node whose successor is not there yet. Until then, only the shard that deals the
//! group knows that it exists. So a shard keeps groups without members until all shards have announced their members.
//! When groups get another home, the old home announces each group to the new one, with or without members: the old
//! home may learn later than the new one that a node is gone.

use crate::cluster::peers::Peers;
use crate::groups::Groups;
use crate::groups::group_partition;
use crate::ids::PartitionId;
use crate::link::Links;
use crate::link::record::{GroupName, Record};
use crate::roster::Roster;
use crate::state::ShardState;

impl Groups {
    /// A group is about to be dealt here. If its member does not know yet that another shard is the home, this shard
    /// notifies the home of the group.
    pub(crate) fn tell_home_of_new(&mut self, links: &mut Links, group: GroupName<'_>) {
        let home = links.roster.home_of(group_partition(group.tenant, group.share, group.filter));
        if home != links.place.shard && self.find(group).is_none() {
            links.send(home, Record::GroupExists { group });
        }
    }

    /// Announces groups that are dealt here to their new home, before that home learns that all members of this shard
    /// have their seats.
    pub(crate) fn tell_homes_of_groups(&mut self, links: &mut Links, old: &Roster) {
        for (_, dealt) in self.dealt.iter() {
            let home = links.roster.home_of(dealt.partition);
            if home != links.place.shard && home != old.home_of(dealt.partition) {
                let group = GroupName { tenant: dealt.tenant, share: &dealt.share, filter: &dealt.filter };
                links.send(home, Record::GroupExists { group });
            }
        }
    }

    /// True if all members of a partition's groups have a seat here: no member of an absent node can return, all shards
    /// have announced their members, and the partition does not move.
    pub(crate) fn knows_all_members(
        &self,
        state: &ShardState,
        peers: &Peers,
        roster: &Roster,
        partition: PartitionId,
    ) -> bool {
        !state.departures.keep(roster, state.moving, partition)
            && !roster.awaits_members()
            && !peers.awaits_absent_home(roster, self, &state.transfers)
            && self.dealers.knows_members(roster, partition)
    }
}
