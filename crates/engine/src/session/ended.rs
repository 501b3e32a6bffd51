//! Sessions that have ended and still have subscriptions or messages. `connection/ending.rs` removes them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::rc::Rc;

use super::{Delivery, FilterList, Membership};
use crate::events::reason::Reason;
use crate::ids::{SessionKey, TenantId};

/// Messages that are dropped for one unit of work.
pub(crate) const MESSAGES_PER_WORK: usize = 8;

/// Work for ended sessions that waits, for each unit that a turn does beyond its least share.
const WAITING_PER_WORK: usize = 64;

/// Units of work that a turn may do when little waits.
const ENDED_WORK_PER_TURN_LEAST: usize = 64;

/// The most work that one turn does for ended sessions, units. One unit drops [`MESSAGES_PER_WORK`] messages, so a turn
/// can drop as many messages as publishers may deliver in it.
const ENDED_WORK_PER_TURN_MAX: usize = 1024;

/// The rest of an ended session.
#[derive(Debug)]
pub(crate) struct EndedSession {
    pub key: SessionKey,
    /// New subscriptions of this tenant remove the subscriptions of the session.
    pub tenant: TenantId,
    pub client_id: Box<str>,
    /// The reason of its dropped messages.
    pub reason: Reason,
    pub filters: FilterList,
    pub memberships: Vec<Rc<Membership>>,
    /// Messages that waited, without messages of shared groups.
    pub queue: VecDeque<Delivery>,
    /// Whether it was that of a broker, which is removed at once.
    pub of_broker_link: bool,
}

impl EndedSession {
    pub(crate) fn is_done(&self) -> bool {
        self.subscriptions() == 0 && self.queue.is_empty()
    }

    /// Subscriptions that are left, shared ones included.
    pub(crate) fn subscriptions(&self) -> usize {
        self.filters.len() + self.memberships.len()
    }

    /// Work that is left, where each filter counts as one unit.
    fn work_left(&self) -> usize {
        self.subscriptions() + self.queue.len().div_ceil(MESSAGES_PER_WORK)
    }
}

/// Ended sessions of a tenant.
#[derive(Debug, Default)]
struct EndedOfTenant {
    /// Sessions with subscriptions, in the order of their ends.
    subscribed: VecDeque<EndedSession>,
    /// Those with messages alone.
    queued: VecDeque<EndedSession>,
    /// Whether the next turn takes one with messages alone, where there are both.
    takes_queued: bool,
}

impl EndedOfTenant {
    fn iter(&self) -> impl Iterator<Item = &EndedSession> {
        self.subscribed.iter().chain(&self.queued)
    }

    fn is_empty(&self) -> bool {
        self.subscribed.is_empty() && self.queued.is_empty()
    }

    fn list_for(&mut self, ending: &EndedSession) -> &mut VecDeque<EndedSession> {
        if ending.subscriptions() > 0 { &mut self.subscribed } else { &mut self.queued }
    }
}

/// Ended sessions, and the work done for them in the present turn.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions {
    /// By tenant. No tenant is here without a session.
    waiting: BTreeMap<TenantId, EndedOfTenant>,
    /// Work that waits, where each filter counts as one unit.
    left: usize,
    /// The tenant of the session that was processed last.
    last: TenantId,
    /// Units of work that the present turn may do.
    share: usize,
    /// Units of work done in the present turn.
    work: usize,
}

impl EndedSessions {
    /// A turn begins. Its share grows with the work that waits.
    pub(crate) fn begin_turn(&mut self) {
        self.share = (ENDED_WORK_PER_TURN_LEAST + self.left / WAITING_PER_WORK).min(ENDED_WORK_PER_TURN_MAX);
        self.work = 0;
    }

    /// Whether the present turn has work left for ended sessions.
    pub(crate) fn has_work(&self) -> bool {
        self.work < self.share
    }

    /// Counts work that was done.
    pub(crate) fn charge(&mut self, work: usize) {
        self.work += work;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &EndedSession> {
        self.waiting.values().flat_map(EndedOfTenant::iter)
    }

    /// The next tenant with ended sessions, each after the other.
    pub(crate) fn next_tenant(&mut self) -> Option<TenantId> {
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let next = self.waiting.range(behind).next().or_else(|| self.waiting.first_key_value());
        self.last = *next?.0;
        Some(self.last)
    }

    /// Takes out the next session of a tenant: one with subscriptions and one with messages alone by turns, so that
    /// neither waits for all of the others.
    pub(crate) fn take_next(&mut self, tenant: TenantId) -> Option<EndedSession> {
        let of = self.waiting.get_mut(&tenant)?;
        of.takes_queued = !of.takes_queued;
        let takes_queued = of.takes_queued;
        self.take(tenant, takes_queued)
    }

    /// Takes out the session of a tenant that ended first and has subscriptions; without one, a session with messages.
    pub(crate) fn take_subscribed(&mut self, tenant: TenantId) -> Option<EndedSession> {
        self.take(tenant, false)
    }

    fn take(&mut self, tenant: TenantId, queued_first: bool) -> Option<EndedSession> {
        let of = self.waiting.get_mut(&tenant)?;
        let (first, second) =
            if queued_first { (&mut of.queued, &mut of.subscribed) } else { (&mut of.subscribed, &mut of.queued) };
        let taken = first.pop_front().or_else(|| second.pop_front());
        if of.is_empty() {
            self.waiting.remove(&tenant);
        }
        self.left -= taken.as_ref().map_or(0, EndedSession::work_left);
        taken
    }

    /// Puts a session back that was taken out and has something left.
    pub(crate) fn put_back(&mut self, ending: EndedSession) {
        self.left += ending.work_left();
        self.waiting.entry(ending.tenant).or_default().list_for(&ending).push_front(ending);
    }

    /// Adds a session that has just ended.
    pub(crate) fn add(&mut self, ending: EndedSession) {
        self.left += ending.work_left();
        self.waiting.entry(ending.tenant).or_default().list_for(&ending).push_back(ending);
    }

    /// Returns whether the sum of the waiting work is right.
    pub(crate) fn audit(&self, wrong: &mut dyn FnMut(String)) {
        let left: usize = self.iter().map(EndedSession::work_left).sum();
        if left != self.left {
            wrong(format!("work for ended sessions: {} is kept, {left} is true", self.left));
        }
    }
}
