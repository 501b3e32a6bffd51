//! Messages that come by the connection of a dead orchestrator.

use tidegate_mqtt::{PublishProperties, RawPublish};

use crate::flows::image::leaving::moving;
use crate::flows::publish::publishing::publishing;
use crate::flows::uplink::uplinking::Uplinking;
use crate::ids::{ConnectionKey, TenantId, UplinkKey};
use crate::image::begin;
use crate::image::noted::put_noted;
use crate::message::{MessageRef, Publication};
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::id::{MessageId, PROPERTY};
use crate::settings::fleet_topics::of_brokers;

impl Uplinking<'_> {
    /// A message has come for the sessions of a dead orchestrator that had come here before these sessions were taken
    /// over: it is delivered to them.
    pub(super) fn deliver_to_taken_over(
        &mut self,
        now: Now,
        uplink: UplinkKey,
        raw: &RawPublish<'_>,
        properties: &PublishProperties<'_>,
        id: &MessageId,
    ) {
        let adopted = self.uplinks.brokers.all.get_mut(&uplink).and_then(|uplink| uplink.adopted.as_mut());
        let Some(adopted) = adopted.filter(|_| !raw.retain) else { return };
        let Some(message) = kept(now, raw, properties, Some(id)) else { return };
        let partitions = self.handover.wanting(&mut self.state.journal, adopted.transfer, id, &message);
        if partitions.is_empty() {
            return;
        }
        if self.place.shards > 1 {
            put_first_or_next(&mut adopted.for_shards, now, Some(id), &message);
        }
        moving!(self).deliver_only(now, &message, |session| session.is_some_and(|session| session.is_of(partitions)));
    }

    /// A message has come by a connection: if that is the one of a dead orchestrator, the message is noted for the members
    /// that have taken over other partitions. Says whether its answer waits for them.
    pub(super) fn note_for_members(
        &mut self,
        now: Now,
        key: ConnectionKey,
        uplink: UplinkKey,
        raw: &RawPublish<'_>,
        properties: &PublishProperties<'_>,
        id: Option<&MessageId>,
    ) -> bool {
        let adopted = self.uplinks.brokers.all.get_mut(&uplink).and_then(|uplink| uplink.adopted.as_mut());
        let Some(adopted) = adopted.filter(|_| !raw.retain) else { return false };
        let Some(message) = kept(now, raw, properties, id) else { return false };
        put_first_or_next(&mut adopted.for_members, now, id, &message);
        if let Some(for_left) = &mut adopted.for_left {
            put_first_or_next(for_left, now, id, &message);
        }
        if raw.packet_id.is_some() {
            adopted.unanswered.push_back(self.state.connections.next_ticket(key));
        }
        raw.packet_id.is_some()
    }
}

impl Uplinking<'_> {
    /// The connection of a dead orchestrator delivers a QoS 2 message that the dead one had taken. Its sessions have it;
    /// sessions that had left it may not. Says whether the answer waits for their new homes.
    pub(super) fn note_repetition(
        &mut self,
        now: Now,
        key: ConnectionKey,
        uplink: UplinkKey,
        raw: &RawPublish<'_>,
        properties: &PublishProperties<'_>,
        id: Option<&MessageId>,
    ) -> bool {
        let adopted = self.uplinks.brokers.all.get_mut(&uplink).and_then(|uplink| uplink.adopted.as_mut());
        let Some(adopted) = adopted.filter(|_| !raw.retain) else { return false };
        let Some(for_left) = &mut adopted.for_left else { return false };
        let Some(message) = kept(now, raw, properties, id) else { return false };
        put_first_or_next(for_left, now, id, &message);
        adopted.unanswered.push_back(self.state.connections.next_ticket(key));
        true
    }

    /// Collects a message that a broker sends once more for partitions that have left: the connection or the process may
    /// have ended before it was forwarded.
    pub(super) fn forward_again(
        &mut self,
        now: Now,
        raw: &RawPublish<'_>,
        properties: &PublishProperties<'_>,
        id: Option<&MessageId>,
    ) {
        if !raw.dup || raw.retain || !self.handover.forwards() {
            return;
        }
        let Some(message) = kept(now, raw, properties, id) else { return };
        let Some((tenant, topic)) = of_brokers(self.settings, message.topic()) else { return };
        let slot = publishing!(self).route_of(tenant, topic);
        moving!(self).collect_for_left(now, slot, id, &message);
    }
}

fn put_first_or_next(out: &mut Vec<u8>, now: Now, id: Option<&MessageId>, message: &MessageRef) {
    if out.is_empty() {
        *out = begin();
    }
    put_noted(out, now, id, message);
}

/// A message of a broker with the topic that brokers know, as it is noted; `None` for a topic that is no text.
fn kept(
    now: Now,
    raw: &RawPublish<'_>,
    properties: &PublishProperties<'_>,
    id: Option<&MessageId>,
) -> Option<MessageRef> {
    let topic = std::str::from_utf8(raw.topic).ok()?;
    let mut forwarded = Vec::new();
    properties.copy_forwardable_without(&[PROPERTY], &mut forwarded);
    let expires_at = properties.message_expiry.map_or(Millis::NEVER, |seconds| now.monotonic.plus_seconds(seconds));
    let (retain, publisher) = id.map_or((false, 0), |id| (id.retain, id.publisher));
    let tenant = TenantId::DEFAULT;
    let mut own = Publication::new(tenant, topic, raw.qos, retain, &forwarded, expires_at, raw.payload, publisher);
    Some(own.keep())
}
