//! The keys of stored records. Their order is the order in which a store is read: a session before its parts, and
//! messages that several sessions share after all entries that refer to them.

use std::num::NonZeroU64;

use tidegate_mqtt::PacketId;

use crate::ids::{MAX_SHARDS, ShardId, ShardPosition, TenantId};
use crate::link::exchange_word::ExchangeName;
use crate::wire::{WireError, WireReader};

/// Longest topic or filter that a key of the store can hold, bytes.
pub(crate) const STORED_NAME_MAX: usize = 65_000;

const NUMBERS: u8 = 0x08;
const SESSION: u8 = 0x10;
const WILL: u8 = 0x18;
const BODY: u8 = 0x20;
const CROSSING: u8 = 0x28;
const OUTGOING: u8 = 0x2a;
const MARK: u8 = 0x2c;
const RETAINED: u8 = 0x30;
const ARRIVAL: u8 = 0x32;
const PASSED: u8 = 0x34;
const GROUP: u8 = 0x36;
/// Keys from here on are not the engine's: the embedding program may use them.
const FOREIGN: u8 = 0x80;

const HEAD: u8 = 0;
const SUBSCRIPTION: u8 = 1;
const RECEIVED: u8 = 2;
const ENTRY: u8 = 3;
const SENT: u8 = 4;
const SEEN: u8 = 5;
const REFUSED: u8 = 6;

/// The number of a stored session, never used twice within one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoredSession(pub NonZeroU64);

impl StoredSession {
    /// The session with a number, unless this is 0.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }
}

