//! The one form in which a message crosses from shard to shard (later also to another node or to a disk).

use crate::ids::{ConnectionKey, ShardId, TenantId};
use crate::message::{PRIORITY_MAX, Publication};
use crate::now::Millis;
use crate::wire::{WireError, WireReader, WireWrite};
use std::sync::Arc;
use tidegate_mqtt::QoS;

#[cfg(test)]
pub(crate) mod tests;

/// Version of the layout; a reader refuses others.
pub(crate) const ENVELOPE_VERSION: u8 = 1;

/// The receiver delivers to its subscribers.
pub(crate) const DELIVER: u8 = 1;

/// The receiver is the home of the topic and keeps (or clears) the retained value.
pub(crate) const RETAIN_AT_HOME: u8 = 2;

/// A retained message that a broker of the fleet had, for new subscriptions.
pub(crate) const FROM_RETAINED: u8 = 4;

/// The quota of the tenant does not refuse the retained value: the broker itself has published it.
pub(crate) const BEYOND_QUOTA: u8 = 32;

/// The sender has kept the value in place of the home: the publisher's number is its version, and the newest wins.
pub(crate) const VERSIONED: u8 = 8;

/// A broker has brought the value to the sender, which did not make it.
pub(crate) const BROUGHT: u8 = 16;

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
    /// Number of the envelope on its link: grows by one with each that its sender writes to its receiver.
    pub sequence: u64,
    /// Time of the process's monotonic clock at which the message entered.
    pub entered_at: Millis,
    /// A higher priority goes first in queues with priorities; 0 is ordinary.
    pub priority: u8,
    /// Places passed so far; bounds loops.
    pub hops: u8,
    /// The connection of the publisher at the origin, to be parked when a queue is full.
    pub from: Option<ConnectionKey>,
    /// The receiver of the confirmation once the message is where it must be.
    pub ticket: Option<Ticket>,
    /// The message itself.
    pub publication: Publication<'a>,
}

const NO_INDEX: u32 = u32::MAX;

/// Appends a ticket, or a mark for no ticket.
pub(super) fn put_ticket(out: &mut Vec<u8>, ticket: Option<Ticket>) {
    put_connection(out, ticket.map(|ticket| ticket.connection));
    out.put_u32(ticket.map_or(0, |ticket| ticket.sequence));
}

impl Ticket {
    /// Reads the output of [`put_ticket`].
    pub(super) fn read_optional(reader: &mut WireReader<'_>) -> Result<Option<Self>, WireError> {
        let connection = ConnectionKey::read_optional(reader)?;
        let sequence = reader.u32("a ticket")?;
        Ok(connection.map(|connection| Self { connection, sequence }))
    }

    /// Reads a ticket that has to be there.
    pub(super) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Self::read_optional(reader)?.ok_or(WireError { reading: "a ticket" })
    }
}

pub(crate) fn put_connection(out: &mut Vec<u8>, connection: Option<ConnectionKey>) {
    out.put_u32(connection.map_or(NO_INDEX, |key| key.index));
    out.put_u32(connection.map_or(0, |key| key.generation));
}

impl ConnectionKey {
    /// Reads the output of [`put_connection`].
    pub(super) fn read_optional(reader: &mut WireReader<'_>) -> Result<Option<Self>, WireError> {
        let index = reader.u32("a connection")?;
        let generation = reader.u32("a connection")?;
        Ok((index != NO_INDEX).then_some(Self { index, generation }))
    }

    /// Reads a connection that has to be there.
    pub(super) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Self::read_optional(reader)?.ok_or(WireError { reading: "a connection" })
    }
}

/// Fields that all fresh envelopes of a batch share, so that no envelope carries them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchHead {
    /// The shard that wrote the batch, where fresh messages entered.
    pub from: ShardId,
    /// When the batch was begun; fresh messages entered then.
    pub opened_at: Millis,
    /// Sequence of the first envelope.
    pub first_sequence: u64,
    /// Fields that are read differently in a batch of another node.
    pub foreign: Option<Foreign>,
}

/// The values in a batch of another node as that node knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// The number that the shard which wrote the batch has among its own.
    pub number: ShardId,
    /// Milliseconds that are added to times of its clock.
    pub shift: i64,
}

impl BatchHead {
    /// A time of the writer's clock as this process's clock has it.
    fn time(&self, time: Millis) -> Millis {
        match self.foreign {
            Some(foreign) if time != Millis::NEVER => Millis(time.0.saturating_add_signed(foreign.shift)),
            _ => time,
        }
    }
}

const QOS: u16 = 0b11;

const RETAIN: u16 = 1 << 2;

/// The payload is shared and lies beside the batch.
const SHARED: u16 = 1 << 3;

/// An expiry follows.
const EXPIRES: u16 = 1 << 4;

/// A publisher's hash follows.
const PUBLISHER: u16 = 1 << 5;

/// The publishing connection follows.
const FROM: u16 = 1 << 6;

