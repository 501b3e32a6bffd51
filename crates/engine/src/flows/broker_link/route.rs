//! Messages go to brokers; the gate of the fleet.

use crate::events::reason::Reason;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::Dealing;
use crate::flows::contexts::Publishing;
use crate::ids::{SessionKey, TenantId};
use crate::link::fleet_word::FleetWord;
use crate::link::record::Record;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::BrokerLinks;
use crate::orchestrator::broker_link::id::PROPERTY;
use crate::orchestrator::broker_link::route::{Gate, publisher_in_ids};
use crate::publish::dispatch::Source;
use crate::publish::layouts::Layouts;
use crate::session::BlockedPublisher;
use crate::session::terms::Terms;
use crate::settings::fleet_topics::at_brokers;
use crate::state::ShardState;
use crate::topics::SubscriberOptions;
use tidegate_mqtt::{PublishProperties, QoS};

/// A full fleet has room again when the owed messages have fallen to the limit divided by this.
const OPENS_AT: u64 = 2;

impl BrokerLinking<'_> {
    /// Delivers messages that no broker brings back, and checks the gate if that is due. See
    /// [`BrokerLinks::count_message`](crate::orchestrator::broker_link::BrokerLinks::count_message).
    #[cold]
    pub(crate) fn work_after_message(&mut self, now: Now) {
        if !self.broker_links.settlement.for_here.is_empty() {
            self.deliver_all_here(now);
        }
        if self.broker_links.is_gate_due() {
            self.broker_links.unchecked = 0;
            self.check_gate(now);
        }
    }

    /// Opens or closes the gate by the fleet's pending messages, and notifies the other shards.
    pub(crate) fn check_gate(&mut self, now: Now) {
        if !self.broker_links.brokers.config.has_broker_links_here() {
            return;
        }
        let Some(settings) = self.broker_links.brokers.config.settings() else { return };
        let (max_messages, max_bytes) = (settings.max_owed_messages, settings.max_owed_bytes);
        let (mut messages, mut bytes) = (0, self.broker_links.settlement.unreturned_bytes);
        for broker_link in self.broker_links.brokers.all.values() {
            let flow = self.state.sessions.get(broker_link.session.0).and_then(|session| session.flow.as_ref());
            messages += broker_link.unreturned.len() as u64;
            if let Some(flow) = flow {
                messages += (flow.queue.len() + flow.inflight.len()) as u64 - broker_link.released;
                bytes += flow.queue_bytes + flow.inflight_bytes;
            }
        }
        let part = if self.broker_links.gate.is_full() { OPENS_AT } else { 1 };
        let room = messages <= max_messages / part && bytes <= max_bytes / part;
        let gate = Gate::of(room, &self.broker_links.brokers);
        if let Some(largest) = self.broker_links.new_largest(now.monotonic) {
            for shard in self.links.place.others() {
                self.links.send(shard, Record::Fleet(largest.word()));
            }
        }
        if gate == self.broker_links.gate {
            return;
        }
        for shard in self.links.place.others() {
            self.links.send(shard, Record::Fleet(FleetWord::Room { gate: gate.number() }));
        }
        self.set_gate(gate);
    }

    /// The gate is this from now on.
    pub(crate) fn set_gate(&mut self, gate: Gate) {
        self.broker_links.gate = gate;
        if gate == Gate::Open {
            for key in std::mem::take(&mut self.broker_links.waiting).into_iter().rev() {
                let extra = self.state.connections.get_mut(key).and_then(|connection| connection.extra.as_mut());
                if let Some(extra) = extra {
                    // Its next wait starts with the full time.
                    extra.withheld_until = Millis::NEVER;
                }
                self.state.to_unpark.push(BlockedPublisher { shard: self.links.place.shard, connection: key });
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
        let Some(topic) = at_brokers(&self.state.settings, publication.tenant, publication.topic) else {
            return self.route_inside(now, &mut publication.clone(), session);
        };
        if self.broker_links.quarantine.holds(&topic, now.monotonic) {
            self.state.reports().discard_publication(Reason::TopicDenied, &mut publication.clone());
            return;
        }
        let mut properties = Vec::new();
        if let Ok(given) = PublishProperties::decode(publication.properties) {
            // A will may bring an id that its client has made up.
            given.copy_forwardable_without(&[PROPERTY], &mut properties);
        }
        let publisher = publisher_in_ids(session.and_then(|session| self.state.sessions.get(session.0)));
        self.broker_links.append_next_id(now, publisher, publication.retain, &mut properties);
        let mut own = Publication::new(
            TenantId::BROKER_LINK,
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

impl BrokerLinks {
    /// Gives a message to a broker link, which is in one group only.
    #[inline]
    pub(crate) fn give(
        &mut self,
        now: Now,
        (state, layouts): (&mut ShardState, &mut Layouts),
        session: SessionKey,
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        if publication.qos == QoS::AtMostOnce && self.keeps_back(session, publication.topic) {
            // No acknowledgement confirms its receipt by the broker.
            self.deliver_later(session, publication.keep());
        }
        let rare = state.sessions.get(session.0).and_then(|session| session.rare.as_ref());
        let Some(membership) = rare.and_then(|rare| rare.memberships.first().cloned()) else { return };
        let terms = Terms {
            qos: SubscriberOptions::from_bits(membership.member.options).qos(),
            retain: publication.retain,
            subscription_ids: &[],
            group: Some(&membership),
            publisher: source.publisher(),
            // The gate of the fleet bounds the queues for brokers.
            metered: true,
        };
        if publication.qos.min(terms.qos) == QoS::AtMostOnce {
            self.brokers.note_given(session);
        }
        layouts.begin(1);
        state.deliver(now.monotonic, publication, layouts, session, &terms);
    }
}

impl Dealing<'_> {
    /// Gives a message to a broker link.
    pub(crate) fn deliver_to_broker_link(
        &mut self,
        now: Now,
        session: SessionKey,
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        self.broker_links.give(now, (self.state, self.layouts), session, publication, source);
    }
}