/// The record of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    /// The bound of the numbers of sessions and shared messages that a shard may have given out.
    Numbers(ShardId),
    /// The session itself.
    Session(StoredSession),
    /// One of its subscriptions, by its filter as the client gave it.
    Subscription(StoredSession, &'a str),
    /// A packet id of a QoS 2 message that its client has sent and not released.
    Received(StoredSession, PacketId),
    /// A message of its queue, by its number.
    Entry(StoredSession, u64),
    /// How far that message has come, where the entry does not say it.
    Sent(StoredSession, u64),
    /// The id of a message that came to a broker link, by its place in a ring of the last ones.
    Seen(StoredSession, u16),
    /// A packet id under which a QoS 2 message was refused after it was routed.
    Refused(StoredSession, PacketId),
    /// The will of a client whose session ends with its connection, by a number of a session.
    Will(StoredSession),
    /// A message that several entries refer to.
    Body(u64),
    /// A message on its way from one shard to others.
    Crossing(u64),
    /// Such a message has arrived at a shard, with the number of shards.
    Crossed(u64, ShardPosition),
    /// A message that this node owes to all nodes and that no client sends again.
    Outgoing(u64),
    /// The receivers of another node's QoS 2 message that a shard knows of.
    Mark(ExchangeName, ShardId),
    /// The retained message of a topic.
    Retained(TenantId, &'a str),
    /// The messages known to partitions that have arrived from another home, by the number of their arrival.
    Arrival(u64),
    /// The arrived partitions to which the message of this origin and number was passed on.
    Passed(u64, u64),
    /// A shared group whose messages an orchestrator deals, as `SHARE/FILTER`.
    Group(TenantId, &'a str),
    /// Not the engine's.
    Foreign,
}

impl Key<'_> {
    /// Appends the key.
    #[inline]
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Numbers(shard) => {
                out.push(NUMBERS);
                out.extend_from_slice(&shard.0.to_be_bytes());
            }
            Self::Session(session) => put_session(out, *session, HEAD),
            Self::Subscription(session, filter) => {
                put_session(out, *session, SUBSCRIPTION);
                out.extend_from_slice(filter.as_bytes());
            }
            Self::Received(session, id) => {
                put_session(out, *session, RECEIVED);
                out.extend_from_slice(&id.get().to_be_bytes());
            }
            Self::Entry(session, number) => {
                put_session(out, *session, ENTRY);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Sent(session, number) => {
                put_session(out, *session, SENT);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Seen(session, place) => {
                put_session(out, *session, SEEN);
                out.extend_from_slice(&place.to_be_bytes());
            }
            Self::Refused(session, id) => {
                put_session(out, *session, REFUSED);
                out.extend_from_slice(&id.get().to_be_bytes());
            }
            Self::Will(session) => put_number(out, WILL, session.0.get()),
            Self::Body(number) => put_number(out, BODY, *number),
            Self::Crossing(number) => put_number(out, CROSSING, *number),
            Self::Outgoing(number) => put_number(out, OUTGOING, *number),
            Self::Crossed(number, place) => {
                put_number(out, CROSSING, *number);
                out.extend_from_slice(&place.shards.to_be_bytes());
                out.extend_from_slice(&place.shard.0.to_be_bytes());
            }
            Self::Mark(name, shard) => {
                put_number(out, MARK, name.origin);
                out.extend_from_slice(&name.number.to_be_bytes());
                out.extend_from_slice(&shard.0.to_be_bytes());
            }
            Self::Retained(tenant, topic) => put_text(out, RETAINED, *tenant, topic),
            Self::Group(tenant, name) => put_text(out, GROUP, *tenant, name),
            Self::Arrival(number) => put_number(out, ARRIVAL, *number),
            Self::Passed(origin, number) => {
                put_number(out, PASSED, *origin);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Foreign => out.push(FOREIGN),
        }
    }

    /// Reads a key.
    ///
    /// # Errors
    /// When this version writes no such key.
    pub(crate) fn read(key: &[u8]) -> Result<Key<'_>, WireError> {
        let mut reader = WireReader::new(key);
        let read = match reader.u8("a key")? {
            NUMBERS => Key::Numbers(ShardId(u16::from_be_bytes(reader.array("a shard")?))),
            SESSION => return Key::read_session(&mut reader),
            WILL => Key::Will(StoredSession::read_key(&mut reader)?),
            BODY => Key::Body(number(reader.array("a number")?)),
            OUTGOING => Key::Outgoing(number(reader.array("a number")?)),
            CROSSING => return Key::read_crossing(&mut reader),
            MARK => {
                let name = ExchangeName {
                    origin: number(reader.array("a number")?),
                    number: number(reader.array("a number")?),
                };
                Key::Mark(name, ShardId(u16::from_be_bytes(reader.array("a shard")?)))
            }
            RETAINED => {
                let tenant = TenantId(u16::from_be_bytes(reader.array("a tenant")?));
                return Ok(Key::Retained(tenant, rest_text(&mut reader, "a topic name")?));
            }
            GROUP => {
                let tenant = TenantId(u16::from_be_bytes(reader.array("a tenant")?));
                return Ok(Key::Group(tenant, rest_text(&mut reader, "a shared group")?));
            }
            ARRIVAL => Key::Arrival(number(reader.array("a number")?)),
            PASSED => Key::Passed(number(reader.array("a number")?), number(reader.array("a number")?)),
            other if other >= FOREIGN => return Ok(Key::Foreign),
            _ => return Err(WireError { reading: "a key of this version" }),
        };
        if reader.is_empty() { Ok(read) } else { Err(WireError { reading: "the end of a key" }) }
    }
}

/// From the first entry behind `number` of a session to behind its last: the range of a part of its queue.
pub(crate) fn entries_from(session: StoredSession, number: u64) -> (Vec<u8>, Vec<u8>) {
    let mut from = Vec::new();
    Key::Entry(session, number).write(&mut from);
    let mut to = Vec::new();
    put_session(&mut to, session, ENTRY + 1);
    (from, to)
}

#[inline]
fn put_session(out: &mut Vec<u8>, session: StoredSession, part: u8) {
    let mut head = [0; 10];
    head[0] = SESSION;
    head[1..9].copy_from_slice(&session.0.get().to_be_bytes());
    head[9] = part;
    out.extend_from_slice(&head);
}

fn put_number(out: &mut Vec<u8>, space: u8, number: u64) {
    out.push(space);
    out.extend_from_slice(&number.to_be_bytes());
}

fn put_text(out: &mut Vec<u8>, space: u8, tenant: TenantId, text: &str) {
    out.push(space);
    out.extend_from_slice(&tenant.0.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

const fn number(bytes: [u8; 8]) -> u64 {
    u64::from_be_bytes(bytes)
}

fn rest_text<'a>(reader: &mut WireReader<'a>, reading: &'static str) -> Result<&'a str, WireError> {
    std::str::from_utf8(reader.rest()).map_err(|_| WireError { reading })
}

impl<'a> Key<'a> {
    /// Reads a key of [`CROSSING`] behind its space.
    fn read_crossing(reader: &mut WireReader<'a>) -> Result<Self, WireError> {
        let crossing = number(reader.array("a number")?);
        if reader.is_empty() {
            return Ok(Self::Crossing(crossing));
        }
        let shards = u16::from_be_bytes(reader.array("a number of shards")?);
        let shard = u16::from_be_bytes(reader.array("a shard")?);
        if shards > MAX_SHARDS || shard >= shards || !reader.is_empty() {
            return Err(WireError { reading: "a shard and the number of shards" });
        }
        Ok(Self::Crossed(crossing, ShardPosition { shard: ShardId(shard), shards }))
    }

    /// Reads a key of [`SESSION`] behind its space.
    fn read_session(reader: &mut WireReader<'a>) -> Result<Self, WireError> {
        let session = StoredSession::read_key(reader)?;
        let read = match reader.u8("a part of a session")? {
            HEAD => Self::Session(session),
            SUBSCRIPTION => return Ok(Self::Subscription(session, rest_text(reader, "a topic filter")?)),
            RECEIVED => Self::Received(session, packet_id(reader.array("a packet id")?)?),
            ENTRY => Self::Entry(session, number(reader.array("a number")?)),
            SENT => Self::Sent(session, number(reader.array("a number")?)),
            REFUSED => Self::Refused(session, packet_id(reader.array("a packet id")?)?),
            SEEN => Self::Seen(session, u16::from_be_bytes(reader.array("a place among ids")?)),
            _ => return Err(WireError { reading: "a part of a session" }),
        };
        if reader.is_empty() { Ok(read) } else { Err(WireError { reading: "the end of a key" }) }
    }
}

impl StoredSession {
    /// Reads the number of a session in a key.
    fn read_key(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let session = NonZeroU64::new(number(reader.array("a number")?));
        session.map(Self).ok_or(WireError { reading: "a session's number" })
    }
}

fn packet_id(bytes: [u8; 2]) -> Result<PacketId, WireError> {
    PacketId::new(u16::from_be_bytes(bytes)).ok_or(WireError { reading: "a packet id" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_as_it_was_written_and_damage_is_refused() {
        let session = StoredSession(NonZeroU64::new(0x0102_0304_0506_0708).unwrap());
        let id = PacketId::new(65_535).unwrap();
        for key in [
            Key::Numbers(ShardId(513)),
            Key::Session(session),
            Key::Subscription(session, "$share/g/a/+/b"),
            Key::Received(session, id),
            Key::Entry(session, u64::MAX),
            Key::Sent(session, 1),
            Key::Seen(session, 513),
            Key::Refused(session, id),
            Key::Will(session),
            Key::Body(7),
            Key::Crossing(8),
            Key::Crossed(8, ShardPosition { shard: ShardId(2), shards: 3 }),
            Key::Outgoing(10),
            Key::Mark(ExchangeName { origin: u64::MAX, number: 9 }, ShardId(3)),
            Key::Retained(TenantId(3), "a/b"),
            Key::Arrival(11),
            Key::Passed(u64::MAX, 12),
            Key::Group(TenantId(3), "g/a/+"),
        ] {
            let mut bytes = Vec::new();
            key.write(&mut bytes);
            assert_eq!(Key::read(&bytes), Ok(key));
            if !matches!(key, Key::Subscription(..) | Key::Retained(..) | Key::Group(..)) {
                bytes.push(0);
                assert!(Key::read(&bytes).is_err(), "{key:?} with a byte more");
                bytes.truncate(bytes.len() - 2);
                assert!(Key::read(&bytes).is_err(), "{key:?} with a byte less");
            }
        }
        assert!(Key::read(&[]).is_err() && Key::read(&[0x7f]).is_err());
        assert_eq!(Key::read(&[0x90, 1, 2]), Ok(Key::Foreign));
    }

    #[test]
    fn a_session_precedes_its_parts_and_its_entries_in_order() {
        let session = |number| StoredSession(NonZeroU64::new(number).unwrap());
        let keys = [
            Key::Numbers(ShardId(7)),
            Key::Session(session(1)),
            Key::Subscription(session(1), "a"),
            Key::Entry(session(1), 255),
            Key::Entry(session(1), 256),
            Key::Sent(session(1), 3),
            Key::Session(session(256)),
            Key::Will(session(2)),
            Key::Body(0),
        ];
        let written: Vec<Vec<u8>> = keys
            .iter()
            .map(|key| {
                let mut bytes = Vec::new();
                key.write(&mut bytes);
                bytes
            })
            .collect();
        assert!(written.is_sorted());
        let (from, to) = entries_from(session(1), 256);
        assert!(written[3] < from && written[4] == from && written[4] < to && to <= written[5]);
    }
}
