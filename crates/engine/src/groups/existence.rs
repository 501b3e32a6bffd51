//! Which groups there are, also while nobody is known to be in them.
//!
//! Members of a group can be at a node that is gone, whose place another one has yet to take. Until it has, only where
//! the group is dealt is it known that there is one. So a shard that has groups without members does not forget them
//! before it has heard of everybody who may be in them; and one whose groups get another home tells that home of each,
//! whether it has members or not: it may hear later than the home that a node is gone.

use crate::cluster::peers::Peers;
use crate::groups::Groups;
use crate::groups::group_partition;
use crate::ids::PartitionId;
use crate::link::Links;
use crate::link::record::{GroupName, Record};
use crate::roster::Roster;
use crate::state::ShardState;

impl Groups {
    /// A group is about to be dealt here. Where its member has yet to hear that the home is another shard, that one
    /// hears of the group by this one.
    pub(crate) fn tell_home_of_new(&mut self, links: &mut Links, group: GroupName<'_>) {
        let home = links.group_roster.home_of(group_partition(group.tenant, group.share, group.filter));
        if home != links.place.shard && self.find(group).is_none() {
            links.send(home, Record::GroupExists { group });
        }
    }

    /// Groups that are dealt here have another home, which is told of them before it hears that all members of this
    /// shard have their seats.
    pub(crate) fn tell_homes_of_groups(&mut self, links: &mut Links, old: &Roster) {
        for (_, dealt) in self.dealt.iter() {
            let home = links.group_roster.home_of(dealt.partition);
            if home != links.place.shard && home != old.home_of(dealt.partition) {
                let group = GroupName { tenant: dealt.tenant, share: &dealt.share, filter: &dealt.filter };
                links.send(home, Record::GroupExists { group });
            }
        }
    }

    /// Whether whoever is in a group of a partition has a seat here: nobody who was at a node that is gone is to come,
    /// and all others have said so.
    pub(crate) fn knows_all_members(
        &self,
        state: &ShardState,
        peers: &Peers,
        roster: &Roster,
        partition: PartitionId,
    ) -> bool {
        !peers.awaits_somebody(roster, self, &state.transfers) && self.dealers.is_told_all(roster, partition)
    }
}