/// A ticket of the publishing connection follows: only its sequence.
const TICKET: u16 = 1 << 7;

/// The envelope has been elsewhere before: origin, time of entry, priority and hops follow.
const TRAVELLED: u16 = 1 << 8;

/// How a message crosses: all of its envelope but the message and the number that the link gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    /// [`DELIVER`] and [`RETAIN_AT_HOME`].
    pub purpose: u8,
    /// As in [`Envelope`].
    pub origin: ShardId,
    /// As in [`Envelope`].
    pub entered_at: Millis,
    /// As in [`Envelope`].
    pub priority: u8,
    /// As in [`Envelope`].
    pub hops: u8,
    /// As in [`Envelope`].
    pub from: Option<ConnectionKey>,
    /// As in [`Envelope`].
    pub ticket: Option<Ticket>,
}

impl Passage {
    /// Appends the envelope of a message; a shared payload goes to `shared` instead of being copied.
    #[inline]
    pub(crate) fn write(
        &self,
        publication: &mut Publication<'_>,
        head: BatchHead,
        out: &mut Vec<u8>,
        shared: &mut Vec<Arc<[u8]>>,
    ) {
        debug_assert!(
            self.ticket.is_none_or(|ticket| self.from == Some(ticket.connection)),
            "a ticket of someone else"
        );
        let large = publication.share();
        let fresh =
            self.origin == head.from && self.entered_at == head.opened_at && self.priority == 0 && self.hops == 0;
        let mut flags = u16::from(publication.qos.bits());
        for (bit, set) in [
            (RETAIN, publication.retain),
            (SHARED, large.is_some()),
            (EXPIRES, publication.expires_at != Millis::NEVER),
            (PUBLISHER, publication.publisher != 0),
            (FROM, self.from.is_some()),
            (TICKET, self.ticket.is_some()),
            (TRAVELLED, !fresh),
        ] {
            flags |= bit * u16::from(set);
        }
        let inline = if large.is_some() { &[][..] } else { publication.payload };
        let mut fixed = [0; FIXED_LEN];
        fixed[0] = ENVELOPE_VERSION;
        fixed[1] = self.purpose;
        fixed[2..4].copy_from_slice(&flags.to_le_bytes());
        fixed[4..6].copy_from_slice(&publication.tenant.0.to_le_bytes());
        fixed[6..8].copy_from_slice(&(publication.topic.len() as u16).to_le_bytes());
        fixed[8..12].copy_from_slice(&(publication.properties.len() as u32).to_le_bytes());
        fixed[12..16].copy_from_slice(&(inline.len() as u32).to_le_bytes());
        out.extend_from_slice(&fixed);
        if flags & !(QOS | RETAIN | SHARED) != 0 {
            self.write_optional(publication, flags, out);
        }
        out.extend_from_slice(publication.topic.as_bytes());
        out.extend_from_slice(publication.properties);
        out.extend_from_slice(inline);
        shared.extend(large);
    }

    fn write_optional(&self, publication: &Publication<'_>, flags: u16, out: &mut Vec<u8>) {
        if flags & EXPIRES != 0 {
            out.put_u64(publication.expires_at.0);
        }
        if flags & PUBLISHER != 0 {
            out.put_u64(publication.publisher);
        }
        if flags & FROM != 0 {
            put_connection(out, self.from);
        }
        if let Some(ticket) = self.ticket {
            out.put_u32(ticket.sequence);
        }
        if flags & TRAVELLED != 0 {
            out.put_u16(self.origin.0);
            out.put_u64(self.entered_at.0);
            out.put_u8(self.priority);
            out.put_u8(self.hops);
        }
    }
}

impl<'a> Envelope<'a> {
    /// Appends the envelope; a shared payload goes to `shared` instead of being copied. A ticket is that of the
    /// publishing connection.
    pub(crate) fn write(&mut self, head: BatchHead, out: &mut Vec<u8>, shared: &mut Vec<Arc<[u8]>>) {
        self.passage().write(&mut self.publication, head, out, shared);
    }

    /// All of the envelope but the message.
    fn passage(&self) -> Passage {
        Passage {
            purpose: self.purpose,
            origin: self.origin,
            entered_at: self.entered_at,
            priority: self.priority,
            hops: self.hops,
            from: self.from,
            ticket: self.ticket,
        }
    }

