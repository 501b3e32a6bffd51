//! Sessions that have ended, whose subscriptions and queued messages are removed in steps.
//!
//! A session may have ten thousand subscriptions and as many messages, and all other clients would wait for their
//! removal. The name of the session is free at once, and nothing is delivered to it any more: its key leads to no
//! session, and no other session gets the key before the last subscription is gone. The sessions that end share an
//! amount of work per turn, which grows with the work that waits and has a maximum.
//!
//! The number of subscriptions is bounded all the same. Before a client subscribes to a filter, one subscription of an
//! ended session of its tenant is removed. So a tenant never has more subscriptions on a shard, ended ones included, than
//! its sessions have had there at one time. Subscriptions of ended sessions do not count for the tenant's quota: another shard
//! could not remove them, and would refuse a SUBSCRIBE for which there is room.

use std::rc::Rc;

use crate::flows::contexts::Subscribing;
use crate::flows::contexts::dealing;
use crate::ids::TenantId;
use crate::now::Now;
use crate::session::ended::{EndedSession, EndedSessions, MESSAGES_PER_WORK};
use crate::session::{Membership, Session};
use crate::subscribe::steps::{FILTER_WORK_IN_ANY_CASE, filter_work};

impl Session {
    /// Takes out the memberships of those shared groups that have dealt messages which the client has not answered.
    pub(crate) fn take_owing_memberships(&mut self) -> Vec<Rc<Membership>> {
        let (Some(flow), Some(rare)) = (&self.flow, &mut self.rare) else { return Vec::new() };
        if rare.memberships.is_empty() {
            return Vec::new();
        }
        let sent = flow.inflight.iter().filter_map(|entry| entry.item.delivery.as_ref());
        let dealt = flow.queue.iter().chain(sent).filter_map(|delivery| delivery.group.as_ref());
        let mut owing = Vec::new();
        for group in dealt {
            if let Ok(at) = rare.find_membership(&group.share, &group.filter) {
                owing.push(rare.memberships.remove(at));
            }
        }
        owing
    }
}

impl EndedSessions {
    /// Continues with the sessions that have ended, as far as the turn allows, by turns for each tenant.
    pub(crate) fn run(&mut self, now: Now, context: &mut Subscribing<'_>) {
        while self.has_work()
            && let Some(tenant) = self.next_tenant()
        {
            let Some(ending) = self.take_next(tenant) else { return };
            self.step(now, ending, FILTER_WORK_IN_ANY_CASE, context);
        }
    }

    /// Removes a subscription of an ended session of a tenant that wants to subscribe to one filter; some messages, where
    /// no ended session has a subscription.
    pub(crate) fn give_way(&mut self, now: Now, tenant: TenantId, context: &mut Subscribing<'_>) {
        if let Some(ending) = self.take_subscribed(tenant) {
            self.step(now, ending, 1, context);
        }
    }

    /// Removes the rest of an ended session as far as the turn allows, and some of it in any case; the rest waits.
    pub(crate) fn begin(&mut self, now: Now, mut ending: EndedSession, context: &mut Subscribing<'_>) {
        let free = if ending.of_broker_link { usize::MAX } else { FILTER_WORK_IN_ANY_CASE };
        let mut done = 0;
        while !ending.is_done() {
            if done >= free && !self.has_work() {
                self.add(ending);
                return;
            }
            let work = ending.remove_some(now, context);
            done += work;
            self.charge(work);
        }
        context.state.sessions.release(ending.key.0);
    }

    /// Does about so much work for an ended session.
    fn step(&mut self, now: Now, mut ending: EndedSession, most: usize, context: &mut Subscribing<'_>) {
        let mut done = 0;
        while done < most && !ending.is_done() {
            done += ending.remove_some(now, context);
        }
        self.charge(done);
        if ending.is_done() {
            context.state.sessions.release(ending.key.0);
        } else {
            self.put_back(ending);
        }
    }
}

impl EndedSession {
    /// Removes a subscription or some messages; returns the work that it was.
    fn remove_some(&mut self, now: Now, context: &mut Subscribing<'_>) -> usize {
        if let Some(filter) = self.filters.pop() {
            let work = filter_work(context.router.index.filter(filter).unwrap_or_default());
            context.remove_subscription(now, self.key, filter);
            return work;
        }
        if let Some(membership) = self.memberships.pop() {
            context.leave_home(now, self.key, &membership);
            return filter_work(&membership.filter);
        }
        for _ in 0..MESSAGES_PER_WORK {
            self.drop_next(now, context);
        }
        1
    }
    /// Drops a queued message.
    fn drop_next(&mut self, now: Now, context: &mut Subscribing<'_>) {
        let Some(delivery) = self.queue.pop_front() else { return };
        context.state.memory.forget_queued(delivery.cost());
        dealing!(context).settle_queued(now, self.key, &self.client_id, &delivery, self.reason);
    }
}
