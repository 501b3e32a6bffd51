//! Messages that a cluster owes and that no publisher sends again: wills and receipts.
//!
//! Such a message is held until this node may publish it: it serves the partition of the client, and it knows the
//! interest of all other nodes. From then on the message crosses under a name, as a QoS 2 message of a client does. It
//! stays in the store until all nodes have confirmed it. If one of them dies before, or this process does, the message
//! is sent again under the same name, to the nodes that lack it. It moves with the partition of its client.
//!
//! An orchestrator gives such a message to the brokers when it serves the partition of the client.

use crate::ids::{PartitionId, TenantId, partition_of};
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::message::MessageRef;
use crate::now::Now;
use crate::records::stored::read_message as read_stored_message;
use crate::wire::{WireError, WireReader, WireWrite};
use std::collections::BTreeMap;

/// Version of the stored value; a reader refuses others, but for the two earlier ones.
pub(crate) const OUTGOING_VERSION: u8 = 3;
/// Before it, all messages were of clients. The layout is the same.
const VERSION_OF_WILLS: u8 = 2;
/// Its sets of partitions had 64 places.
const VERSION_OF_64_PARTITIONS: u8 = 1;

/// Flag of a head: the message was sent.
const SENT: u8 = 1;
/// Flag of a head: the broker publishes the message.
const OF_BROKER: u8 = 2;

/// A reader of the sets of partitions in a head.
type ReadGot = fn(&mut WireReader<'_>) -> Result<Got, WireError>;

/// A message under way to other nodes.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingMessage {
    /// The client that it is of, or about; its partition decides which node publishes it.
    pub(crate) client_id: Box<str>,
    /// True if the broker publishes it, as a receipt: it is about the client.
    pub(crate) is_of_broker: bool,
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
    pub(crate) fn cost(&self) -> u64 {
        self.message.cost() + (size_of::<Self>() + self.client_id.len()) as u64
    }

    pub(crate) fn write_head(&self, out: &mut Vec<u8>) {
        out.put_u16(self.message.tenant.0);
        out.put_bytes(self.client_id.as_bytes());
        out.put_u8((u8::from(self.sent.is_some()) * SENT) | (u8::from(self.is_of_broker) * OF_BROKER));
        if let Some((name, covered)) = self.sent {
            name.write(out);
            covered.write(out);
        }
    }

    /// Reads the head of a stored message. A message that another process has sent is sent again.
    pub(crate) fn read_head(reader: &mut WireReader<'_>) -> Result<OutgoingHead, WireError> {
        Self::read_head_with(reader, Got::read)
    }

    fn read_head_with(reader: &mut WireReader<'_>, read_got: ReadGot) -> Result<OutgoingHead, WireError> {
        let tenant = TenantId(reader.u16("a tenant")?);
        let client_id = reader.text("a client id")?.into();
        let flags = reader.u8("whether it was sent")?;
        if flags & !(SENT | OF_BROKER) != 0 {
            return Err(WireError { reading: "known flags of an outgoing message" });
        }
        let sent = (flags & SENT != 0).then(|| Ok((ExchangeName::read(reader)?, read_got(reader)?))).transpose()?;
        Ok(OutgoingHead { tenant, client_id, is_of_broker: flags & OF_BROKER != 0, sent })
    }
}

/// The head of a stored message.
pub(crate) struct OutgoingHead {
    pub(crate) tenant: TenantId,
    client_id: Box<str>,
    is_of_broker: bool,
    sent: Option<(ExchangeName, Got)>,
}

impl OutgoingHead {
    pub(crate) fn with(self, message: MessageRef) -> OutgoingMessage {
        let Self { client_id, is_of_broker, sent, .. } = self;
        OutgoingMessage { client_id, is_of_broker, message, sent, ticket: None, waits: 0 }
    }
}

/// All outgoing messages of a shard, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) by_number: BTreeMap<u64, OutgoingMessage>,
    /// The message of each ticket that is open.
    pub(crate) by_ticket: BTreeMap<u64, u64>,
    pub(crate) next_ticket: u64,
    /// Numbers for messages that are not stored.
    pub(crate) next_number: u64,
    pub(crate) bytes: u64,
    /// True if this process has known the interest of all other nodes of its table.
    pub(crate) has_met_nodes: bool,
}

/// Reads the client whose message is stored.
pub(crate) fn client_of_outgoing(value: &[u8]) -> Result<(TenantId, Box<str>), WireError> {
    let mut reader = WireReader::new(value);
    let head = read_stored_head(&mut reader)?;
    Ok((head.tenant, head.client_id))
}

/// Reads a stored value.
pub(crate) fn read_outgoing(value: &[u8], now: Now) -> Result<OutgoingMessage, WireError> {
    let mut reader = WireReader::new(value);
    let head = read_stored_head(&mut reader)?;
    let message = read_stored_message(&mut reader, now, head.tenant)?;
    Ok(head.with(message))
}

/// The client, the topic and the size of a stored value, in words.
pub(crate) fn describe_outgoing(value: &[u8], now: Now) -> Result<String, WireError> {
    let it = read_outgoing(value, now)?;
    let (topic, bytes) = (it.message.topic(), it.message.payload().len());
    let state = if it.sent.is_some() { "sent" } else { "held" };
    let kind = if it.is_of_broker { "receipt about" } else { "will of" };
    Ok(format!("a {kind} {:?}: {topic:?}, {bytes} bytes, {state}", it.client_id))
}

/// Reads the version and the head of a stored value.
fn read_stored_head(reader: &mut WireReader<'_>) -> Result<OutgoingHead, WireError> {
    let read_got: ReadGot = match reader.u8("a version")? {
        OUTGOING_VERSION | VERSION_OF_WILLS => Got::read,
        VERSION_OF_64_PARTITIONS => Got::read_earlier,
        _ => return Err(WireError { reading: "a value of this version" }),
    };
    OutgoingMessage::read_head_with(reader, read_got)
}

#[cfg(test)]
mod tests {
    use tidegate_mqtt::QoS;

    use crate::message::Publication;
    use crate::now::Millis;
    use crate::records::stored::put_message;

    use super::*;
    use crate::ids::Partitions;

    #[test]
    fn a_sent_message_of_64_partitions_is_read() {
        let name = ExchangeName { origin: 5, number: 7 };
        let message = Publication::new(TenantId::DEFAULT, "a", QoS::ExactlyOnce, false, &[], Millis::NEVER, b"x", 0);
        let mut value = vec![VERSION_OF_64_PARTITIONS];
        value.put_u16(TenantId::DEFAULT.0);
        value.put_bytes(b"client");
        value.put_u8(1);
        name.write(&mut value);
        value.put_u64(1 << 63);
        value.put_u64(1);
        put_message(&mut value, Now::default(), &message);
        let read = read_outgoing(&value, Now::default()).unwrap();
        let of = |place: u16| PartitionId::of_earlier(place).collect::<Partitions>();
        assert_eq!(read.sent, Some((name, Got { sessions: of(63), groups: of(0) })));
        assert_eq!(client_of_outgoing(&value).unwrap().1.as_ref(), "client");
    }
}
