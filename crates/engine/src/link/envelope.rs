//! The one form in which a message crosses from shard to shard (later also to another node or to a disk).

use std::sync::Arc;

use tidegate_mqtt::QoS;

use crate::ids::{ConnectionKey, ShardId, TenantId};
use crate::message::Publication;
use crate::now::Millis;
use crate::wire::{WireError, WireReader, WireWrite};

/// Version of the layout; a reader refuses others.
pub(crate) const ENVELOPE_VERSION: u8 = 1;

/// The receiver delivers to its subscribers.
pub(crate) const DELIVER: u8 = 1;
/// The receiver is the home of the topic and keeps (or clears) the retained value.
pub(crate) const RETAIN_AT_HOME: u8 = 2;

/// Names an acknowledgement that waits for others: the connection that it goes to and its place among those pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub connection: ConnectionKey,
    pub sequence: u32,
}

/// A message with all that a receiver in another place must know about it.
#[derive(Clone, Debug)]
pub(crate) struct Envelope<'a> {
    /// [`DELIVER`] and [`RETAIN_AT_HOME`].
    pub purpose: u8,
    /// The shard where the message entered; confirmations go there.
    pub origin: ShardId,
    /// Number of the message at its origin; grows by one with each envelope that the origin writes.
    pub sequence: u64,
    /// Milliseconds of the origin's monotonic clock at which the message entered.
    pub entered_at: Millis,
    /// Higher goes first where a queue knows priorities; 0 is ordinary.
    pub priority: u8,
    /// Places passed so far; bounds loops.
    pub hops: u8,
    /// The connection of the publisher at the origin, to be parked when a queue is full.
    pub from: Option<ConnectionKey>,
    /// Whom to confirm to once the message is where it must be.
    pub ticket: Option<Ticket>,
    /// The message itself.
    pub publication: Publication<'a>,
}

const NO_INDEX: u32 = u32::MAX;

pub(crate) fn put_connection(out: &mut Vec<u8>, connection: Option<ConnectionKey>) {
    out.put_u32(connection.map_or(NO_INDEX, |key| key.index));
    out.put_u32(connection.map_or(0, |key| key.generation));
}

pub(crate) fn read_connection(reader: &mut WireReader<'_>) -> Result<Option<ConnectionKey>, WireError> {
    let index = reader.u32("a connection")?;
    let generation = reader.u32("a connection")?;
    Ok((index != NO_INDEX).then_some(ConnectionKey { index, generation }))
}

impl<'a> Envelope<'a> {
    /// Appends the envelope; a shared payload goes to `shared` instead of being copied.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, shared: &mut Vec<Arc<[u8]>>) {
        let publication = &mut self.publication;
        let large = publication.share();
        out.put_u8(ENVELOPE_VERSION);
        out.put_u8(self.purpose);
        out.put_u8(publication.qos as u8 | u8::from(publication.retain) << 2 | u8::from(large.is_some()) << 3);
        out.put_u8(self.priority);
        out.put_u8(self.hops);
        out.put_u16(publication.tenant.0);
        out.put_u16(self.origin.0);
        out.put_u64(self.sequence);
        out.put_u64(publication.publisher);
        out.put_u64(self.entered_at.0);
        out.put_u64(publication.expires_at.0);
        put_connection(out, self.from);
        put_connection(out, self.ticket.map(|ticket| ticket.connection));
        out.put_u32(self.ticket.map_or(0, |ticket| ticket.sequence));
        out.put_bytes(publication.topic.as_bytes());
        out.put_bytes(publication.properties);
        if let Some(large) = large {
            shared.push(large);
        } else {
            out.put_bytes(publication.payload);
        }
    }

    /// Reads an envelope that [`Envelope::write`] made; large payloads are taken from `shared` in order.
    pub(crate) fn read(
        reader: &mut WireReader<'a>,
        shared: &mut std::slice::Iter<'a, Arc<[u8]>>,
    ) -> Result<Self, WireError> {
        if reader.u8("an envelope's version")? != ENVELOPE_VERSION {
            return Err(WireError { reading: "an envelope of version 1" });
        }
        let purpose = reader.u8("an envelope's purpose")?;
        let flags = reader.u8("an envelope's flags")?;
        let priority = reader.u8("an envelope's priority")?;
        let hops = reader.u8("an envelope's hops")?;
        let tenant = TenantId(reader.u16("a tenant")?);
        let origin = ShardId(reader.u16("an origin")?);
        let sequence = reader.u64("an envelope's sequence")?;
        let publisher = reader.u64("a publisher")?;
        let entered_at = Millis(reader.u64("a time of entry")?);
        let expires_at = Millis(reader.u64("an expiry")?);
        let from = read_connection(reader)?;
        let ticket_connection = read_connection(reader)?;
        let ticket_sequence = reader.u32("a ticket")?;
        let topic = reader.text("a topic")?;
        let properties = reader.bytes("properties")?;
        let large =
            if flags & 8 == 0 { None } else { Some(shared.next().ok_or(WireError { reading: "a shared payload" })?) };
        let payload = match large {
            Some(large) => &large[..],
            None => reader.bytes("a payload")?,
        };
        let qos = QoS::from_bits(flags & 3).ok_or(WireError { reading: "a QoS" })?;
        let mut publication =
            Publication::new(tenant, topic, qos, flags & 4 != 0, properties, expires_at, payload, publisher);
        publication.shared = large.cloned();
        let ticket = ticket_connection.map(|connection| Ticket { connection, sequence: ticket_sequence });
        Ok(Self { purpose, origin, sequence, entered_at, priority, hops, from, ticket, publication })
    }
}
