//! The values of stored records.

use crate::ids::TenantId;
use crate::journal::Numbers;
use crate::journal::keys::StoredSession;
use crate::message::PRIORITY_MAX;
use crate::message::{MessageRef, Publication};
use crate::now::{Millis, Now};
use crate::records::image::{read_properties, read_subscription_id};
use crate::session::packet_ids::State;
use crate::session::tail::AdoptedPlace;
use crate::session::{Delivery, Membership, SubscriptionIds};
use crate::wire::{WireError, WireReader, WireWrite};
use std::rc::Rc;
use tidegate_mqtt::{PacketId, QoS, TopicName};

const QOS: u8 = 0b11;

const RETAIN: u8 = 1 << 2;

const EXPIRES: u8 = 1 << 3;

const PUBLISHER: u8 = 1 << 4;

const PROPERTIES: u8 = 1 << 5;

const PRIORITY: u8 = 1 << 6;

/// Behind the time at which it expires stand the seconds that it had left, so that a wall clock that was set back gives
/// it no more ([MQTT-3.3.2-6]). Values of earlier versions do not say it.
const SECONDS_LEFT: u8 = 1 << 7;

/// Appends a message.
#[inline]
pub(crate) fn put_message(out: &mut Vec<u8>, now: Now, message: &Publication<'_>) {
    let mut flags = message.qos.bits();
    for (bit, set) in [
        (RETAIN, message.retain),
        (EXPIRES, message.expires_at != Millis::NEVER),
        (PUBLISHER, message.publisher != 0),
        (PROPERTIES, !message.properties.is_empty()),
        (PRIORITY, message.priority != 0),
        (SECONDS_LEFT, message.expires_at != Millis::NEVER),
    ] {
        flags |= bit * u8::from(set);
    }
    out.put_u8(flags);
    if flags & EXPIRES != 0 {
        out.put_u64(now.to_unix(message.expires_at));
        let left = message.expires_at.since(now.monotonic).div_ceil(1000);
        out.put_u32(u32::try_from(left).unwrap_or(u32::MAX));
    }
    if flags & PUBLISHER != 0 {
        out.put_u64(message.publisher);
    }
    if flags & PROPERTIES != 0 {
        out.put_bytes(message.properties);
    }
    if flags & PRIORITY != 0 {
        out.put_u8(message.priority);
    }
    out.put_u16(message.topic.len() as u16);
    out.extend_from_slice(message.topic.as_bytes());
    out.put_bytes(message.payload);
}

/// Reads a message of a tenant.
pub(crate) fn read_message(reader: &mut WireReader<'_>, now: Now, tenant: TenantId) -> Result<MessageRef, WireError> {
    let flags = reader.u8("a message's flags")?;
    let qos = QoS::from_bits(flags & QOS).filter(|_| flags & (EXPIRES | SECONDS_LEFT) != SECONDS_LEFT);
    let qos = qos.ok_or(WireError { reading: "a message's flags" })?;
    let mut expires_at = if flags & EXPIRES != 0 { now.from_unix(reader.u64("an expiry")?) } else { Millis::NEVER };
    if flags & SECONDS_LEFT != 0 {
        expires_at = expires_at.min(now.monotonic.plus_seconds(reader.u32("the seconds that are left")?));
    }
    let publisher = if flags & PUBLISHER != 0 { reader.u64("a publisher")? } else { 0 };
    let properties = if flags & PROPERTIES != 0 { read_properties(reader)? } else { &[] };
    let priority = if flags & PRIORITY != 0 { reader.u8("a priority")? } else { 0 };
    if priority > PRIORITY_MAX {
        return Err(WireError { reading: "a priority" });
    }
    let topic = reader.text16("a topic")?;
    TopicName::new(topic).map_err(|_| WireError { reading: "a topic name" })?;
    let payload = reader.bytes("a payload")?;
    let retain = flags & RETAIN != 0;
    let mut message = Publication::new(tenant, topic, qos, retain, properties, expires_at, payload, publisher);
    message.priority = priority;
    Ok(message.keep())
}

const DEALT: u8 = 1 << 3;

const SENT: u8 = 1 << 4;

const SHARED: u8 = 1 << 5;

const IDS: u8 = 1 << 6;

/// A newer message of its topic takes its place while it waits.
const LATEST: u8 = 1 << 7;

