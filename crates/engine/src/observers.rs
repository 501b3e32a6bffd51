//! Observers: services that have to have each message of some topics before its publisher is acknowledged.
//!
//! A message goes to the observers of the shard where it enters, once to each whose filters match. The window of an
//! observer bounds its unconfirmed messages; its policy decides about publishers beyond it. The topics of an observer
//! are looked up with the route of a topic, so a topic without one costs nothing.

use crate::topics::observed::ObservedTopics;
use crate::topics::observed::ObserverSet;

use crate::event::Event;
pub(crate) use crate::event::{ObservedMessage, ObservedTicket};
use crate::events::reason::Reason;
use crate::ids::{ConnectionKey, ObserverId, TenantId};
use crate::link::envelope::Ticket;
use crate::message::Publication;
use crate::settings::fleet_topics::owner_of;
use crate::state::ShardState;
pub(crate) use crate::topics::observed::MAX_OBSERVERS;
use crate::topics::origin::without_origin;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tidegate_mqtt::split_frame;

/// The policy for a full window of an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserverPolicy {
    /// The publisher waits, within the limit for blocked publishers; then its message is refused.
    Hold,
    /// The message is refused. One at QoS 0 is delivered without the observer, and counted.
    Refuse,
    /// The message is delivered without the observer, and counted.
    Drop,
}

/// How much an observer may have that it has not confirmed. A message that is larger than the window passes alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObserverWindow {
    /// Messages; with 0 it gets none.
    pub messages: u64,
    /// Bytes of topics, properties and payloads.
    pub bytes: u64,
}

/// An observer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observer {
    /// In logs.
    pub name: String,
    /// The topics that it observes.
    pub filters: Vec<String>,
    /// The tenant whose messages it observes; `None` observes all tenants.
    pub tenant: Option<TenantId>,
    /// The bound of its unconfirmed messages.
    pub window: ObserverWindow,
    /// The policy for a full window.
    pub policy: ObserverPolicy,
    /// The reason of refused or dropped messages.
    pub refusal: Reason,
}

/// Why there cannot be an observer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserverError {
    /// The limit of observers is reached.
    #[error("{MAX_OBSERVERS} observers exist already: remove one first")]
    TooMany,
    /// A filter is not valid.
    #[error("{0:?} is not a topic filter: use a valid one without $share")]
    InvalidFilter(String),
}

/// The answer of an observer about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObserverAnswer {
    /// It has the message.
    Taken,
    /// It does not take the message now: its publisher is to send it again.
    Later,
    /// It will never take the message: its publisher must not send it again.
    Never {
        /// The tenant of its publisher.
        tenant: TenantId,
        /// The publisher, for the log.
        client_id: String,
        /// The topic, for the log.
        topic: String,
    },
}

/// An observed message that is not confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unconfirmed {
    /// The ticket of the acknowledgement that waits.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) cost: u64,
}

#[derive(Debug)]
pub(crate) struct Observing {
    pub(crate) observer: Observer,
    pub(crate) unconfirmed: BTreeMap<u64, Unconfirmed>,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Publishers that are parked until there is room.
    pub(crate) waiting: VecDeque<ConnectionKey>,
}

impl Observing {
    pub(crate) fn new(observer: Observer) -> Self {
        Self { observer, unconfirmed: BTreeMap::new(), bytes: 0, waiting: VecDeque::new() }
    }

    pub(crate) fn has_room(&self, cost: u64) -> bool {
        let window = self.observer.window;
        let count = self.unconfirmed.len() as u64;
        count < window.messages && (count == 0 || self.bytes.saturating_add(cost) <= window.bytes)
    }
}

/// All observers of a shard.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    pub(crate) all: BTreeMap<ObserverId, Observing>,
    next_number: u64,
    /// Publishers that have waited for room as long as they may. The message that has waited, the first that is kept back,
    /// does not wait again; the mark ends with it, accepted or not.
    given_up: BTreeSet<ConnectionKey>,
}

/// The decision of some observers' windows about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It is delivered.
    Enough,
    /// Its publisher waits for this observer.
    Wait(ObserverId),
    /// It is refused.
    Refused(Reason),
}

impl Observers {
    /// Observers that the settings ask for. They refuse everything until their window is opened.
    pub(crate) fn of_settings(settings: &crate::Settings) -> Self {
        let mut observers = Self::default();
        let addresses = settings.addresses.as_ref();
        let wanted = [
            (ObserverId::APPLICATIONS, "applications", addresses.is_some_and(|it| it.records)),
            (ObserverId::REPORTS, "reports", addresses.is_some_and(|it| !it.reports.is_empty())),
        ];
        for (id, name, _) in wanted.into_iter().filter(|(_, _, wanted)| *wanted) {
            let observer = Observer {
                name: name.to_owned(),
                filters: Vec::new(),
                tenant: Some(TenantId::DEFAULT),
                window: ObserverWindow::default(),
                policy: ObserverPolicy::Refuse,
                refusal: Reason::BusRefused,
            };
            observers.all.insert(id, Observing::new(observer));
        }
        observers
    }

    pub(crate) fn topics(&self) -> ObservedTopics {
        let topics = self.all.iter().filter(|(_, it)| !it.observer.filters.is_empty());
        ObservedTopics::new(topics.map(|(id, it)| (*id, it.observer.tenant, it.observer.filters.clone())).collect())
    }

