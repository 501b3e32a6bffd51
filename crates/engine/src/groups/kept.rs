//! Messages that groups have dealt to shards of other nodes, until the receiver confirms them.
//!
//! A node can die with messages in flight and messages that its members had not acknowledged. So the shard that deals a
//! message of a group keeps it, in memory and in the store if there is one, until the other shard answers
//! [`Record::Dealt`]: the message is stored with its session, acknowledged, or dropped with a reason. If the node dies
//! first, the message is dealt again: at QoS 1 to any member; at QoS 2 to the same client when it is back, because it
//! may have the message already.

mod bound;
pub(crate) mod passed;
pub(crate) mod renewal;
pub(crate) mod taken_over;

pub(crate) use super::group_partition;
use crate::durable::Way;
use crate::events::reason::Reason;
use crate::groups::Groups;
use crate::groups::kept::passed::Passed;
use crate::hash::hash_bytes;
use crate::ids::{BROKER_LINK_PARTITION, ShardId, TenantId};
use crate::journal::keys::Key;
use crate::link::Links;
use crate::link::exchange_word::ExchangeName;
use crate::link::promised::Promised;
use crate::link::record::GroupName;
use crate::message::{MessageRef, Publication};
use crate::now::{Millis, Now};
use crate::session::promise::{Done, Promise};
use crate::state::ShardState;
use crate::timers::Timer;
use crate::topics::GroupKey;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use tidegate_mqtt::QoS;

/// Milliseconds that a message waits for its group to have a member, and at QoS 2 for the member that it was dealt to.
pub(crate) const WAIT_MS: u64 = 60_000;

/// Messages of groups that other nodes do not answer for yet.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Makes ids differ from ids of other shards and of earlier processes.
    seed: u64,
    made: u64,
    pub(crate) deals: BTreeMap<u64, Deal>,
    /// How many there have been.
    added: u64,
    bytes: u64,
    /// Messages without a receiver, by group and then by order. So a new member of one group does not wait for a search
    /// of the others.
    pub(crate) waiting: BTreeMap<OfGroup, BTreeMap<u64, u64>>,
    pub(crate) due: Option<Millis>,
    /// Whether all messages were given to the homes of their groups, since the process is about to stop.
    given: bool,
    /// Whether no message is dealt: this process serves nothing and knows no node. Others may have read its store before,
    /// and have the messages for their homes; the sessions here are copies that are about to be forgotten.
    pub(crate) rests: bool,
    done: Done,
    /// Confirmations that wait for the next homes of groups.
    pub(crate) passed: Passed,
}

/// A group by its tenant, the name of its share, and its filter.
type OfGroup = (TenantId, Box<str>, Box<str>);

/// Whether the only client that may get a message may have it already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Its last receiver has reported the outcome.
    None,
    /// Its shard is gone, or another shard kept it before.
    Open,
    /// The shard is asked where the client's session is, or was.
    Asked,
}

#[derive(Debug)]
pub(crate) struct Deal {
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    pub(crate) message: MessageRef,
    /// The shard of its member, unless that shard is gone.
    pub(crate) at: Option<ShardId>,
    /// Hash of the client id of the only member that may get it, while that client may return; 0 for any.
    pub(crate) client: u64,
    /// The number under which it is stored; 0 if it is not.
    stored: u64,
    pub(crate) hops: u8,
    /// Whether its client may have it without this shard knowing.
    doubt: Doubt,
    /// The name of its exchange, if it was passed to the next home of its group.
    pub(crate) name: Option<ExchangeName>,
    /// Time of its last change of place.
    pub(crate) since: Millis,
    /// Greater than the order of every message kept before.
    order: u64,
}

impl Deal {
    fn group(&self) -> OfGroup {
        (self.message.tenant, self.share.clone(), self.filter.clone())
    }