/// A message as it is owed to one session, before it becomes a [`Delivery`].
pub(super) struct Entry<'a> {
    pub qos: QoS,
    pub retain: bool,
    pub group: Option<&'a Membership>,
    pub ids: &'a [u32],
    /// Whether a newer message of its topic takes its place while it waits.
    pub latest: bool,
    /// Whether it stays in memory, although nothing else of it says so: its number is within the end of a queue.
    pub stays: bool,
    /// Its packet id, if it is being sent at once.
    pub sent: Option<PacketId>,
    /// The message elsewhere, if several sessions share it.
    pub body: Option<u64>,
}

impl Entry<'_> {
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>, now: Now, message: &Publication<'_>) {
        let mut flags = self.qos.bits();
        for (bit, set) in [
            (RETAIN, self.retain),
            (DEALT, self.group.is_some() || self.stays),
            (SENT, self.sent.is_some()),
            (SHARED, self.body.is_some()),
            (IDS, !self.ids.is_empty()),
            (LATEST, self.latest),
        ] {
            flags |= bit * u8::from(set);
        }
        out.put_u8(flags);
        if let Some(id) = self.sent {
            out.put_u16(id.get());
        }
        if !self.ids.is_empty() {
            out.put_u32(self.ids.len() as u32);
            for id in self.ids {
                out.put_u32(*id);
            }
        }
        if let Some(group) = self.group {
            out.put_bytes(group.share.as_bytes());
            out.put_bytes(group.filter.as_bytes());
        } else if self.stays {
            // No group has an empty name.
            out.put_bytes(&[]);
            out.put_bytes(&[]);
        }
        match self.body {
            Some(body) => out.put_u64(body),
            None => put_message(out, now, message),
        }
    }
}

/// The place of an entry's message.
#[derive(Debug)]
pub(crate) enum Content {
    Here(MessageRef),
    Body(u64),
}

/// An entry that was read.
#[derive(Debug)]
pub(crate) struct ReadEntry {
    pub qos: QoS,
    pub retain: bool,
    pub latest: bool,
    /// A group has dealt it, or had: its session may be a member no longer. It stays in memory.
    pub dealt: bool,
    pub group: Option<Rc<Membership>>,
    pub ids: SubscriptionIds,
    pub sent: Option<PacketId>,
    pub content: Content,
}

impl ReadEntry {
    pub(crate) fn read(
        value: &[u8],
        now: Now,
        tenant: TenantId,
        memberships: &[Rc<Membership>],
    ) -> Result<Self, WireError> {
        let mut reader = WireReader::new(value);
        let flags = reader.u8("a message's flags")?;
        let qos = QoS::from_bits(flags & QOS).ok_or(WireError { reading: "a QoS" })?;
        let sent = if flags & SENT != 0 { Some(reader.packet_id()?) } else { None };
        let mut ids = Vec::new();
        if flags & IDS != 0 {
            for _ in 0..reader.u32("a number of subscription identifiers")? {
                ids.push(read_subscription_id(&mut reader, 1)?);
            }
        }
        let mut group = None;
        if flags & DEALT != 0 {
            let (share, filter) = (reader.text("a share name")?, reader.text("a topic filter")?);
            group = memberships.iter().find(|other| &*other.share == share && &*other.filter == filter).cloned();
        }
        let content = if flags & SHARED != 0 {
            Content::Body(reader.u64("a message's number")?)
        } else {
            Content::Here(read_message(&mut reader, now, tenant)?)
        };
        end(&reader)?;
        let ids = SubscriptionIds::from_slice(&ids);
        let (retain, latest, dealt) = (flags & RETAIN != 0, flags & LATEST != 0, flags & DEALT != 0);
        Ok(Self { qos, retain, latest, dealt, group, ids, sent, content })
    }

    /// Whether an entry stays in memory after a start: it is sent, dealt, shared, has a priority, or waits for a newer
    /// message of its topic.
    pub(crate) fn stays_in_memory(value: &[u8]) -> bool {
        let marked = value.first().is_some_and(|flags| *flags & (DEALT | SENT | SHARED | LATEST) != 0);
        let clock = Now { monotonic: Millis(0), unix: 0 };
        let is_raised = |entry: Self| matches!(entry.content, Content::Here(message) if message.priority != 0);
        marked || Self::read(value, clock, TenantId::DEFAULT, &[]).is_ok_and(is_raised)
    }

