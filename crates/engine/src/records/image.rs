//! The parts that images are made of: messages and deliveries.

use crate::ids::TenantId;
use crate::message::{MessageRef, PRIORITY_MAX, Publication};
use crate::now::{Millis, Now};
use crate::session::{Delivery, Membership, SubscriptionIds};
use crate::wire::{WireError, WireReader, WireWrite};
use std::rc::Rc;
use tidegate_mqtt::{MAX_SUBSCRIPTION_IDENTIFIER, PublishProperties, QoS, TopicName};

const QOS: u8 = 0b0011;

const RETAIN: u8 = 0b0100;

/// A shared group dealt it.
const DEALT: u8 = 0b1000;

/// A newer message of its topic takes its place.
const LATEST: u8 = 0b1_0000;

/// The bit at which the priority of a message begins.
const PRIORITY_SHIFT: u32 = 4;

pub(crate) fn put_message(out: &mut Vec<u8>, now: Now, message: &MessageRef) {
    let retain = if message.retain { RETAIN } else { 0 };
    out.put_u8(message.qos.bits() | retain | message.priority << PRIORITY_SHIFT);
    out.put_u64(now.to_unix(message.expires_at));
    out.put_u64(message.publisher);
    out.put_bytes(message.topic().as_bytes());
    out.put_bytes(message.properties());
    out.put_bytes(message.payload());
}

/// Appends a message as [`put_message`] does, without keeping it.
pub(crate) fn put_publication(out: &mut Vec<u8>, now: Now, publication: &Publication<'_>) {
    let retain = if publication.retain { RETAIN } else { 0 };
    out.put_u8(publication.qos.bits() | retain | publication.priority << PRIORITY_SHIFT);
    out.put_u64(now.to_unix(publication.expires_at));
    out.put_u64(publication.publisher);
    out.put_bytes(publication.topic.as_bytes());
    out.put_bytes(publication.properties);
    out.put_bytes(publication.payload);
}

/// Reads a message of a tenant.
pub(crate) fn read_message(reader: &mut WireReader<'_>, now: Now, tenant: TenantId) -> Result<MessageRef, WireError> {
    let (qos, flags) = read_flags(reader, QOS | RETAIN | u8::MAX << PRIORITY_SHIFT)?;
    let priority = flags >> PRIORITY_SHIFT;
    if priority > PRIORITY_MAX {
        return Err(WireError { reading: "a priority" });
    }
    let expires_at = now.from_unix(reader.u64("an expiry")?);
    let publisher = reader.u64("a publisher")?;
    let topic = reader.text("a topic")?;
    TopicName::new(topic).map_err(|_| WireError { reading: "a topic name" })?;
    let properties = read_properties(reader)?;
    let payload = reader.bytes("a payload")?;
    let retain = flags & RETAIN != 0;
    let mut publication = Publication::new(tenant, topic, qos, retain, properties, expires_at, payload, publisher);
    publication.priority = priority;
    Ok(publication.keep())
}

/// Properties that are passed on unchanged, without the properties that each place sets itself.
pub(crate) fn read_properties<'a>(reader: &mut WireReader<'a>) -> Result<&'a [u8], WireError> {
    let wrong = WireError { reading: "properties" };
    let bytes = reader.bytes("properties")?;
    let properties = PublishProperties::decode(bytes).map_err(|_| wrong)?;
    let own = properties.message_expiry.is_some()
        || properties.topic_alias.is_some()
        || properties.subscription_identifiers.iter().next().is_some();
    if own { Err(wrong) } else { Ok(bytes) }
}

/// QoS and all flags; none may be set but those `allowed`.
fn read_flags(reader: &mut WireReader<'_>, allowed: u8) -> Result<(QoS, u8), WireError> {
    let wrong = WireError { reading: "a message's flags" };
    let flags = reader.u8(wrong.reading)?;
    let qos = QoS::from_bits(flags & QOS).filter(|_| flags & !allowed == 0).ok_or(wrong)?;
    Ok((qos, flags))
}

pub(crate) fn put_delivery(out: &mut Vec<u8>, now: Now, delivery: &Delivery) {
    put_message(out, now, &delivery.message);
    let retain = if delivery.retain { RETAIN } else { 0 };
    let dealt = if delivery.group.is_some() { DEALT } else { 0 };
    let latest = if delivery.latest { LATEST } else { 0 };
    out.put_u8(delivery.qos.bits() | retain | dealt | latest);
    let ids = delivery.ids.as_slice();
    out.put_u32(ids.len() as u32);
    for id in ids {
        out.put_u32(*id);
    }
    if let Some(group) = &delivery.group {
        out.put_bytes(group.share.as_bytes());
        out.put_bytes(group.filter.as_bytes());
    }
}

/// Reads a delivery to a session of the tenant. Its group is found among the session's memberships; a message whose
/// group the session has left is the session's own.
pub(crate) fn read_delivery(
    reader: &mut WireReader<'_>,
    now: Now,
    tenant: TenantId,
    memberships: &[Rc<Membership>],
) -> Result<Delivery, WireError> {
    let message = read_message(reader, now, tenant)?;
    let (qos, flags) = read_flags(reader, QOS | RETAIN | DEALT | LATEST)?;
    let mut ids = Vec::new();
    for _ in 0..reader.u32("a number of subscription identifiers")? {
        ids.push(read_subscription_id(reader, 1)?);
    }
    let mut group = None;
    if flags & DEALT != 0 {
        let (share, filter) = (reader.text("a share name")?, reader.text("a topic filter")?);
        group = memberships.iter().find(|other| &*other.share == share && &*other.filter == filter).cloned();
    }
    let (retain, latest) = (flags & RETAIN != 0, flags & LATEST != 0);
    Ok(Delivery { message, qos, retain, latest, ids: SubscriptionIds::from_slice(&ids), group, number: 0 })
}

/// A Subscription Identifier of at least `min`: 0 means none where a subscription may have none.
pub(crate) fn read_subscription_id(reader: &mut WireReader<'_>, min: u32) -> Result<u32, WireError> {
    let wrong = WireError { reading: "a subscription identifier" };
    let id = reader.u32(wrong.reading)?;
    if (min..=MAX_SUBSCRIPTION_IDENTIFIER).contains(&id) { Ok(id) } else { Err(wrong) }
}

/// The stand-in for a message that its receiver has: only its packet id is still in use.
pub(crate) fn released() -> Publication<'static> {
    Publication::new(TenantId::DEFAULT, "released", QoS::ExactlyOnce, false, &[], Millis::NEVER, &[], 0)
}
