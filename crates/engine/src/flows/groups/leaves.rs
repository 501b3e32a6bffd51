//! A member leaves a shared group: its seat is given up, and its queued messages return to the group.

use crate::flows::contexts::Dealing;
use crate::flows::contexts::Subscribing;
use crate::flows::contexts::dealing;
use crate::ids::{SessionKey, ShardId};
use crate::link::record::{GroupName, Record};
use crate::now::Now;
use crate::session::Membership;
use crate::settings::Holding;
use std::rc::Rc;

impl Subscribing<'_> {
    /// Ends a session's membership; returns whether there was one.
    pub(crate) fn leave_group(&mut self, now: Now, key: SessionKey, share: &str, filter: &str) -> bool {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return false };
        let counted = session.counted_for();
        let Some(rare) = session.rare.as_mut() else { return false };
        let Ok(at) = rare.find_membership(share, filter) else { return false };
        let membership = rare.memberships.remove(at);
        self.state.tenants.release(counted, Holding::Subscriptions, 1);
        self.leave_home(now, key, &membership);
        dealing!(self).return_waiting(now, key, &membership);
        true
    }
}

impl Subscribing<'_> {
    /// Ends a membership that its session does not list any more, and tells each shard that deals for the group.
    pub(crate) fn leave_home(&mut self, now: Now, key: SessionKey, membership: &Membership) {
        self.state.shared_memberships -= 1;
        let (group, here) = (membership.group(), self.links.place.shard);
        let tables = self.groups.tables_of(&self.links.roster, membership.partition);
        for table in tables.filter(|table| *table != here) {
            self.links.send(table, Record::GroupLeave { group, session: key.0 });
        }
        self.handle_group_leave(now, here, group, key.0);
    }

    /// A member leaves a group of this shard.
    pub(crate) fn handle_group_leave(&mut self, now: Now, from: ShardId, group: GroupName<'_>, session: u32) {
        let Some(key) = self.groups.find(group) else { return };
        let Some(dealt) = self.groups.dealt.get_mut(key.0) else { return };
        dealt.members.leave(&(from, session));
        let (is_empty, partition) = (dealt.members.is_empty(), dealt.partition);
        if is_empty && self.groups.knows_all_members(self.state, self.peers, &self.links.roster, partition) {
            self.remove_group(now, group);
        }
    }
}

impl Dealing<'_> {
    /// Returns the group's queued messages of a member that has left; sent messages stay with the member.
    fn return_waiting(&mut self, now: Now, key: SessionKey, membership: &Rc<Membership>) {
        let Some(flow) = self.state.sessions.get_mut(key.0).and_then(|session| session.flow.as_mut()) else { return };
        let of_group = |group: &Rc<Membership>| group.group() == membership.group();
        if !flow.queue.iter().any(|delivery| delivery.group.as_ref().is_some_and(of_group)) {
            return;
        }
        let (back, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut flow.queue)
            .into_iter()
            .partition(|delivery| delivery.group.as_ref().is_some_and(of_group));
        flow.queue = stay.into_iter().collect();
        for delivery in back {
            let cost = delivery.cost();
            let Some(session) = self.state.sessions.get_mut(key.0) else { return };
            let stored = session.stored;
            if let Some(flow) = session.flow.as_mut() {
                flow.queue_bytes -= cost;
            }
            self.state.memory.forget_queued(cost);
            self.state.journal.forget_stored(stored, delivery.number);
            let membership = delivery.group.as_ref().unwrap_or(membership);
            self.give_back(now, membership, key, &mut delivery.message.publication());
        }
        self.state.after_refill(key);
    }
}
