//! Sessions that have ended, whose subscriptions and queued messages are removed in steps.
//!
//! A session may have ten thousand subscriptions and as many messages, and all other clients would wait for their
//! removal. The name of the session is free at once, and nothing is delivered to it any more: its key leads to no
//! session, and no other session gets the key before the last subscription is gone. All sessions that end share a
//! fixed amount of work per turn.

use std::rc::Rc;

use crate::now::Now;
use crate::session::ended::{EndedSession, EndedSessions};
use crate::session::{Membership, Session};
use crate::subscribe::steps::{FILTER_WORK_IN_ANY_CASE, FILTER_WORK_PER_TURN, filter_work};
use crate::subscribe::subscribing::Subscribing;

/// Messages that are dropped for one unit of work.
const MESSAGES_PER_WORK: usize = 8;

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
    fn has_work(&self) -> bool {
        self.work < FILTER_WORK_PER_TURN
    }

    /// Continues with the sessions that have ended, as far as the turn allows.
    pub(crate) fn run(&mut self, now: Now, context: &mut Subscribing<'_>) {
        while self.has_work()
            && let Some(mut ending) = self.waiting.pop_front()
        {
            if !self.step(now, &mut ending, 0, context) {
                self.waiting.push_front(ending);
            }
        }
    }

    /// Removes the rest of an ended session as far as the turn allows, and some of it in any case; the rest waits.
    pub(crate) fn begin(&mut self, now: Now, mut ending: EndedSession, context: &mut Subscribing<'_>) {
        let free = if ending.of_uplink { usize::MAX } else { FILTER_WORK_IN_ANY_CASE };
        if !self.step(now, &mut ending, free, context) {
            self.waiting.push_back(ending);
        }
    }

    /// Removes a part of the rest; says whether that was all. `free` is work that is done whatever the turn has
    /// done before.
    fn step(&mut self, now: Now, ending: &mut EndedSession, free: usize, context: &mut Subscribing<'_>) -> bool {
        let mut done = 0;
        while !ending.is_done() {
            if done >= free && !self.has_work() {
                return false;
            }
            let work = ending.remove_some(now, context);
            done += work;
            self.work += work;
        }
        context.desk.sessions.release(ending.key.0);
        true
    }
}

impl EndedSession {
    /// Removes a subscription or some messages; returns the work that it was.
    fn remove_some(&mut self, now: Now, context: &mut Subscribing<'_>) -> usize {
        if let Some(filter) = self.filters.pop() {
            let work = filter_work(context.index.filter(filter).unwrap_or_default());
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
}
