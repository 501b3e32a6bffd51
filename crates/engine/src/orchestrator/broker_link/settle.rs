//! The settlement of messages given to a broker, and repeated sends.
//!
//! A broker's acknowledgement says that it has the message, not that subscribers will get it: it may die, or drop it
//! from a queue. So a message with subscribers in this process is kept until it has returned as well.
//! Only a broker of MQTT 5 brings an id back; a message acknowledged by an older one is settled.

use super::id::sequence::IdReader;
use super::id::{MessageId, SeenIds};
use super::passed::UNPASSED_MAX_MESSAGES;
use crate::ids::BrokerLinkKey;
use crate::ids::SessionKey;
use crate::journal::Journal;
use crate::journal::Numbers;
use crate::now::Now;
use crate::orchestrator::broker_link::{BrokerLink, BrokerLinks, Brokers, Settlement, Unreturned};
use crate::publish::layouts::Layouts;
use crate::session::packet_ids::InflightEntry;
use crate::session::queue::SessionQueue;
use crate::session::table::Sessions;
use crate::session::{Delivery, Flow, InFlight};
use crate::state::ShardState;
use std::collections::BTreeMap;

/// How often a message is sent again that does not return; then it is delivered without a broker.
const RESENDS_MAX: u8 = 3;

/// Messages whose resends are counted. Beyond it, the count of the oldest starts again: they are sent again more often,
/// not for ever.
const RESENDS_COUNTED_MAX: usize = 65_536;

/// How often messages were sent again that have not returned.
#[derive(Debug, Default)]
pub(crate) struct Resends(BTreeMap<MessageId, u8>);

impl Resends {
    /// Counts one more; returns whether the message has been sent again often enough.
    pub(crate) fn is_enough(&mut self, id: &MessageId) -> bool {
        if self.0.len() >= RESENDS_COUNTED_MAX && !self.0.contains_key(id) {
            self.0.pop_first();
        }
        let times = self.0.entry(*id).or_default();
        *times = times.saturating_add(1);
        *times > RESENDS_MAX
    }

    /// Whether nothing is counted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The message is settled.
    pub(crate) fn forget(&mut self, id: &MessageId) {
        if !self.0.is_empty() {
            self.0.remove(id);
        }
    }
}

/// The receivers of messages taken from a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReassignTo {
    /// Another broker, if there is one.
    OtherBrokers,
    /// Any broker.
    AnyBroker,
}

/// A broker whose messages are settled one by one as soon as it has acknowledged and brought them back, since nothing else
/// depends on them.
pub(crate) struct Settler<'a> {
    broker_link: &'a mut BrokerLink,
    seen: &'a SeenIds,
    ids: &'a mut IdReader,
}

impl BrokerLinks {
    /// The broker of a session, if its messages are settled one by one. That is so for nearly all messages, and spares
    /// keeping them until the end of the packet.
    #[inline]
    pub(crate) fn settler(&mut self, session: SessionKey) -> Option<Settler<'_>> {
        let Self { brokers, settlement, quarantine, .. } = self;
        if brokers.has_members || !brokers.held.is_empty() || !quarantine.is_empty() || settlement.has_exceptions() {
            return None;
        }
        let broker_link = brokers.by_session.get(&session.0).and_then(|key| brokers.all.get_mut(key))?;
        let is_simple = broker_link.version.is_v5() && !broker_link.suspicion.is_careful();
        is_simple.then_some(Settler { broker_link, seen: &settlement.seen, ids: &mut settlement.settled })
    }
}

impl Settler<'_> {
    /// Whether the broker has brought a message back.
    #[inline]
    pub(crate) fn has_brought(&mut self, in_flight: &InFlight) -> bool {
        let id = in_flight.delivery.as_ref().and_then(|it| self.ids.at_end_of(it.message.properties()));
        id.is_some_and(|id| self.seen.contains(&id))
    }

    /// Counts messages that the broker has acknowledged and brought back.
    #[inline]
    pub(crate) fn note_settled(&mut self, count: u64) {
        self.broker_link.note_one_answered();
        self.broker_link.counters.acknowledged += count;
        self.broker_link.counters.returned += count;
        self.broker_link.pause.note_room();
    }
}

impl Settlement {
    /// Whether some messages were sent again, are blamed, or wait for other shards.
    #[inline]
    fn has_exceptions(&self) -> bool {
        !self.blames.is_empty() || !self.resends.is_empty() || !self.confirming.is_empty()
    }

    pub(crate) fn keep_unreturned(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        (key, id): (BrokerLinkKey, MessageId),
        in_flight: InFlight,
    ) {
        let cost = in_flight.delivery.as_ref().map_or(0, Delivery::cost);
        let Some(broker_link) = brokers.all.get_mut(&key) else { return };
        let session = broker_link.session;
        let before = broker_link.unreturned.insert(id, Unreturned { in_flight, since: now.monotonic });
        self.unreturned_bytes += cost;
        state.memory.held += cost;
        if let Some(Unreturned { in_flight, .. }) = before {
            // It was dealt to the same broker again, as after a restart: one of them is enough.
            self.forget_unreturned(state, &in_flight);
            brokers.forget_settled(state, layouts, session, &in_flight);
        }
        brokers.fit_window(state, key);
    }

    /// The store may delete it as soon as all shards have the returned message.
    pub(crate) fn forget_come(
        &mut self,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        session: SessionKey,
        id: &MessageId,
        in_flight: &InFlight,
    ) {
        if self.confirming.holds(id, session, in_flight) {
            brokers.note_no_longer_under_way(state, layouts, in_flight);
        } else {
            brokers.forget_settled(state, layouts, session, in_flight);
        }
    }

