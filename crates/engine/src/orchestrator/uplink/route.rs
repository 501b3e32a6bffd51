//! What clients publish gets an id and goes to the fleet, or waits for room.

use super::RoutingPolicy;
use super::id::{MessageId, PROPERTY};
use crate::desk::Desk;
use crate::groups::dealing::Dealing;
use crate::ids::{ConnectionKey, SessionKey, TenantId, hash_name};
use crate::link::fleet_word::FleetWord;
use crate::link::record::Record;
use crate::message::{MessageRef, Publication};
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::uplinking::Uplinking;
use crate::orchestrator::uplink::{FleetConfig, Uplinks};
use crate::publish::deliver::Terms;
use crate::publish::dispatch::Source;
use crate::publish::layouts::{Shape, packet_len};
use crate::publish::publishing::Publishing;
use crate::session::BlockedPublisher;
use crate::settings::SharedStrategy;
use crate::settings::fleet_topics::at_brokers;
use crate::telling::reason::Reason;
use crate::topics::{SubscriberOptions, is_own_topic};
use tidegate_mqtt::{PublishProperties, QoS, Version};

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
}

impl Gate {
    /// As one shard tells another.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// What another shard has told.
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Full,
            2 => Self::Open,
            _ => Self::NoBroker,
        }
    }
}

/// Messages after which the gate is looked at.
const UNCHECKED_MAX: u32 = 32;

/// The gate opens again when no more than this part of what may be owed is.
const OPENS_AT: u64 = 2;

impl Uplinking<'_> {
    /// The same, but only for one message of many: what may be owed is more than those in between.
    pub(crate) fn check_gate_now_and_then(&mut self, now: Now) {
        if !self.uplinks.settlement.for_here.is_empty() {
            self.deliver_all_here(now);
        }
        self.uplinks.unchecked += 1;
        // Those who wait at a closed gate shall not wait for messages that they keep from coming.
        if self.uplinks.unchecked >= UNCHECKED_MAX || self.uplinks.gate != Gate::Open {
            self.uplinks.unchecked = 0;
            self.check_gate(now);
        }
    }

    /// Opens or closes the gate by what the fleet owes, and tells the other shards.
    pub(crate) fn check_gate(&mut self, now: Now) {
        if !self.uplinks.brokers.config.has_uplinks_here() {
            return;
        }
        let Some(settings) = self.uplinks.brokers.config.settings() else { return };
        let (max_messages, max_bytes) = (settings.max_owed_messages, settings.max_owed_bytes);
        let (mut messages, mut bytes) = (0, self.uplinks.settlement.unreturned_bytes);
        for uplink in self.uplinks.brokers.all.values() {
            let flow = self.desk.sessions.get(uplink.session.0).and_then(|session| session.flow.as_ref());
            messages += uplink.unreturned.len() as u64;
            if let Some(flow) = flow {
                messages += (flow.queue.len() + flow.inflight.len()) as u64 - uplink.released;
                bytes += flow.queue_bytes + flow.inflight_bytes;
            }
        }
        let part = if self.uplinks.gate == Gate::Open { 1 } else { OPENS_AT };
        let room = messages <= max_messages / part && bytes <= max_bytes / part;
        let gate = match room {
            _ if self.uplinks.brokers.all.values().all(|uplink| uplink.draining.is_some()) => Gate::NoBroker,
            true => Gate::Open,
            false => Gate::Full,
        };
        let largest = self.uplinks.brokers.note_limits(now.monotonic);
        if largest != self.uplinks.largest {
            self.uplinks.largest = largest;
            for shard in self.place.others() {
                self.links.send(shard, Record::Fleet(FleetWord::Limit { largest }));
            }
        }
        if gate == self.uplinks.gate {
            return;
        }
        for shard in self.place.others() {
            self.links.send(shard, Record::Fleet(FleetWord::Room { gate: gate.number() }));
        }
        self.set_gate(gate);
    }

    /// The gate is this from now on.
    pub(crate) fn set_gate(&mut self, gate: Gate) {
        self.uplinks.gate = gate;
        if gate == Gate::Open {
            for key in std::mem::take(&mut self.uplinks.waiting).into_iter().rev() {
                let extra = self.desk.connections.get_mut(key).and_then(|connection| connection.extra.as_mut());
                if let Some(extra) = extra {
                    // The next time that it has to wait its time begins anew.
                    extra.withheld_until = Millis::NEVER;
                }
                self.desk.to_unpark.push(BlockedPublisher { shard: self.place.shard, connection: key });
            }
        }
    }
}

