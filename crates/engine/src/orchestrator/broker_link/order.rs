//! A topic's messages keep their order while its broker changes, where the topic decides about the broker.
//!
//! When a broker comes, is drained, or has no room for a while, topics move. Queued messages of their old brokers move
//! with them. Messages in flight do not, and newer ones would overtake them at the new broker. So a new broker gets
//! nothing until those are settled, for a limited time.

use super::id::MessageId;
use crate::groups::Groups;
use crate::ids::BrokerLinkKey;
use crate::ids::SessionKey;
use crate::message::MessageRef;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::BrokerLinks;
use crate::orchestrator::broker_link::Brokers;
use crate::publish::layouts::Layouts;
use crate::session::{Delivery, InFlight};
use crate::state::ShardState;
use std::collections::BTreeSet;

/// The longest wait of a broker until other brokers have settled their messages of its topics, milliseconds.
const ORDER_WAIT_MAX_MS: u64 = 2_000;

/// Messages of a queue, from the oldest on, that are searched for the place of one that is dealt again.
const PLACE_AMONG_MAX: usize = 4_096;

/// Settlements of other members that must end before a broker is given messages.
#[derive(Debug)]
pub(crate) struct Hold {
    /// When it waits no longer, [`Millis::NEVER`] where it does not wait.
    pub(super) until: Millis,
    waits_for: BTreeSet<MessageId>,
}

impl Default for Hold {
    fn default() -> Self {
        Self { until: Millis::NEVER, waits_for: BTreeSet::new() }
    }
}

impl Hold {
    /// Whether the broker waits.
    pub(super) fn is_on(&self) -> bool {
        self.until != Millis::NEVER
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

fn id_of(delivery: &Delivery) -> Option<MessageId> {
    MessageId::at_end_of(delivery.message.properties())
}

impl BrokerLinks {
    pub(crate) fn broker_of(&self, groups: &Groups, message: &MessageRef) -> Option<SessionKey> {
        groups.broker_of_topic(self, super::life::group(), message.topic())
    }

    /// Makes brokers wait if other brokers have messages of their new topics in flight.
    pub(crate) fn wait_for_moved(&mut self, now: Now, state: &mut ShardState, groups: &Groups) {
        let mut moved: Vec<(SessionKey, MessageId)> = Vec::new();
        for broker_link in self.brokers.all.values() {
            let flow = state.sessions.get(broker_link.session.0).and_then(|session| session.flow.as_ref());
            let sent = flow.into_iter().flat_map(|flow| flow.inflight.iter().map(|entry| &entry.item));
            let unreturned = broker_link.unreturned.values().map(|waiting| &waiting.in_flight);
            for delivery in sent.chain(unreturned).filter_map(|in_flight| in_flight.delivery.as_ref()) {
                let to = self.broker_of(groups, &delivery.message).filter(|to| *to != broker_link.session);
                moved.extend(to.zip(id_of(delivery)));
            }
        }
        let until = now.monotonic.plus(ORDER_WAIT_MAX_MS);
        for (session, id) in moved {
            let Some(key) = self.brokers.by_session.get(&session.0).copied() else { continue };
            let Some(broker_link) = self.brokers.all.get_mut(&key) else { continue };
            broker_link.hold.waits_for.insert(id);
            if !broker_link.hold.is_on() {
                broker_link.hold.until = until;
                self.brokers.held.insert(key);
                self.brokers.fit_window(state, key);
                self.brokers.set_broker_link_timer(state, key);
            }
        }
    }
}

impl Brokers {
    /// A message in flight to a broker is settled, or another broker has it.
    #[inline]
    pub(super) fn note_no_longer_under_way(
        &mut self,
        state: &mut ShardState,
        layouts: &mut Layouts,
        in_flight: &InFlight,
    ) {
        if !self.held.is_empty()
            && let Some(id) = in_flight.delivery.as_ref().and_then(id_of)
        {
            self.wait_no_longer_for(state, layouts, &id);
        }
    }

    /// Brokers that waited for a message do not any more.
    pub(crate) fn wait_no_longer_for(&mut self, state: &mut ShardState, layouts: &mut Layouts, id: &MessageId) {
        let held: Vec<BrokerLinkKey> = self.held.iter().copied().collect();
        for key in held {
            let Some(broker_link) = self.all.get_mut(&key) else { continue };
            if broker_link.hold.waits_for.remove(id) && broker_link.hold.waits_for.is_empty() {
                self.end_hold(state.journal.now, state, layouts, key);
            }
        }
    }

    /// A broker has waited long enough for others.
    pub(crate) fn end_long_hold(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        key: BrokerLinkKey,
    ) {
        let waited = self.all.get(&key).is_some_and(|broker_link| broker_link.hold.until <= now.monotonic);
        if waited {
            self.end_hold(now, state, layouts, key);
        }
    }

    fn end_hold(&mut self, now: Now, state: &mut ShardState, layouts: &mut Layouts, key: BrokerLinkKey) {
        self.forget_hold(key);
        self.open_window(now, state, layouts, key);
        self.set_broker_link_timer(state, key);
    }

    /// Ends the wait of a broker, as when it is away.
    pub(crate) fn forget_hold(&mut self, key: BrokerLinkKey) {
        self.held.remove(&key);
        if let Some(broker_link) = self.all.get_mut(&key) {
            broker_link.hold.forget();
        }
    }

    /// A message that was dealt again is queued behind younger ones of its topic: it moves before them.
    pub(crate) fn put_in_its_place(&mut self, state: &mut ShardState, message: &MessageRef) {
        let Some(id) = MessageId::at_end_of(message.properties()) else { return };
        let age = (id.entered, id.number);
        let is_it = |delivery: &Delivery| id_of(delivery) == Some(id);
        let comes_after = |delivery: &Delivery| {
            delivery.message.topic() == message.topic()
                && id_of(delivery).is_some_and(|other| (other.entered, other.number) > age)
        };
        for broker_link in self.all.values() {
            let session = state.sessions.get_mut(broker_link.session.0);
            if let Some(flow) = session.and_then(|session| session.flow.as_mut()) {
                flow.queue.advance_last(PLACE_AMONG_MAX, is_it, comes_after);
            }
        }
    }
}
