//! The parts that images are made of: messages and deliveries.

use std::rc::Rc;

use tidegate_mqtt::{QoS, TopicName};

use crate::ids::TenantId;
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::session::{Delivery, Membership, SubscriptionIds};
use crate::wire::{WireError, WireReader, WireWrite};

pub(super) fn put_message(out: &mut Vec<u8>, now: Now, message: &MessageRef) {
    out.put_u16(message.tenant.0);
    out.put_u8(message.qos.bits() | u8::from(message.retain) << 2);
    out.put_u64(now.to_unix(message.expires_at));
    out.put_u64(message.publisher);
    out.put_bytes(message.topic().as_bytes());
    out.put_bytes(message.properties());
    out.put_bytes(message.payload());
}

pub(super) fn read_message(reader: &mut WireReader<'_>, now: Now) -> Result<MessageRef, WireError> {
    let tenant = TenantId(reader.u16("a tenant")?);
    let flags = reader.u8("a message's flags")?;
    let qos = QoS::from_bits(flags & 3).ok_or(WireError { reading: "a QoS" })?;
    let expires_at = now.from_unix(reader.u64("an expiry")?);
    let publisher = reader.u64("a publisher")?;
    let topic = reader.text("a topic")?;
    TopicName::new(topic).map_err(|_| WireError { reading: "a topic name" })?;
    let properties = reader.bytes("properties")?;
    let payload = reader.bytes("a payload")?;
    let mut publication =
        Publication::new(tenant, topic, qos, flags & 4 != 0, properties, expires_at, payload, publisher);
    Ok(publication.keep())
}

pub(super) fn put_delivery(out: &mut Vec<u8>, now: Now, delivery: &Delivery) {
    put_message(out, now, &delivery.message);
    out.put_u8(delivery.qos.bits() | u8::from(delivery.retain) << 2 | u8::from(delivery.group.is_some()) << 3);
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

/// Reads a delivery; a group is found among the session's memberships.
pub(super) fn read_delivery(
    reader: &mut WireReader<'_>,
    now: Now,
    memberships: &[Rc<Membership>],
) -> Result<Delivery, WireError> {
    let message = read_message(reader, now)?;
    let flags = reader.u8("a delivery's flags")?;
    let qos = QoS::from_bits(flags & 3).ok_or(WireError { reading: "a QoS" })?;
    let mut ids = Vec::new();
    for _ in 0..reader.u32("a number of subscription identifiers")? {
        ids.push(reader.u32("a subscription identifier")?);
    }
    let mut group = None;
    if flags & 8 != 0 {
        let (share, filter) = (reader.text("a share name")?, reader.text("a topic filter")?);
        group = memberships.iter().find(|other| &*other.share == share && &*other.filter == filter).cloned();
    }
    Ok(Delivery { message, qos, retain: flags & 4 != 0, ids: SubscriptionIds::from_slice(&ids), group })
}