impl Publishing<'_> {
    /// A message that no packet brought, such as a will, goes to the fleet as well.
    pub(crate) fn publish_inside_to_fleet(
        &mut self,
        now: Now,
        publication: &Publication<'_>,
        session: Option<SessionKey>,
    ) {
        let Some(topic) = at_brokers(&self.desk.settings, publication.tenant, publication.topic) else {
            return self.route_inside(now, &mut publication.clone(), session);
        };
        if self.uplinks.quarantine.holds(&topic, now.monotonic) {
            self.desk.reports().discard_publication(Reason::TopicDenied, &mut publication.clone());
            return;
        }
        let mut properties = Vec::new();
        if let Ok(given) = PublishProperties::decode(publication.properties) {
            // A will may bring an id that its client has made up.
            given.copy_forwardable_without(&[PROPERTY], &mut properties);
        }
        self.uplinks.next_message_id(now, self.desk, session, publication.retain).append(&mut properties);
        let mut own = Publication::new(
            TenantId::UPLINK,
            &topic,
            publication.qos,
            publication.retain,
            &properties,
            publication.expires_at,
            publication.payload,
            publication.publisher,
        );
        own.priority = publication.priority;
        self.route_inside(now, &mut own, session);
    }
}

impl Uplinks {
    /// The id of the next message of a client.
    pub(crate) fn next_message_id(
        &mut self,
        now: Now,
        desk: &Desk,
        session: Option<SessionKey>,
        retain: bool,
    ) -> MessageId {
        let session = session.and_then(|session| desk.sessions.get(session.0));
        let publisher = session.map_or(0, |session| hash_name(session.tenant, &session.client_id));
        self.next_number += 1;
        MessageId { origin: self.origin, number: self.next_number, entered: now.unix, publisher, retain }
    }
}

impl FleetConfig {
    /// Whether what the broker itself publishes goes to the fleet.
    pub(crate) fn goes_to_fleet(&self, publication: &Publication<'_>) -> bool {
        self.is_on() && publication.tenant != TenantId::UPLINK && !is_own_topic(publication.topic)
    }
}

impl Dealing<'_> {
    /// Gives a message to an uplink, which is in one group only.
    #[inline]
    pub(crate) fn deliver_to_uplink(
        &mut self,
        now: Now,
        session: SessionKey,
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        if publication.qos == QoS::AtMostOnce && self.uplinks.keeps_back(session, publication.topic) {
            // No acknowledgement says when the broker has it.
            self.uplinks.deliver_later(session, publication.keep());
        }
        let rare = self.desk.sessions.get(session.0).and_then(|session| session.rare.as_ref());
        let Some(membership) = rare.and_then(|rare| rare.memberships.first().cloned()) else { return };
        let terms = Terms {
            qos: SubscriberOptions::from_bits(membership.member.options).qos(),
            retain: publication.retain,
            subscription_ids: &[],
            group: Some(&membership),
            publisher: source.publisher(),
            // The gate of the fleet bounds what waits for brokers.
            metered: true,
        };
        if publication.qos.min(terms.qos) == QoS::AtMostOnce {
            self.uplinks.brokers.note_given(session);
        }
        self.layouts.begin(1);
        self.desk.deliver(now.monotonic, publication, self.layouts, session, &terms);
    }
}

impl super::Uplinks {
    /// The last message that was given an id does not go to the fleet now: the next one has its number, since numbers
    /// have no gaps.
    pub(crate) fn give_id_back(&mut self) {
        self.next_number -= 1;
    }

    /// Whether the fleet takes messages.
    pub(crate) fn gate(&self) -> Gate {
        self.gate
    }

    /// The longest packet that any broker takes, as the shard of the uplinks says.
    pub(crate) fn set_largest(&mut self, largest: u32) {
        self.largest = largest;
    }