    /// The number of the message elsewhere that an entry refers to, if it does.
    pub(crate) fn body_of(value: &[u8]) -> Option<u64> {
        value.first().filter(|flags| **flags & SHARED != 0)?;
        // It is at the end of every record.
        let (_, last) = value.split_last_chunk::<8>()?;
        Some(u64::from_le_bytes(*last))
    }
}

/// The progress of a message that was not sent at once, or has progressed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentRecord {
    pub id: PacketId,
    pub state: State,
    /// Its place among the messages sent to the session.
    pub order: u64,
    /// True if only the packet id is to be released: another session has the message.
    pub released: bool,
}

impl SentRecord {
    /// Whether the message may have to be sent again. That of a broker may until it has returned.
    pub(crate) fn keeps_message(&self, of_broker_link: bool) -> bool {
        !self.released && (self.state != State::AwaitPubComp || of_broker_link)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.id.get());
        out.put_u8(match self.state {
            _ if self.released => 3,
            State::AwaitPubAck => 0,
            State::AwaitPubRec => 1,
            State::AwaitPubComp => 2,
        });
        out.put_u64(self.order);
    }

    pub(crate) fn read(value: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(value);
        let id = reader.packet_id()?;
        let (state, released) = match reader.u8("a state")? {
            0 => (State::AwaitPubAck, false),
            1 => (State::AwaitPubRec, false),
            2 => (State::AwaitPubComp, false),
            3 => (State::AwaitPubComp, true),
            _ => return Err(WireError { reading: "a state" }),
        };
        let order = reader.u64("an order")?;
        end(&reader)?;
        Ok(Self { id, state, order, released })
    }
}

/// A subscription's options and identifier.
pub(crate) fn put_subscription(out: &mut Vec<u8>, options: u8, subscription_id: u32) {
    out.put_u8(options);
    out.put_u32(subscription_id);
}

/// Reads a subscription's options and identifier.
pub(crate) fn read_subscription(value: &[u8]) -> Result<(u8, u32), WireError> {
    let mut reader = WireReader::new(value);
    let options = reader.u8("subscription options")?;
    if QoS::from_bits(options & QOS).is_none() {
        return Err(WireError { reading: "subscription options" });
    }
    let id = read_subscription_id(&mut reader, 0)?;
    end(&reader)?;
    Ok((options, id))
}

pub(crate) fn end(reader: &WireReader<'_>) -> Result<(), WireError> {
    if reader.is_empty() { Ok(()) } else { Err(WireError { reading: "the end of a value" }) }
}

/// Records of the engine for an owed message.
impl crate::journal::Journal {
    /// Puts a message that a session is owed under its own number.
    #[expect(clippy::too_many_arguments, reason = "all that is known of a delivery before it is made")]
    #[inline]
    pub(crate) fn put_entry(
        &mut self,
        session: StoredSession,
        number: u64,
        publication: &mut Publication<'_>,
        terms: &crate::session::terms::Terms<'_>,
        qos: QoS,
        sent: Option<PacketId>,
        latest: bool,
    ) {
        let body = publication.wide.then(|| self.body_of(publication));
        let entry = Entry {
            qos,
            retain: terms.retain,
            group: terms.group.map(|group| &**group),
            ids: terms.subscription_ids,
            latest,
            stays: false,
            sent,
            body,
        };
        let now = self.now;
        self.put(crate::journal::keys::Key::Entry(session, number), |out| entry.write(out, now, publication));
    }

    /// The number of a message that several sessions share; stored on first use.
    fn body_of(&mut self, publication: &mut Publication<'_>) -> u64 {
        if publication.body == 0 {
            publication.body = self.new_body();
            let now = self.now;
            self.put(crate::journal::keys::Key::Body(publication.body), |out| {
                out.put_u16(publication.tenant.0);
                put_message(out, now, publication);
            });
        }
        publication.body
    }

    /// Puts the retained message of its topic.
    pub(crate) fn put_retained(&mut self, publication: &Publication<'_>) {
        let now = self.now;
        self.put(crate::journal::keys::Key::Retained(publication.tenant, publication.topic), |out| {
            put_message(out, now, publication);
        });
    }

    /// Puts a message that a session brought along.
    pub(crate) fn put_adopted(&mut self, session: StoredSession, delivery: &Delivery, place: AdoptedPlace) {
        let (retain, group) = (delivery.retain, delivery.group.as_deref());
        let (qos, ids, latest) = (delivery.qos, delivery.ids.as_slice(), delivery.latest);
        let (stays, sent) = match place {
            AdoptedPlace::Queue => (false, None),
            AdoptedPlace::WithinTail => (true, None),
            AdoptedPlace::Sent(id) => (false, Some(id)),
        };
        let entry = Entry { qos, retain, group, ids, latest, stays, sent, body: None };
        let now = self.now;
        let message = delivery.message.publication();
        self.put(crate::journal::keys::Key::Entry(session, delivery.number), |out| entry.write(out, now, &message));
    }

