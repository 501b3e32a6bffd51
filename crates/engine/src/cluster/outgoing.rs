//! Messages that a cluster owes and that no publisher sends again: wills.
//!
//! Such a message is held until this node may publish it: it serves the partition of the client, and it knows what is
//! wanted at all other nodes. From then on the message crosses under a name, as a QoS 2 message of a client does. It
//! stays in the store until all nodes have confirmed it. If one of them dies before, or this process does, the message
//! is sent again under the same name, to those who have not got it. It goes along with the partition of its client.

use super::exchanges::{ExchangeName, Got};
use crate::desk::Desk;
use crate::durable::{Key, put_stored_message, read_stored_message};
use crate::ids::{ConnectionKey, PartitionId, Partitions, TenantId, partition_of};
use crate::image::put_publication;
use crate::link::envelope::Ticket;
use crate::message::MessageRef;
use crate::now::Now;
use crate::wire::{WireError, WireReader, WireWrite};
use std::collections::BTreeMap;

/// Tickets with this connection index belong to outgoing messages.
pub(crate) const OUTGOING_INDEX: u32 = u32::MAX - 5;

/// Version of the stored value; a reader refuses others.
const OUTGOING_VERSION: u8 = 1;

/// A message under way to other nodes.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingMessage {
    /// The client whose message it is.
    pub(crate) client_id: Box<str>,
    pub(crate) message: MessageRef,
    /// The name under which it was sent, and who has got it at this node, once it was sent.
    pub(crate) sent: Option<(ExchangeName, Got)>,
    /// The ticket of the last attempt; none while the message is held.
    pub(crate) ticket: Option<u64>,
    /// Confirmations that the last attempt waits for.
    pub(crate) waits: u32,
}

impl OutgoingMessage {
    pub(crate) fn partition(&self) -> PartitionId {
        partition_of(self.message.tenant, &self.client_id)
    }

    /// Bytes that it holds in memory.
    fn cost(&self) -> u64 {
        self.message.cost() + (size_of::<Self>() + self.client_id.len()) as u64
    }

    fn write_head(&self, out: &mut Vec<u8>) {
        out.put_u16(self.message.tenant.0);
        out.put_bytes(self.client_id.as_bytes());
        out.put_u8(u8::from(self.sent.is_some()));
        if let Some((name, covered)) = self.sent {
            name.write(out);
            covered.write(out);
        }
    }

    /// Reads what stands before the message. What was sent by another process is sent again.
    pub(crate) fn read_head(reader: &mut WireReader<'_>) -> Result<OutgoingHead, WireError> {
        let tenant = TenantId(reader.u16("a tenant")?);
        let client_id = reader.text("a client id")?.into();
        let sent = reader.flag("whether it was sent")?;
        let sent = sent.then(|| Ok((ExchangeName::read(reader)?, Got::read(reader)?))).transpose()?;
        Ok(OutgoingHead { tenant, client_id, sent })
    }
}

/// What stands before a message.
pub(crate) struct OutgoingHead {
    pub(crate) tenant: TenantId,
    client_id: Box<str>,
    sent: Option<(ExchangeName, Got)>,
}

impl OutgoingHead {
    pub(crate) fn with(self, message: MessageRef) -> OutgoingMessage {
        OutgoingMessage { client_id: self.client_id, message, sent: self.sent, ticket: None, waits: 0 }
    }
}

/// All outgoing messages of a shard, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) by_number: BTreeMap<u64, OutgoingMessage>,
    /// The message of each ticket that is open.
    by_ticket: BTreeMap<u64, u64>,
    next_ticket: u64,
    /// Numbers for messages that are not stored.
    next_number: u64,
    pub(crate) bytes: u64,
    /// Whether this process has known what is wanted at all other nodes of its table.
    pub(crate) has_met_nodes: bool,
}

impl Outgoing {
    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages of a partition.
    pub(crate) fn count_of(&self, partition: PartitionId) -> u64 {
        self.by_number.values().filter(|it| it.partition() == partition).count() as u64
    }

    pub(crate) fn new_ticket(&mut self, number: u64) -> (u64, Ticket) {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.by_ticket.insert(ticket, number);
        let connection = ConnectionKey { index: OUTGOING_INDEX, generation: (ticket >> 32) as u32 };
        (ticket, Ticket { connection, sequence: ticket as u32 })
    }

    /// Numbers of the messages that are held.
    pub(crate) fn held(&self) -> Vec<u64> {
        self.by_number.iter().filter(|(_, it)| it.ticket.is_none()).map(|(number, _)| *number).collect()
    }
}

fn number_of(ticket: Ticket) -> u64 {
    u64::from(ticket.connection.generation) << 32 | u64::from(ticket.sequence)
}

/// Reads the client whose message is stored.
pub(crate) fn client_of_outgoing(value: &[u8]) -> Result<(TenantId, Box<str>), WireError> {
    let mut reader = WireReader::new(value);
    read_version(&mut reader)?;
    let head = OutgoingMessage::read_head(&mut reader)?;
    Ok((head.tenant, head.client_id))
}