    /// Whether the same message may come once more from elsewhere, under its id.
    pub(crate) fn may_come_again(&self) -> bool {
        self.name.is_some() || self.doubt != Doubt::None
    }

    /// Whether it is a message for brokers, and none of a shared group of clients.
    fn is_for_broker(&self) -> bool {
        self.message.tenant == TenantId::BROKER_LINK
    }
}

impl Kept {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.deals.len()
    }

    /// Whether there are messages that groups of clients have dealt, and not only messages for brokers.
    pub(crate) fn has_any_of_clients(&self) -> bool {
        self.deals.values().any(|deal| !deal.is_for_broker())
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn has_timer(&self) -> bool {
        self.due.is_some()
    }

    /// True if a group of another node has to be notified.
    #[inline]
    pub(crate) fn has_done(&self) -> bool {
        !self.done.borrow().is_empty() || self.passed.has_ready()
    }

    pub(crate) fn promise(&self, home: ShardId, id: u64) -> Promise {
        Promise { home, id, done: Rc::clone(&self.done) }
    }

    fn new_id(&mut self) -> u64 {
        self.made += 1;
        hash_bytes(self.seed, &self.made.to_le_bytes()).max(1)
    }

    fn add(&mut self, id: u64, deal: Deal) {
        self.added += 1;
        self.bytes += deal.message.cost();
        if deal.at.is_none() {
            self.waiting.entry(deal.group()).or_default().insert(deal.order, id);
        }
        self.deals.insert(id, deal);
    }

    fn remove(&mut self, id: u64) -> Option<Deal> {
        let deal = self.deals.remove(&id)?;
        self.bytes -= deal.message.cost();
        if deal.at.is_none() {
            self.wait_no_more(&deal);
        }
        Some(deal)
    }

    /// Notes where a message is from now on.
    fn put(&mut self, id: u64, at: Option<ShardId>, since: Millis) {
        let Some(mut deal) = self.deals.remove(&id) else { return };
        match (deal.at, at) {
            (None, Some(_)) => self.wait_no_more(&deal),
            (Some(_), None) => drop(self.waiting.entry(deal.group()).or_default().insert(deal.order, id)),
            _ => {}
        }
        (deal.at, deal.since) = (at, since);
        self.deals.insert(id, deal);
    }

    /// A message that was nowhere is somewhere, or has come to its end.
    fn wait_no_more(&mut self, deal: &Deal) {
        if let Entry::Occupied(mut group) = self.waiting.entry(deal.group()) {
            group.get_mut().remove(&deal.order);
            if group.get().is_empty() {
                group.remove();
            }
        }
    }

    /// Messages of a group without a receiver, in their order.
    pub(crate) fn waiting_for(&self, group: GroupName<'_>) -> Vec<u64> {
        let name = (group.tenant, group.share.into(), group.filter.into());
        self.waiting.get(&name).map(|ids| ids.values().copied().collect()).unwrap_or_default()
    }

    /// Whether a message is kept under this id.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.deals.contains_key(&id)
    }

    pub(crate) fn set_doubt(&mut self, id: u64, doubt: Doubt) {
        if let Some(deal) = self.deals.get_mut(&id) {
            deal.doubt = doubt;
        }
    }

    /// Some of them, in the order in which they were kept.
    pub(crate) fn ids(&self, wanted: impl Fn(&Deal) -> bool) -> Vec<u64> {
        let mut ids: Vec<(u64, u64)> =
            self.deals.iter().filter(|(_, deal)| wanted(deal)).map(|(id, deal)| (deal.order, *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }
}

impl Kept {
    /// Keeps a message that goes to a shard of another node for a group, or notes that `again` goes there. Returns its id; 0 for one
    /// that is not kept, since it is of QoS 0 or there is no room.
    #[expect(clippy::too_many_arguments, reason = "all that is kept of a message")]
    pub(crate) fn keep_deal(
        &mut self,
        now: Now,
        state: &mut ShardState,
        publication: &mut Publication<'_>,
        group: (&str, &str),
        (at, client): (ShardId, u64),
        hops: u8,
        again: u64,
    ) -> u64 {
        if again != 0 {
            self.put(again, Some(at), now.monotonic);
            return again;
        }
        if publication.qos == QoS::AtMostOnce {
            return 0;
        }
        let message = publication.keep();
        if self.bytes + message.cost() > state.settings.limits.kept_deal_bytes {
            state.counters.deals_not_kept += 1;
            return 0;
        }
        self.keep_message(now, state, message, group, Some(at), client, hops)
    }

    /// Keeps a message until its group has a member. Where there is no room it is dropped, and a publisher at QoS 1 hears that it was not taken.
    pub(crate) fn wait_for_member(
        &mut self,
        now: Now,
        state: &mut ShardState,
        group: (&str, &str),
        publication: &mut Publication<'_>,
    ) {
        let message = publication.keep();
        if self.bytes + message.cost() > state.settings.limits.kept_deal_bytes {
            state.gave_up = true;
            state.counters.deals_not_kept += 1;
            return state.reports().discard_publication(Reason::NoGroupMember, publication);
        }
        self.keep_message(now, state, message, group, None, 0, 1);
    }

    /// Keeps a message that an earlier process has noted for a group, and that has been acknowledged. Each process that
    /// reads the note derives the same id from its `name`, so that the group is dealt the message once. The notes and the
    /// window of crossing messages limit these.
    pub(crate) fn keep_noted(
        &mut self,
        now: Now,
        state: &mut ShardState,
        group: (&str, &str),
        publication: &mut Publication<'_>,
        name: u64,
    ) {
        let message = publication.keep();
        if name == 0 {
            self.keep_message(now, state, message, group, None, 0, 1);
        } else {
            let id = hash_bytes(hash_bytes(name, group.0.as_bytes()), group.1.as_bytes()).max(1);
            self.keep_left(now, state, &message, group, 0, id);
        }
    }

    /// Keeps a message of a group that is at a shard of another node, or nowhere.
    #[expect(clippy::too_many_arguments, reason = "all that is kept of a message")]
    fn keep_message(
        &mut self,
        now: Now,
        state: &mut ShardState,
        message: MessageRef,
        (share, filter): (&str, &str),
        at: Option<ShardId>,
        client: u64,
        hops: u8,
    ) -> u64 {
        let id = self.new_id();
        self.keep_as(now, state, id, message, (share, filter), at, client, hops)
    }

    /// Keeps a message that an earlier process or another shard had dealt, until its receiver is known. The same
    /// message may come twice.
    pub(crate) fn keep_left(
        &mut self,
        now: Now,
        state: &mut ShardState,
        message: &MessageRef,
        group: (&str, &str),
        client: u64,
        id: u64,
    ) {
        if !self.has(id) {
            self.keep_as(now, state, id, Rc::clone(message), group, None, client, 1);
            self.set_doubt(id, Doubt::Open);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all that is kept of a message")]
    fn keep_as(
        &mut self,
        now: Now,
        state: &mut ShardState,
        id: u64,
        message: MessageRef,
        (share, filter): (&str, &str),
        at: Option<ShardId>,
        client: u64,
        hops: u8,
    ) -> u64 {
        let client = if message.qos == QoS::ExactlyOnce { client } else { 0 };
        let (share, filter): (Box<str>, Box<str>) = (share.into(), filter.into());
        let mut stored = 0;
        if state.journal.is_on() {
            let way = Way::Deal { share: share.clone(), filter: filter.clone(), client, id };
            stored = state.journal.put_crossing(&message.publication(), &way);
        }
        state.memory.held += message.cost();
        let (since, order) = (now.monotonic, self.added);
        let (doubt, name) = (Doubt::None, None);
        let deal = Deal { share, filter, message, at, client, stored, hops, doubt, name, since, order };
        self.add(id, deal);
        if at.is_none() && self.due.is_none() {
            self.set_deal_timer(state, now.monotonic.plus(WAIT_MS));
        }
        id
    }

    pub(crate) fn set_deal_timer(&mut self, state: &mut ShardState, due: Millis) {
        self.due = Some(due);
        state.timers.set(due, Timer::Deals);
    }

    /// Forgets a message that needs no more keeping.
    pub(crate) fn forget_deal(&mut self, state: &mut ShardState, id: u64) -> Option<MessageRef> {
        let deal = self.remove(id)?;
        self.passed.end(id);
        state.memory.held -= deal.message.cost();
        if deal.stored != 0 {
            state.journal.delete(Key::Crossing(deal.stored));
        }
        Some(deal.message)
    }
}

impl Groups {
    /// A group of this shard has no member for a message. The message waits if the members may return: they were at
    /// a dead node, or are about to leave for one. Otherwise it ends.
    #[cold]
    pub(crate) fn keep_for_who_comes(
        &mut self,
        now: Now,
        state: &mut ShardState,
        links: &mut Links,
        key: GroupKey,
        publication: &mut Publication<'_>,
    ) {
        let leave = self.members(key).next().is_some();
        let partition = self.partition_of(key).filter(|partition| *partition != BROKER_LINK_PARTITION);
        let told = |partition| self.dealers.knows_members(&links.roster, partition);
        let may_come = |partition| !told(partition) || links.roster.awaits_members() || self.dealers.miss_any();
        let awaits = leave || partition.is_some_and(may_come);
        let name = self.dealt.get(key.0).map(|dealt| (dealt.share.clone(), dealt.filter.clone()));
        match name.filter(|_| awaits && publication.qos != QoS::AtMostOnce) {
            Some((share, filter)) => self.kept.wait_for_member(now, state, (&share, &filter), publication),
            None => state.reports().discard_publication(Reason::NoGroupMember, publication),
        }
    }
}

impl Groups {
    /// Reports messages that ended here to the groups of other nodes.
    #[inline(never)]
    pub(crate) fn tell_dealt(&mut self, state: &mut ShardState, links: &mut Links) {
        let done = std::mem::take(&mut *self.kept.done.borrow_mut());
        // The outcome may have to be stored: the message is dead, or was given to another shard.
        let is_open = state.journal.has_uncommitted();
        let batch = if is_open { state.journal.promised_batch() } else { None };
        for (home, id) in done {
            if home == links.place.shard {
                self.kept.forget_deal(state, id);
            } else if links.roster.has(home) {
                links.answer(home, Promised::Dealt { id }, batch);
            }
        }
        for (origin, answer) in self.kept.passed.take_ready() {
            let batch = if is_open { state.journal.promised_batch() } else { None };
            links.answer(origin, answer, batch);
        }
    }
}

impl Kept {
    /// No answer for a dealt message of a client is awaited any longer: each is to be dealt by another shard. Does it once, and
    /// returns whether it was done now.
    pub(crate) fn lose_all_deals(&mut self, now: Now) -> bool {
        if std::mem::replace(&mut self.given, true) {
            return false;
        }
        for id in self.ids(|deal| deal.at.is_some() && !deal.is_for_broker()) {
            self.put(id, None, now.monotonic);
            self.set_doubt(id, Doubt::Open);
        }
        true
    }

    /// A shard of another node is gone. Its unconfirmed messages have no receiver now.
    pub(crate) fn lose_deals_of(&mut self, now: Now, state: &mut ShardState, peer: ShardId) {
        let lost = self.ids(|deal| deal.at == Some(peer));
        for id in &lost {
            self.put(*id, None, now.monotonic);
            self.set_doubt(*id, Doubt::Open);
        }
        if !lost.is_empty() && self.due.is_none() {
            self.set_deal_timer(state, now.monotonic.plus(WAIT_MS));
        }
    }
}
