//! Messages that come by the connection of a dead orchestrator.

use tidegate_mqtt::{PublishProperties, RawPublish};

use crate::flows::image::leaving::moving;
use crate::flows::uplink::uplinking::Uplinking;
use crate::ids::{TenantId, UplinkKey};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::id::{MessageId, PROPERTY};

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
        let adopted = self.uplinks.brokers.all.get(&uplink).and_then(|uplink| uplink.adopted.as_ref());
        let Some(adopted) = adopted.filter(|_| !raw.retain) else { return };
        let wanted = self.handover.is_wanted(adopted.transfer, id);
        if !wanted.unwrap_or_else(|| adopted.before.contains(id)) {
            return;
        }
        let partitions = adopted.partitions;
        let Ok(topic) = std::str::from_utf8(raw.topic) else { return };
        let mut forwarded = Vec::new();
        properties.copy_forwardable_without(&[PROPERTY], &mut forwarded);
        let expires_at = properties.message_expiry.map_or(Millis::NEVER, |seconds| now.monotonic.plus_seconds(seconds));
        let (tenant, publisher) = (TenantId::DEFAULT, id.publisher);
        let mut own =
            Publication::new(tenant, topic, raw.qos, id.retain, &forwarded, expires_at, raw.payload, publisher);
        let message = own.keep();
        moving!(self).deliver_only(now, &message, |session| session.is_some_and(|session| session.is_of(partitions)));
    }
}