/// Reads a stored value.
pub(crate) fn read_outgoing(value: &[u8], now: Now) -> Result<OutgoingMessage, WireError> {
    let mut reader = WireReader::new(value);
    read_version(&mut reader)?;
    let head = OutgoingMessage::read_head(&mut reader)?;
    let message = read_stored_message(&mut reader, now, head.tenant)?;
    Ok(head.with(message))
}

/// The client, the topic and the size of a stored value, in words.
pub(crate) fn describe_outgoing(value: &[u8], now: Now) -> Result<String, WireError> {
    let it = read_outgoing(value, now)?;
    let (topic, bytes) = (it.message.topic(), it.message.payload().len());
    let state = if it.sent.is_some() { "sent" } else { "held" };
    Ok(format!("a will of {:?}: {topic:?}, {bytes} bytes, {state}", it.client_id))
}

fn read_version(reader: &mut WireReader<'_>) -> Result<(), WireError> {
    let version = reader.u8("a version")?;
    if version == OUTGOING_VERSION { Ok(()) } else { Err(WireError { reading: "a value of this version" }) }
}

impl Outgoing {
    pub(crate) fn add_outgoing(&mut self, desk: &mut Desk, number: u64, it: OutgoingMessage) {
        self.bytes += it.cost();
        desk.memory.held += it.cost();
        self.by_number.insert(number, it);
    }

    pub(crate) fn store_outgoing(&mut self, desk: &mut Desk, number: u64) {
        let Some(it) = self.by_number.get(&number).filter(|_| desk.journal.is_on()) else { return };
        let now = desk.journal.now;
        desk.journal.put(Key::Outgoing(number), |out| {
            out.put_u8(OUTGOING_VERSION);
            it.write_head(out);
            put_stored_message(out, now, &it.message.publication());
        });
    }

    /// Forgets a message, also in the store.
    pub(crate) fn remove_outgoing(&mut self, desk: &mut Desk, number: u64) {
        let Some(it) = self.by_number.remove(&number) else { return };
        self.bytes -= it.cost();
        desk.memory.held -= it.cost();
        if let Some(ticket) = it.ticket {
            self.by_ticket.remove(&ticket);
        }
        if let Some((name, _)) = it.sent {
            desk.exchanges.end(name);
        }
        if desk.journal.is_on() {
            desk.journal.delete(Key::Outgoing(number));
        }
    }

    /// One confirmation of an outgoing message.
    #[cold]
    pub(crate) fn confirm_outgoing(&mut self, desk: &mut Desk, ticket: Ticket) {
        let ticket = number_of(ticket);
        let Some(number) = self.by_ticket.get(&ticket).copied() else { return };
        let Some(it) = self.by_number.get_mut(&number) else { return };
        it.waits = it.waits.saturating_sub(1);
        if it.waits == 0 {
            self.remove_outgoing(desk, number);
        }
    }

    /// A shard that had to confirm an outgoing message is no more: the message is sent again when the node may.
    pub(crate) fn doubt_outgoing(&mut self, ticket: Ticket) {
        let Some(number) = self.by_ticket.remove(&number_of(ticket)) else { return };
        if let Some(it) = self.by_number.get_mut(&number) {
            it.ticket = None;
        }
    }

    /// Takes in what the store holds.
    pub(crate) fn restore_outgoing(
        &mut self,
        now: Now,
        desk: &mut Desk,
        number: u64,
        value: &[u8],
    ) -> Result<(), WireError> {
        self.add_outgoing(desk, number, read_outgoing(value, now)?);
        Ok(())
    }

    /// Forgets the messages of partitions that live elsewhere from now on.
    pub(crate) fn forget_outgoing(&mut self, desk: &mut Desk, partitions: Partitions) {
        let its = self.by_number.iter().filter(|(_, it)| partitions.has(it.partition()));
        let its: Vec<u64> = its.map(|(number, _)| *number).collect();
        for number in its {
            self.remove_outgoing(desk, number);
        }
    }

    /// Writes the messages of a partition into its image.
    pub(crate) fn put_outgoing(&self, out: &mut Vec<u8>, now: Now, partition: PartitionId) {
        let its: Vec<&OutgoingMessage> = self.by_number.values().filter(|it| it.partition() == partition).collect();
        out.put_u32(its.len() as u32);
        for it in its {
            it.write_head(out);
            put_publication(out, now, &it.message.publication());
        }
    }

    /// Goes on with the messages of a partition that has come.
    pub(crate) fn adopt_outgoing(&mut self, desk: &mut Desk, all: Vec<OutgoingMessage>) {
        for it in all {
            let number = self.new_outgoing_number(desk);
            self.add_outgoing(desk, number, it);
            self.store_outgoing(desk, number);
        }
    }

    pub(crate) fn new_outgoing_number(&mut self, desk: &mut Desk) -> u64 {
        if desk.journal.is_on() {
            return desk.journal.new_body();
        }
        self.next_number += 1;
        self.next_number
    }
}
