//! A client's message gets an id and is sent to the fleet, or waits for room.

use super::RoutingPolicy;
use super::id::MessageId;
use crate::ids::{ConnectionKey, SessionKey, TenantId, hash_name};
use crate::message::{MessageRef, Publication};
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::packet_limits::{LenLimit, MessageLen, fits_surely};
use crate::orchestrator::broker_link::{BrokerLinks, Brokers, FleetConfig};
use crate::session::Session;
use crate::settings::{Settings, SharedStrategy};
use crate::state::ShardState;

/// Messages after which the gate is checked.
const UNCHECKED_MAX: u32 = 32;

/// Whether the fleet takes messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// There is no broker, as when an orchestrator starts.
    #[default]
    NoBroker,
    /// It owes as much as it may.
    Full,
    /// It does.
    Open,
    /// No broker has been connected since the start, so no limit of a message's length is known.
    LimitsUnknown,
    /// The same, and it owes as much as it may.
    FullLimitsUnknown,
}

impl Gate {
    /// The gate of a fleet that has room or not.
    pub(crate) fn of(has_room: bool, brokers: &Brokers) -> Self {
        let mut stay = brokers.all.values().filter(|broker_link| broker_link.draining.is_none()).peekable();
        if stay.peek().is_none() {
            return Self::NoBroker;
        }
        let knows_limits = stay.any(|broker_link| broker_link.accepted.is_some());
        match (has_room, knows_limits) {
            (true, true) => Self::Open,
            (true, false) => Self::LimitsUnknown,
            (false, true) => Self::Full,
            (false, false) => Self::FullLimitsUnknown,
        }
    }

    /// Whether the fleet owes as much as it may.
    pub(crate) fn is_full(self) -> bool {
        matches!(self, Self::Full | Self::FullLimitsUnknown)
    }

    /// Whether a limit of a message's length is known.
    pub(crate) fn knows_limits(self) -> bool {
        matches!(self, Self::Open | Self::Full)
    }

    /// The number for other shards.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The state for a number of another shard.
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Full,
            2 => Self::Open,
            3 => Self::LimitsUnknown,
            4 => Self::FullLimitsUnknown,
            _ => Self::NoBroker,
        }
    }
}

impl BrokerLinks {
    /// The origin of this shard's messages, and the number of the next one.
    pub(crate) fn next_number(&mut self) -> (u64, u64) {
        self.next_number += 1;
        (self.origin, self.next_number)
    }

    /// The publisher in the ids of a connection's messages. Most messages follow one of the same connection, whose client
    /// id does not change.
    #[inline]
    pub(crate) fn publisher_of(&mut self, state: &ShardState, key: ConnectionKey, session: Option<SessionKey>) -> u64 {
        match self.last_publisher {
            Some((last, publisher)) if last == key => publisher,
            _ => {
                let publisher = publisher_in_ids(session.and_then(|session| state.sessions.get(session.0)));
                self.last_publisher = Some((key, publisher));
                publisher
            }
        }
    }

    /// Appends the id of the next message of a publisher to its encoded properties.
    #[inline]
    pub(crate) fn append_next_id(&mut self, now: Now, publisher: u64, retain: bool, properties: &mut Vec<u8>) {
        let (origin, number) = self.next_number();
        let entered = self.clock.time_of(now, number);
        self.ids.append(&MessageId { origin, number, entered, publisher, retain }, properties);
    }
}

/// The publisher in the ids of a session's messages; 0 without a session.
pub(crate) fn publisher_in_ids(session: Option<&Session>) -> u64 {
    session.map_or(0, |session| hash_name(session.tenant, &session.client_id))
}

impl FleetConfig {
    /// Whether the broker's own messages go to the fleet.
    pub(crate) fn goes_to_fleet(&self, settings: &Settings, publication: &Publication<'_>) -> bool {
        self.is_on() && publication.tenant != TenantId::BROKER_LINK && !settings.is_kept_from_brokers(publication.topic)
    }
}

impl super::BrokerLinks {
    /// The last message that was given an id does not go to the fleet now: the next one has its number, so that numbers
    /// have few gaps.
    pub(crate) fn give_id_back(&mut self) {
        self.next_number -= 1;
    }

    /// Counts a message to or from the fleet; returns whether there is work after it, which is rare.
    #[inline]
    pub(crate) fn count_message(&mut self) -> bool {
        self.count_messages(1)
    }

    /// The same for some messages.
    #[inline]
    pub(crate) fn count_messages(&mut self, count: u32) -> bool {
        self.unchecked += count;
        self.is_gate_due() || !self.settlement.for_here.is_empty()
    }

    /// Whether the gate is to be checked: after some messages, since the limit has room for them. Publishers at a closed
    /// gate must not wait for messages that they keep from coming.
    #[inline]
    pub(crate) fn is_gate_due(&self) -> bool {
        self.unchecked >= UNCHECKED_MAX || self.gate != Gate::Open
    }

    /// Whether the fleet takes messages.
    pub(crate) fn gate(&self) -> Gate {
        self.gate
    }