    /// Whether a publisher waits for room.
    pub(crate) fn holds(&self, key: ConnectionKey) -> bool {
        self.all.values().any(|it| it.waiting.contains(&key))
    }

    /// A publisher is gone, or does not wait any more.
    pub(crate) fn forget_waiting(&mut self, key: ConnectionKey) {
        for it in self.all.values_mut() {
            it.waiting.retain(|other| *other != key);
        }
        self.given_up.remove(&key);
    }

    /// A publisher has waited for its maximum time.
    pub(crate) fn give_up(&mut self, key: ConnectionKey) {
        if self.holds(key) {
            self.forget_waiting(key);
            self.given_up.insert(key);
        }
    }

    /// Whether the first withheld message of a publisher has waited for its maximum time.
    fn has_given_up(&self, key: ConnectionKey) -> bool {
        !self.given_up.is_empty() && self.given_up.contains(&key)
    }

    /// The bytes of that message among the packets kept back of its publisher; 0 without such a message.
    pub(crate) fn len_of_given_up(&self, key: ConnectionKey, kept_back: &[u8]) -> usize {
        if !self.has_given_up(key) {
            return 0;
        }
        split_frame(kept_back, u32::MAX).ok().flatten().map_or(kept_back.len(), |frame| frame.total_len)
    }

    /// That message was worked off.
    pub(crate) fn end_giving_up(&mut self, key: ConnectionKey) {
        self.given_up.remove(&key);
    }

    /// A publisher waits from now on; false if it does already.
    pub(crate) fn wait(&mut self, id: ObserverId, key: ConnectionKey) -> bool {
        let Some(it) = self.all.get_mut(&id).filter(|it| !it.waiting.contains(&key)) else { return false };
        it.waiting.push_back(key);
        true
    }

    /// Puts a publisher that waits again before all others; false if it does not wait.
    pub(crate) fn put_back(&mut self, id: ObserverId, key: ConnectionKey) -> bool {
        let Some(it) = self.all.get_mut(&id).filter(|it| it.waiting.back() == Some(&key)) else { return false };
        it.waiting.rotate_right(1);
        true
    }

    /// The name of an observer.
    pub(crate) fn name(&self, id: ObserverId) -> Option<&str> {
        self.all.get(&id).map(|it| &*it.observer.name)
    }

    /// Checks that all these observers have room for a message. `is_answered` says whether its publisher gets a
    /// refusal, `may_wait` whether it can wait.
    pub(crate) fn room(
        &mut self,
        set: ObserverSet,
        cost: u64,
        key: ConnectionKey,
        is_answered: bool,
        may_wait: bool,
    ) -> Room {
        let waited = self.has_given_up(key);
        for id in set.iter() {
            let Some(it) = self.all.get(&id).filter(|it| !it.has_room(cost)) else { continue };
            match it.observer.policy {
                ObserverPolicy::Hold if may_wait && !waited => return Room::Wait(id),
                ObserverPolicy::Hold | ObserverPolicy::Refuse if is_answered => {
                    return Room::Refused(it.observer.refusal);
                }
                ObserverPolicy::Hold | ObserverPolicy::Refuse | ObserverPolicy::Drop => {}
            }
        }
        Room::Enough
    }

    /// The sums are right.
    pub(crate) fn audit(&self, wrong: &mut dyn FnMut(String)) {
        for it in self.all.values() {
            let bytes: u64 = it.unconfirmed.values().map(|one| one.cost).sum();
            if bytes != it.bytes {
                wrong(format!("observer {:?} has {bytes} bytes, not {}", it.observer.name, it.bytes));
            }
            if !it.waiting.is_empty() && it.unconfirmed.is_empty() && it.observer.window.messages > 0 {
                wrong(format!("publishers wait for observer {:?}, which has room", it.observer.name));
            }
        }
    }
}

/// Bytes that a message takes of a window.
pub(crate) fn observed_cost(publication: &Publication<'_>) -> u64 {
    (publication.topic.len() + publication.properties.len() + publication.payload.len()) as u64
}

impl Observers {
    /// Gives a message to observers that have room for it, and counts it for the others. Returns the number of the
    /// former.
    #[cold]
    pub(crate) fn tell_observers(
        &mut self,
        state: &mut ShardState,
        set: ObserverSet,
        publication: &Publication<'_>,
        client_id: &str,
        ticket: Option<Ticket>,
    ) -> u32 {
        let cost = observed_cost(publication);
        let (tenant, topic) = owner_of(&state.settings, publication.tenant, publication.topic);
        let mut told = 0;
        for id in set.iter() {
            let Some(it) = self.all.get_mut(&id) else { continue };
            if !it.has_room(cost) {
                state.counters.drop_message(it.observer.refusal);
                continue;
            }
            let number = self.next_number;
            self.next_number += 1;
            it.unconfirmed.insert(number, Unconfirmed { ticket, cost });
            it.bytes += cost;
            told += 1;
            let message = ObservedMessage {
                ticket: ObservedTicket { observer: id, number },
                is_awaited: ticket.is_some(),
                tenant,
                client_id: client_id.to_owned(),
                topic: topic.to_owned(),
                qos: publication.qos,
                retain: publication.retain,
                properties: without_origin(publication.properties).to_vec(),
                expires_at: publication.expires_at,
                payload: publication.payload.to_vec(),
            };
            state.events.push_back(Event::Observed { observer: id, message: Box::new(message) });
        }
        told
    }
}