    /// A message of this process has returned, from any broker.
    #[inline(never)]
    pub(super) fn note_returned(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        id: &MessageId,
    ) {
        self.resends.forget(id);
        // More than one may wait for it, where it was dealt again. Each is searched once: with many messages under way the
        // searches are the larger part of this.
        let mut first = BrokerLinkKey(0);
        while let Some((key, session, Unreturned { in_flight, .. })) =
            brokers.all.range_mut(first..).find_map(|(key, broker_link)| broker_link.take_returned(*key, id))
        {
            first = BrokerLinkKey(key.0 + 1);
            self.forget_unreturned(state, &in_flight);
            self.settle_or_keep(state, layouts, brokers, key, (*id, in_flight));
            brokers.fit_window(state, key);
            state.refill(now.monotonic, layouts, session);
        }
    }

    pub(crate) fn forget_unreturned(&mut self, state: &mut ShardState, in_flight: &InFlight) {
        let cost = in_flight.delivery.as_ref().map_or(0, Delivery::cost);
        self.unreturned_bytes -= cost;
        state.memory.held -= cost;
    }
}

impl BrokerLink {
    /// Takes a message out that has returned, if it waits for that here.
    fn take_returned(&mut self, key: BrokerLinkKey, id: &MessageId) -> Option<(BrokerLinkKey, SessionKey, Unreturned)> {
        let returned = self.unreturned.remove(id)?;
        self.counters.returned += 1;
        Some((key, self.session, returned))
    }
}

impl Brokers {
    /// The store need not keep it any longer.
    pub(crate) fn forget_settled(
        &mut self,
        state: &mut ShardState,
        layouts: &mut Layouts,
        session: SessionKey,
        in_flight: &InFlight,
    ) {
        self.note_no_longer_under_way(state, layouts, in_flight);
        let stored = state.sessions.get(session.0).and_then(|session| session.stored);
        if let Some(stored) = stored {
            state.journal.delete_entry(stored, in_flight.numbers);
        }
    }

    /// Fits the window to the messages that have not returned. A broker without room, or one that has not been asked
    /// for all filters, also of other members, has no window.
    pub(crate) fn fit_window(&mut self, state: &mut ShardState, key: BrokerLinkKey) {
        let Some(broker_link) = self.all.get(&key) else { return };
        let waits = broker_link.hold.is_on() || broker_link.opening.is_on();
        let closed = waits || broker_link.pause.is_on() || !broker_link.filters.are_asked();
        // Packet ids of kept messages are in the store as well.
        let most = u16::MAX - UNPASSED_MAX_MESSAGES;
        let window = if closed { 0 } else { usize::from(broker_link.window.min(most)) };
        let left = match window.saturating_sub(broker_link.unreturned.len()) as u16 {
            _ if broker_link.suspicion.is_careful() && !closed => 1,
            left => left,
        };
        if let Some(session) = state.sessions.get_mut(broker_link.session.0) {
            session.receive_maximum = left;
        }
    }

    /// A broker can take messages again: its queue goes first.
    pub(crate) fn open_window(&mut self, now: Now, state: &mut ShardState, layouts: &mut Layouts, key: BrokerLinkKey) {
        self.fit_window(state, key);
        let session = self.all.get(&key).map(|broker_link| broker_link.session);
        if let Some(session) = session {
            state.refill(now.monotonic, layouts, session);
        }
    }
}

/// Takes the queue of a broker; the caller hands the messages that it does not put back to `deal_queue`.
pub(crate) fn take_queue(sessions: &mut Sessions, session: SessionKey) -> SessionQueue {
    let flow = sessions.get_mut(session.0).and_then(|session| session.flow.as_mut());
    flow.map_or_else(SessionQueue::default, |flow| {
        flow.queue_bytes = 0;
        std::mem::take(&mut flow.queue)
    })
}

/// Takes up to `most` messages that wait for a broker, in the order in which it would get them; `deal_queue` has to get
/// them.
pub(crate) fn take_front(flow: &mut Flow, most: usize, share: u16) -> Vec<Delivery> {
    let taken: Vec<Delivery> = std::iter::from_fn(|| flow.queue.pop_front(share, true)).take(most).collect();
    flow.queue_bytes -= taken.iter().map(Delivery::cost).sum::<u64>();
    taken
}

pub(crate) fn keep_in_flight(sessions: &mut Sessions, session: SessionKey, entry: InflightEntry<InFlight>) {
    if let Some(flow) = sessions.get_mut(session.0).and_then(|session| session.flow.as_mut()) {
        flow.inflight.push_entry(entry);
    }
}

/// Keeps a packet id in flight, also over a restart, to be released; returns the message, which goes to another broker.
pub(crate) fn leave_to_release(
    sessions: &mut Sessions,
    journal: &mut Journal,
    session: SessionKey,
    entry: InflightEntry<InFlight>,
) -> InFlight {
    let mut numbers = entry.item.numbers;
    let id = entry.id();
    let stored = sessions.get(session.0).and_then(|session| session.stored);
    if let Some(stored) = stored.filter(|_| numbers.entry != 0 && entry.item.delivery.is_some()) {
        let flow = sessions.get_mut(session.0).map(crate::session::Session::flow_mut);
        let order = flow.map_or(0, crate::session::Flow::number);
        numbers.separate = true;
        journal.put_to_release(stored, numbers.entry, id, order);
    }
    let (kept, in_flight) = entry.release(InFlight { delivery: None, numbers });
    keep_in_flight(sessions, session, kept);
    InFlight { delivery: in_flight.delivery, numbers: Numbers::default() }
}