    /// Beyond which length no broker takes a message, as the shard of the broker links says.
    pub(crate) fn set_largest(&mut self, largest: LenLimit) {
        self.largest = largest;
    }

    /// Notes the limits of the brokers. The length beyond which no broker takes a message, if it is another one now: other
    /// shards have to know it.
    pub(crate) fn new_largest(&mut self, now: Millis) -> Option<LenLimit> {
        let largest = self.brokers.note_limits(now);
        (std::mem::replace(&mut self.largest, largest) != largest).then_some(largest)
    }

    /// Whether a message is longer than any broker takes.
    pub(crate) fn is_too_large(&self, publication: &Publication<'_>, now: Now) -> bool {
        self.largest != LenLimit::NONE && !self.largest.takes(MessageLen::of(publication, now.monotonic))
    }

    /// The length of a message that a broker may not take.
    #[inline]
    pub(crate) fn len_to_check(&self, publication: &Publication<'_>, now: Now) -> Option<MessageLen> {
        let parts = publication.topic.len() + publication.properties.len() + publication.payload.len();
        (!fits_surely(parts, self.brokers.smallest)).then(|| MessageLen::of(publication, now.monotonic))
    }

    /// Whether the broker of a session takes a message of this length.
    #[inline]
    pub(crate) fn takes(&self, session: u32, len: Option<MessageLen>) -> bool {
        let Some(len) = len else { return true };
        let broker_link = self.brokers.by_session.get(&session).and_then(|key| self.brokers.all.get(key));
        broker_link.is_none_or(|broker_link| broker_link.limit.takes(len))
    }

    /// Whether the fleet may refuse a message whose topic, properties and payload have `parts` bytes.
    #[inline]
    pub(crate) fn is_choosy(&self, parts: usize) -> bool {
        self.gate != Gate::Open || !self.quarantine.is_empty() || !fits_surely(parts, self.largest.packet)
    }

    /// A publisher waits until the fleet takes messages.
    pub(crate) fn add_waiting(&mut self, key: ConnectionKey) {
        self.waiting.insert(key);
    }

    /// A publisher is gone, and does not wait.
    pub(crate) fn forget_waiting(&mut self, key: ConnectionKey) {
        self.waiting.remove(&key);
    }

    /// A broker gets a message now that it will not bring back.
    pub(crate) fn deliver_later(&mut self, session: SessionKey, message: MessageRef) {
        if let Some(key) = self.brokers.by_session.get(&session.0) {
            self.settlement.for_here.push((*key, message));
        }
    }

    /// Whether a publisher waits until the fleet has space.
    pub(crate) fn holds(&self, key: ConnectionKey) -> bool {
        self.waiting.contains(&key)
    }
}

impl super::Brokers {
    /// A broker is given a QoS 0 message, which it does not acknowledge.
    pub(crate) fn note_given(&mut self, session: SessionKey) {
        let broker_link = self.by_session.get(&session.0).and_then(|key| self.all.get_mut(key));
        if let Some(broker_link) = broker_link {
            broker_link.counters.sent += 1;
        }
    }

    /// Notes the limits; returns beyond which length no broker that has been there takes a message.
    pub(crate) fn note_limits(&mut self, now: Millis) -> LenLimit {
        let mut largest: Option<LenLimit> = None;
        self.smallest = u32::MAX;
        for broker_link in self.all.values_mut() {
            broker_link.limit.forget_old(now);
            self.smallest = self.smallest.min(broker_link.limit.always_taken());
            if broker_link.accepted.is_some() && broker_link.draining.is_none() {
                let limit = broker_link.limit.bound();
                largest = Some(largest.map_or(limit, |other| other.larger(limit)));
            }
        }
        // Where one broker takes all, the payloads that others refuse do not count.
        largest.filter(|limit| limit.packet != u32::MAX).unwrap_or(LenLimit::NONE)
    }

    /// Unsettled messages of a broker: queued, in flight, and acknowledged without being returned.
    pub(crate) fn load_of(&self, state: &ShardState, session: SessionKey) -> u64 {
        let (queued, in_flight) = state.sessions.owed_by(session);
        let broker_link = self.by_session.get(&session.0).and_then(|key| self.all.get(key));
        queued + in_flight + broker_link.map_or(0, |broker_link| broker_link.unreturned.len() as u64)
    }
}

impl FleetConfig {
    /// How the group of a tenant deals, where that is the fleet's.
    pub(crate) fn strategy(&self, tenant: TenantId) -> Option<SharedStrategy> {
        let settings = self.settings.as_ref().filter(|_| tenant == TenantId::BROKER_LINK)?;
        Some(match settings.policy {
            RoutingPolicy::TopicHash => SharedStrategy::HashTopic,
            RoutingPolicy::RoundRobin | RoutingPolicy::LeastLoaded => SharedStrategy::RoundRobin,
        })
    }

    /// Whether the broker that owes least gets the next message.
    pub(crate) fn goes_by_load(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.policy == RoutingPolicy::LeastLoaded)
    }
}
