//! Messages of brokers that other members need: messages for partitions that were taken over, and for partitions that left.

use tidegate_mqtt::{PublishProperties, RawPublish};

use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::moving;
use crate::flows::contexts::publishing;
use crate::ids::{BrokerLinkKey, ConnectionKey, Partitions, TenantId};
use crate::image::begin;
use crate::image::noted::put_noted;
use crate::message::{MessageRef, Publication};
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::adopted::{Awaiting, adopted_of};
use crate::orchestrator::broker_link::id::{MessageId, PROPERTY};
use crate::settings::fleet_topics::of_brokers;

/// A message that a broker delivers.
pub(crate) struct FromBroker<'m> {
    pub(crate) key: ConnectionKey,
    pub(crate) broker_link: BrokerLinkKey,
    pub(crate) raw: &'m RawPublish<'m>,
    pub(crate) properties: &'m PublishProperties<'m>,
    pub(crate) id: Option<&'m MessageId>,
}

impl FromBroker<'_> {
    /// Delivers a message that had come before to sessions that have come here since and do not have it: one of the
    /// connection of a dead orchestrator, one that a broker sends once more, since an earlier life of this process has
    /// collected it for another home and not forwarded it, or one that was sent to a broker again, since the broker or an
    /// earlier one has died with the copies for the last home of these sessions.
    pub(super) fn deliver_to_taken_over(&self, broker_linking: &mut BrokerLinking<'_>, now: Now) {
        let broker_link = broker_linking.broker_links.brokers.all.get(&self.broker_link);
        let is_adopted = broker_link.is_some_and(|broker_link| broker_link.adopted.is_some());
        let is_sent_once_more = self.raw.dup || is_adopted;
        let may_be_missing = is_sent_once_more || broker_linking.links.place.shards == 1;
        if self.raw.retain || !may_be_missing || broker_linking.handover.arrivals.is_empty() {
            return;
        }
        let (Some(id), Some(message)) = (self.id, self.kept(now)) else { return };
        let is_here = broker_linking.broker_links.settlement.has_seen(id);
        let among = if is_sent_once_more { Partitions::ALL } else { broker_linking.handover.deciding(id) };
        let partitions =
            broker_linking.handover.wanting(&mut broker_linking.state.journal, id, &message, is_here, among);
        if partitions.is_empty() {
            return;
        }
        let adopted = adopted_of(&mut broker_linking.broker_links.brokers.all, self.broker_link);
        if let Some(adopted) = adopted.filter(|_| broker_linking.links.place.shards > 1) {
            put_first_or_next(&mut adopted.for_shards, now, Some(id), &message);
        }
        moving!(broker_linking).pass_on_to(now, &message, partitions);
    }

    /// Notes a message of the connection of a dead orchestrator for the members that have taken over other partitions.
    /// Returns whether its answer waits for them.
    pub(crate) fn note_for_members(&self, broker_linking: &mut BrokerLinking<'_>, now: Now) -> bool {
        let adopted = adopted_of(&mut broker_linking.broker_links.brokers.all, self.broker_link);
        let Some(adopted) = adopted.filter(|_| !self.raw.retain) else { return false };
        let Some(message) = self.kept(now) else { return false };
        put_first_or_next(&mut adopted.for_members, now, self.id, &message);
        if let Some(for_left) = &mut adopted.for_left {
            put_first_or_next(for_left, now, self.id, &message);
        }
        if self.raw.packet_id.is_some() {
            adopted.unanswered.push_back(Awaiting::Answer(broker_linking.state.connections.next_ticket(self.key)));
        }
        self.raw.packet_id.is_some()
    }

    /// The connection of a dead orchestrator delivers a QoS 2 message whose packet id the dead one had taken, or an earlier
    /// life of this process. Sessions that had left the dead one may not have it, and after an earlier life none may have
    /// it: they know it by its id. Returns whether the answer waits for their homes.
    pub(super) fn note_repetition(&self, broker_linking: &mut BrokerLinking<'_>, now: Now) -> bool {
        let adopted = adopted_of(&mut broker_linking.broker_links.brokers.all, self.broker_link);
        let Some(adopted) = adopted.filter(|_| !self.raw.retain) else { return false };
        let is_for_members = self.id.is_some() || adopted.is_resumed;
        if adopted.for_left.is_none() && !is_for_members {
            return false;
        }
        let Some(message) = self.kept(now) else { return false };
        if is_for_members {
            put_first_or_next(&mut adopted.for_members, now, self.id, &message);
        }
        if let Some(for_left) = &mut adopted.for_left {
            put_first_or_next(for_left, now, self.id, &message);
        }
        adopted.unanswered.push_back(Awaiting::Answer(broker_linking.state.connections.next_ticket(self.key)));
        true
    }

    /// Collects a message that a broker sends once more for partitions that have left: the connection or the process may
    /// have ended before it was forwarded.
    pub(crate) fn forward_again(&self, broker_linking: &mut BrokerLinking<'_>, now: Now) {
        if !self.raw.dup || self.raw.retain || !broker_linking.handover.forwards() {
            return;
        }
        let Some(message) = self.kept(now) else { return };
        let Some((tenant, topic)) = of_brokers(&broker_linking.state.settings, message.topic()) else { return };
        let slot = publishing!(broker_linking).route_of(tenant, topic);
        moving!(broker_linking).collect_for_left(now, slot, self.id, &message);
    }

    /// The message with the topic that brokers know; `None` for a topic that is no text.
    fn kept(&self, now: Now) -> Option<MessageRef> {
        let Self { raw, properties, id, .. } = self;
        let topic = std::str::from_utf8(raw.topic).ok()?;
        let mut forwarded = Vec::new();
        properties.copy_forwardable_without(&[PROPERTY], &mut forwarded);
        let expires_at = properties.message_expiry.map_or(Millis::NEVER, |seconds| now.monotonic.plus_seconds(seconds));
        let (retain, publisher) = id.map_or((false, 0), |id| (id.retain, id.publisher));
        let tenant = TenantId::DEFAULT;
        let mut own = Publication::new(tenant, topic, raw.qos, retain, &forwarded, expires_at, raw.payload, publisher);
        Some(own.keep())
    }
}

pub(crate) fn put_first_or_next(out: &mut Vec<u8>, now: Now, id: Option<&MessageId>, message: &MessageRef) {
    if out.is_empty() {
        *out = begin();
    }
    put_noted(out, now, id, message);
}