    /// Puts the stand-in for a message that a session's client has, as long as its packet id is in use.
    pub(crate) fn put_released(&mut self, session: StoredSession, number: u64, id: PacketId) {
        let message = crate::records::image::released();
        let (qos, sent) = (message.qos, Some(id));
        let entry = Entry { qos, retain: false, group: None, ids: &[], latest: false, stays: false, sent, body: None };
        let now = self.now;
        self.put(crate::journal::keys::Key::Entry(session, number), |out| entry.write(out, now, &message));
    }

    /// Puts the progress of a message.
    #[inline]
    pub(crate) fn put_sent(&mut self, session: StoredSession, number: u64, id: PacketId, state: State, order: u64) {
        let record = SentRecord { id, state, order, released: false };
        self.put(crate::journal::keys::Key::Sent(session, number), |out| record.write(out));
    }

    /// Puts a packet id that is only to be released: the message went to another session.
    pub(crate) fn put_to_release(&mut self, session: StoredSession, number: u64, id: PacketId, order: u64) {
        let record = SentRecord { id, state: State::AwaitPubComp, order, released: true };
        self.put(crate::journal::keys::Key::Sent(session, number), |out| record.write(out));
    }

    /// A message is not queued any more.
    #[inline]
    pub(crate) fn delete_entry(&mut self, session: StoredSession, delivery: Numbers) {
        if delivery.entry == 0 {
            return;
        }
        self.delete(crate::journal::keys::Key::Entry(session, delivery.entry));
        if delivery.separate {
            self.delete(crate::journal::keys::Key::Sent(session, delivery.entry));
        }
    }
}

/// A delivery out of an entry.
pub(crate) fn delivery(entry: ReadEntry, message: MessageRef, number: u64) -> Delivery {
    let ReadEntry { qos, retain, latest, group, ids, .. } = entry;
    Delivery { message, qos, retain, latest, ids, group, number }
}

/// An entry of a queue that was read from the store.
#[derive(Debug)]
pub(crate) struct EntryRead {
    pub session: StoredSession,
    pub number: u64,
    /// The delivery, if it may wait in the store alone. Other deliveries in between are in memory.
    pub delivery: Option<Delivery>,
}

/// Reads an entry of a queue; `None` for another or invalid record.
pub(crate) fn read_entry(key: &[u8], value: &[u8], now: Now, tenant: TenantId) -> Option<EntryRead> {
    let crate::journal::keys::Key::Entry(session, number) = crate::journal::keys::Key::read(key).ok()? else {
        return None;
    };
    let entry = ReadEntry::read(value, now, tenant, &[]).ok()?;
    let delivery = match &entry.content {
        Content::Here(message) if !entry.dealt && !entry.latest && entry.sent.is_none() && message.priority == 0 => {
            let message = Rc::clone(message);
            Some(delivery(entry, message, number))
        }
        _ => None,
    };
    Some(EntryRead { session, number, delivery })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::keys::Key;

    #[test]
    fn a_read_passes_over_messages_that_are_in_memory() {
        let message = Publication::new(TenantId(0), "t", QoS::AtLeastOnce, false, &[], Millis::NEVER, b"m", 0);
        let now = Now { monotonic: Millis(0), unix: 0 };
        let session = StoredSession(std::num::NonZeroU64::MIN);
        let mut key = Vec::new();
        Key::Entry(session, 7).write(&mut key);
        for (stays, sent) in [(false, None), (true, None), (false, Some(PacketId::MIN))] {
            let (qos, ids) = (QoS::AtLeastOnce, &[][..]);
            let entry = Entry { qos, retain: false, group: None, ids, latest: false, stays, sent, body: None };
            let mut value = Vec::new();
            entry.write(&mut value, now, &message);
            let in_memory = stays || sent.is_some();
            let read = read_entry(&key, &value, now, TenantId(0)).expect("an entry");
            assert_eq!((read.number, read.delivery.is_none()), (7, in_memory), "{stays} {sent:?}");
            assert_eq!(ReadEntry::stays_in_memory(&value), in_memory);
        }
    }
}
