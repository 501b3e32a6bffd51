//! Shards learn which shared groups exist.

use crate::flows::contexts::Subscribing;
use crate::groups::group_partition;
use crate::ids::TenantId;
use crate::link::envelope::Ticket;
use crate::link::record::GroupName;
use crate::now::Now;
use crate::topics::GroupKey;

impl Subscribing<'_> {
    /// Makes a group that is dealt here, unless it exists. Returns its key, and the number of shards that received the
    /// announcement and will confirm it.
    pub(crate) fn make_group(&mut self, now: Now, group: GroupName<'_>, ticket: Option<Ticket>) -> (GroupKey, u16) {
        let strategy =
            self.broker_links.brokers.config.strategy(group.tenant).unwrap_or(self.state.settings.shared.strategy);
        let key = self.groups.find_or_make(group, strategy);
        self.groups.store_name(self.state, &self.links.roster, key);
        let added = self.router.index.add_group(group.tenant, group.filter, key);
        if !added.first_local {
            return (key, 0);
        }
        self.note_sys_interest(now, group.tenant, group.filter, true);
        (key, self.announce_interest(group.tenant, group.filter, true, ticket))
    }

    /// Removes a group that is no longer dealt here.
    pub(super) fn remove_group(&mut self, now: Now, group: GroupName<'_>) {
        let Some(key) = self.groups.find(group) else { return };
        if let Some(dealt) = self.groups.remove(key) {
            dealt.forget_name(&mut self.state.journal);
        }
        let removed = self.router.index.remove_group(group.tenant, group.filter, key);
        if removed.is_some_and(|removed| removed.last_local) {
            self.announce_interest(group.tenant, group.filter, false, None);
            self.note_sys_interest(now, group.tenant, group.filter, false);
        }
    }

    /// A group is dealt at another shard, and this one is its next home.
    pub(crate) fn handle_group_exists(&mut self, now: Now, group: GroupName<'_>) {
        if !self.groups.knows_all_members(
            self.state,
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
            self.groups.knows_all_members(self.state, self.peers, &self.links.roster, dealt.partition)
        });
        let names: Vec<(TenantId, Box<str>, Box<str>)> =
            forsaken.map(|(_, dealt)| (dealt.tenant, dealt.share.clone(), dealt.filter.clone())).collect();
        for (tenant, share, filter) in names {
            self.remove_group(now, GroupName { tenant, share: &share, filter: &filter });
        }
    }
}