    /// Reads an envelope that [`Envelope::write`] made, the one of the given sequence in its batch; large payloads are
    /// taken from `shared` in order.
    #[inline]
    pub(crate) fn read(
        head: BatchHead,
        sequence: u64,
        reader: &mut WireReader<'a>,
        shared: &mut std::slice::Iter<'a, Arc<[u8]>>,
    ) -> Result<Self, WireError> {
        let fixed = reader.array::<FIXED_LEN>("an envelope")?;
        if fixed[0] != ENVELOPE_VERSION {
            return Err(WireError { reading: "an envelope of version 1" });
        }
        let flags = u16::from_le_bytes([fixed[2], fixed[3]]);
        let topic_len = usize::from(u16::from_le_bytes([fixed[6], fixed[7]]));
        let properties_len = u32::from_le_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]) as usize;
        let payload_len = u32::from_le_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]) as usize;
        let qos = QoS::from_bits((flags & QOS) as u8).ok_or(WireError { reading: "a QoS" })?;
        let mut envelope = Self {
            purpose: fixed[1],
            origin: head.from,
            sequence,
            entered_at: head.opened_at,
            priority: 0,
            hops: 0,
            from: None,
            ticket: None,
            publication: Publication::new(
                TenantId(u16::from_le_bytes([fixed[4], fixed[5]])),
                "",
                qos,
                flags & RETAIN != 0,
                &[],
                Millis::NEVER,
                &[],
                0,
            ),
        };
        if flags & !(QOS | RETAIN | SHARED) != 0 {
            envelope.read_optional(head, flags, reader)?;
        }
        let publication = &mut envelope.publication;
        let topic = reader.take(topic_len, "a topic")?;
        publication.topic = std::str::from_utf8(topic).map_err(|_| WireError { reading: "a topic" })?;
        publication.properties = reader.take(properties_len, "properties")?;
        publication.payload = reader.take(payload_len, "a payload")?;
        if flags & SHARED != 0 {
            let large = shared.next().ok_or(WireError { reading: "a shared payload" })?;
            publication.payload = large;
            publication.shared = Some(Arc::clone(large));
        }
        Ok(envelope)
    }

    fn read_optional(&mut self, head: BatchHead, flags: u16, reader: &mut WireReader<'a>) -> Result<(), WireError> {
        if flags & EXPIRES != 0 {
            self.publication.expires_at = head.time(Millis(reader.u64("an expiry")?));
        }
        if flags & PUBLISHER != 0 {
            self.publication.publisher = reader.u64("a publisher")?;
        }
        if flags & FROM != 0 {
            self.from = ConnectionKey::read_optional(reader)?;
        }
        if flags & TICKET != 0 {
            let sequence = reader.u32("a ticket")?;
            self.ticket = self.from.map(|connection| Ticket { connection, sequence });
        }
        if flags & TRAVELLED != 0 {
            self.origin = ShardId(reader.u16("an origin")?);
            if let Some(foreign) = head.foreign {
                // Only the writer knows the shard of another number than its own, and that shard cannot be notified.
                self.from = self.from.filter(|_| self.origin == foreign.number);
                self.ticket = self.ticket.filter(|_| self.from.is_some());
                self.origin = head.from;
            }
            self.entered_at = head.time(Millis(reader.u64("a time of entry")?));
            self.priority = reader.u8("a priority")?;
            self.publication.priority = self.priority.min(PRIORITY_MAX);
            self.hops = reader.u8("hops")?;
        }
        Ok(())
    }
}

impl Envelope<'_> {
    /// Takes from the message's life what the reader's present lies before its entry: it has as long to live as when it
    /// entered, never longer ([MQTT-3.3.2-6]). A shard reads its clock once a turn, so that a neighbour may have
    /// stamped a message later, and clocks of nodes agree only roughly.
    #[inline]
    fn live_no_longer_from(&mut self, now: Millis) {
        let expires_at = &mut self.publication.expires_at;
        if self.entered_at > now && *expires_at != Millis::NEVER {
            expires_at.0 = expires_at.0.saturating_sub(self.entered_at.since(now));
        }
    }
}

/// Numbers the envelopes of a batch while it is read.
#[derive(Debug)]
pub(crate) struct ReadHead {
    head: BatchHead,
    sequence: u64,
    /// The reader's present.
    now: Millis,
}

impl ReadHead {
    /// Of a batch whose first `envelopes` are read.
    pub(crate) fn new(head: BatchHead, envelopes: u64, now: Millis) -> Self {
        Self { head, sequence: head.first_sequence + envelopes, now }
    }

    /// How many envelopes of the batch are read.
    pub(crate) fn envelopes(&self) -> u64 {
        self.sequence - self.head.first_sequence
    }

    /// The next envelope.
    #[inline]
    pub(crate) fn envelope<'a>(
        &mut self,
        reader: &mut WireReader<'a>,
        shared: &mut std::slice::Iter<'a, Arc<[u8]>>,
    ) -> Result<Envelope<'a>, WireError> {
        let sequence = self.sequence;
        self.sequence += 1;
        let mut envelope = Envelope::read(self.head, sequence, reader, shared)?;
        envelope.live_no_longer_from(self.now);
        Ok(envelope)
    }
}

/// Bytes that every envelope has: version, purpose, flags, tenant, and the lengths of topic, properties and payload.
const FIXED_LEN: usize = 16;

/// Tickets with this connection index belong to outgoing messages.
pub(crate) const OUTGOING_INDEX: u32 = u32::MAX - 5;