    /// Whether a message is longer than any broker takes.
    pub(crate) fn is_too_large(&self, publication: &Publication<'_>, now: Now) -> bool {
        self.largest != u32::MAX && len_for_broker(publication, now.monotonic) > self.largest as usize
    }

    /// The length of a message where any broker has a limit, 0 otherwise.
    #[inline]
    pub(crate) fn len_to_check(&self, publication: &Publication<'_>, now: Now) -> usize {
        if self.brokers.limited { len_for_broker(publication, now.monotonic) } else { 0 }
    }

    /// Whether the broker of a session takes a packet of this length.
    #[inline]
    pub(crate) fn takes(&self, session: u32, len: usize) -> bool {
        let uplink = self.brokers.by_session.get(&session).and_then(|key| self.brokers.all.get(key));
        uplink.is_none_or(|uplink| len <= uplink.limit.bytes() as usize)
    }

    /// Whether the fleet does not simply take everything.
    #[inline]
    pub(crate) fn is_choosy(&self) -> bool {
        self.gate != Gate::Open || !self.quarantine.is_empty() || self.largest != u32::MAX
    }

    /// A publisher waits until the fleet takes messages.
    pub(crate) fn add_waiting(&mut self, key: ConnectionKey) {
        self.waiting.insert(key);
    }

    /// A publisher is gone, and waits for nothing.
    pub(crate) fn forget_waiting(&mut self, key: ConnectionKey) {
        self.waiting.remove(&key);
    }

    /// A broker gets a message now that it will not bring back.
    fn deliver_later(&mut self, session: SessionKey, message: MessageRef) {
        if let Some(key) = self.brokers.by_session.get(&session.0) {
            self.settlement.for_here.push((*key, message));
        }
    }

    /// Whether a publisher waits until the fleet has room.
    pub(crate) fn holds(&self, key: ConnectionKey) -> bool {
        self.waiting.contains(&key)
    }
}

impl super::Brokers {
    /// A broker is given a QoS 0 message, which it does not acknowledge.
    fn note_given(&mut self, session: SessionKey) {
        let uplink = self.by_session.get(&session.0).and_then(|key| self.all.get_mut(key));
        if let Some(uplink) = uplink {
            uplink.counters.sent += 1;
        }
    }

    /// Notes what limits there are; returns the longest packet that any broker takes which has been there.
    pub(super) fn note_limits(&mut self, now: Millis) -> u32 {
        let mut largest = None;
        self.limited = false;
        for uplink in self.all.values_mut() {
            uplink.limit.forget_old(now);
            let limit = uplink.limit.bytes();
            self.limited |= limit != u32::MAX;
            if uplink.accepted.is_some() && uplink.draining.is_none() {
                largest = largest.max(Some(limit));
            }
        }
        largest.unwrap_or(u32::MAX)
    }

    /// Messages that a broker was given and has not settled: those that wait for it, that it has not acknowledged, and
    /// that it has acknowledged and not brought back.
    pub(crate) fn load_of(&self, desk: &Desk, session: SessionKey) -> u64 {
        let (queued, in_flight) = desk.sessions.owed_by(session);
        let uplink = self.by_session.get(&session.0).and_then(|key| self.all.get(key));
        queued + in_flight + uplink.map_or(0, |uplink| uplink.unreturned.len() as u64)
    }
}

impl FleetConfig {
    /// How the group of a tenant deals, where that is the fleet's.
    pub(crate) fn strategy(&self, tenant: TenantId) -> Option<SharedStrategy> {
        let settings = self.settings.as_ref().filter(|_| tenant == TenantId::UPLINK)?;
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

/// The length of a message's packet for a broker of MQTT 5, bytes.
pub(super) fn len_for_broker(publication: &Publication<'_>, now: Millis) -> usize {
    let shape = Shape {
        version: Version::V5,
        qos: publication.qos,
        retain: publication.retain,
        dup: false,
        packet_id: None,
        subscription_ids: &[],
        alias: None,
        is_for_hub: false,
    };
    packet_len(publication, &shape, now)
}
