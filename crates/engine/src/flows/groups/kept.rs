//! Messages that were dealt are kept until they are answered.

use super::passed::{Passing, Returning};
use crate::events::reason::Reason;
use crate::flows::contexts::Dealing;
use crate::groups::kept::{Deal, WAIT_MS};
use crate::groups::{Receiver, group_partition};
use crate::ids::TenantId;
use crate::link::record::GroupName;
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
use std::rc::Rc;

impl Dealing<'_> {
    /// Gives a message to the shard where its group is dealt, for any member but `not_to`. `of` is the deal that it comes from, `again` the id under
    /// which it is kept here already. Where `client` is not 0 it is for this one alone, and is kept there under the same id.
    pub(super) fn send_to_group(
        &mut self,
        now: Now,
        group: GroupName<'_>,
        publication: &mut Publication<'_>,
        source: &Source,
        (home, not_to): Receiver,
        (of, again, client): (u64, u64, u64),
    ) {
        let names = (group.share, group.filter);
        let (mut id, mut crossing) = (0, None);
        let name = self.groups.kept.deals.get(&again).and_then(|deal| deal.name);
        if client == 0 && self.links.roster.is_own(home) && name.is_none() {
            self.groups.kept.forget_deal(self.state, again);
            crossing =
                self.state.crossings.cross_for_group(&mut self.state.journal, self.links, publication, names, home);
        } else if of == 0 {
            id = self.groups.kept.keep_deal(now, self.state, publication, names, (home, 0), source.hops, again);
        }
        let returning = Returning { group, not_to, of, id, client, name };
        returning.send(self.links, &self.state.overflow, home, publication, source);
        self.links.send_crossing(home, crossing);
    }

    /// Deals the waiting messages that have a receiver now.
    pub(crate) fn deal_waiting(&mut self, now: Now) {
        if self.groups.kept.waiting.is_empty() {
            return;
        }
        for id in self.groups.kept.ids(|deal| deal.at.is_none()) {
            self.deal_kept(now, id, false);
        }
    }

    /// The same for one group with a new member.
    pub(crate) fn deal_waiting_of(&mut self, now: Now, group: GroupName<'_>) {
        if self.groups.kept.waiting.is_empty() {
            return;
        }
        for id in self.groups.kept.waiting_for(group) {
            self.deal_kept(now, id, false);
        }
    }

    /// Deals a message that is nowhere. `last` says that it waits no longer.
    pub(crate) fn deal_kept(&mut self, now: Now, id: u64, last: bool) {
        if self.groups.kept.rests {
            return;
        }
        let Some(deal) = self.groups.kept.deals.get(&id) else { return };
        let (message, client, hops) = (Rc::clone(&deal.message), deal.client, deal.hops);
        let (share, filter) = (deal.share.clone(), deal.filter.clone());
        let tenant: TenantId = message.tenant;
        let mut publication = message.publication();
        if message.is_expired(now.monotonic) {
            self.groups.kept.forget_deal(self.state, id);
            return self.state.reports().discard_publication(Reason::MessageExpired, &mut publication);
        }
        let group = GroupName { tenant, share: &share, filter: &filter };
        let partition = group_partition(tenant, &share, &filter);
        if self.links.roster.misses(partition) || self.state.moving.has(partition) {
            // The dealer of the group is about to be known.
            return;
        }
        let home = self.links.roster.home_of(partition);
        let source = Source { hops, ..Source::inside(self.links.place.shard, now) };
        if home != self.links.place.shard {
            return self.send_to_group(now, group, &mut publication, &source, (home, u32::MAX), (0, id, client));
        }
        let Some(key) = self.groups.find(group) else {
            if last {
                self.groups.kept.forget_deal(self.state, id);
                self.state.reports().discard_publication(Reason::NoGroupMember, &mut publication);
            }
            return;
        };
        let same = (client != 0).then(|| self.groups.place_of_client(self.links, self.state, key, client));
        match same {
            Some(Some(place)) => self.hand_to_client(now, key, place, &mut publication, &source, id),
            Some(None) if !last => {}
            Some(None) if self.asks_home_of(now, client, group, &mut publication, &source, id) => {}
            Some(None) => self.give_up_client(now, key, &mut publication, &source, id),
            None => Passing(self).deal(now, key, &mut publication, &source, id),
        }
    }

    /// Ends the wait of messages after its limit, unless the successor of a node is awaited.
    pub(crate) fn handle_deal_timer(&mut self, now: Now) {
        self.groups.kept.due = None;
        let over = |deal: &Deal| deal.at.is_none() && deal.since.plus(WAIT_MS) <= now.monotonic;
        if !self.links.roster.awaits_members() {
            for id in self.groups.kept.ids(over) {
                self.deal_kept(now, id, true);
            }
        }
        let waiting = self.groups.kept.deals.values().filter(|deal| deal.at.is_none());
        if let Some(next) = waiting.map(|deal| deal.since.plus(WAIT_MS)).min() {
            self.groups.kept.set_deal_timer(self.state, next.max(now.monotonic.plus(WAIT_MS / 10)));
        }
    }
}
