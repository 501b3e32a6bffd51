//! Which groups there are, also while nobody is known to be in them.
//!
//! Members of a group can be at a node that is gone, whose place another one has yet to take. Until it has, only where
//! the group is dealt is it known that there is one. So a shard that has groups without members does not forget them
//! before it has heard of everybody who may be in them; and one whose groups get another home tells that home of each,
//! whether it has members or not: it may hear later than the home that a node is gone.

use crate::cluster::peers::Peers;
use crate::cluster::roster::Roster;
use crate::desk::Desk;
use crate::groups::Groups;
use crate::groups::group_partition;
use crate::ids::{PartitionId, TenantId};
use crate::link::Links;
use crate::link::envelope::Ticket;
use crate::link::record::{GroupName, Record};
use crate::now::Now;
use crate::subscribe::subscribing::Subscribing;
use crate::topics::GroupKey;

impl Subscribing<'_> {
    /// A group is dealt here, if it was not before. Says under which key, and how many shards were told of it and will
    /// confirm that.
    pub(super) fn make_group(&mut self, now: Now, group: GroupName<'_>, ticket: Option<Ticket>) -> (GroupKey, u16) {
        let strategy = self.uplinks.brokers.config.strategy(group.tenant).unwrap_or(self.desk.settings.shared.strategy);
        let key = self.groups.find_or_make(group, strategy);
        let added = self.index.add_group(group.tenant, group.filter, key);
        if !added.first_local {
            return (key, 0);
        }
        self.note_sys_interest(now, group.tenant, group.filter, true);
        (key, self.announce_interest(group.tenant, group.filter, true, ticket))
    }

    /// Nothing is dealt here to a group any more.
    pub(super) fn remove_group(&mut self, now: Now, group: GroupName<'_>) {
        let Some(key) = self.groups.find(group) else { return };
        self.groups.remove(key);
        let removed = self.index.remove_group(group.tenant, group.filter, key);
        if removed.is_some_and(|removed| removed.last_local) {
            self.announce_interest(group.tenant, group.filter, false, None);
            self.note_sys_interest(now, group.tenant, group.filter, false);
        }
    }

    /// A group is dealt at another shard, and this one is its next home.
    pub(crate) fn handle_group_exists(&mut self, now: Now, group: GroupName<'_>) {
        if !self.groups.knows_all_members(
            self.desk,
            self.peers,
            &self.links.roster,
            group_partition(group.tenant, group.share, group.filter),
        ) {
            self.make_group(now, group, None);
        }
    }

    /// Forgets groups without members, as far as it is known that they have none.
    pub(crate) fn remove_forsaken_groups(&mut self, now: Now) {
        let empty = self.groups.dealt.iter().filter(|(_, dealt)| dealt.members.is_empty());
        let forsaken = empty.filter(|(_, dealt)| {
            self.groups.knows_all_members(self.desk, self.peers, &self.links.roster, dealt.partition)
        });
        let names: Vec<(TenantId, Box<str>, Box<str>)> =
            forsaken.map(|(_, dealt)| (dealt.tenant, dealt.share.clone(), dealt.filter.clone())).collect();
        for (tenant, share, filter) in names {
            self.remove_group(now, GroupName { tenant, share: &share, filter: &filter });
        }
    }
}

impl Groups {
    /// A group is about to be dealt here. Where its member has yet to hear that the home is another shard, that one
    /// hears of the group by this one.
    pub(super) fn tell_home_of_new(&mut self, links: &mut Links, group: GroupName<'_>) {
        let home = links.roster.home_of(group_partition(group.tenant, group.share, group.filter));
        if home != links.place.shard && self.find(group).is_none() {
            links.send(home, Record::GroupExists { group });
        }
    }

    /// Groups that are dealt here have another home, which is told of them before it hears that all members of this
    /// shard have their seats.
    pub(crate) fn tell_homes_of_groups(&mut self, links: &mut Links, old: &Roster) {
        for (_, dealt) in self.dealt.iter() {
            let home = links.roster.home_of(dealt.partition);
            if home != links.place.shard && home != old.home_of(dealt.partition) {
                let group = GroupName { tenant: dealt.tenant, share: &dealt.share, filter: &dealt.filter };
                links.send(home, Record::GroupExists { group });
            }
        }
    }

    /// Whether whoever is in a group of a partition has a seat here: nobody who was at a node that is gone is to come,
    /// and all others have said so.
    pub(super) fn knows_all_members(
        &self,
        desk: &Desk,
        peers: &Peers,
        roster: &Roster,
        partition: PartitionId,
    ) -> bool {
        !peers.awaits_somebody(roster, self, &desk.transfers) && self.dealers.is_told_all(roster, partition)
    }
}
