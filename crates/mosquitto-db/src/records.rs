//! The records of a file: a kind, a length, and fields whose layout the version decides.

use tidegate_mqtt::QoS;

use crate::cursor::Cursor;
use crate::{Client, DatabaseError, Retained, Subscription};

/// The first version whose sessions have a user name.
const WITH_USERNAME: u32 = 6;
const NO_LOCAL: u8 = 0x04;
const RETAIN_AS_PUBLISHED: u8 = 0x08;

/// A message of the file; retained messages and queues refer to it.
pub(crate) struct Message {
    topic: String,
    qos: QoS,
    payload: Vec<u8>,
    properties: Vec<u8>,
    expires_at: u64,
}

impl Message {
    pub(crate) fn retained(&self) -> Retained {
        let Self { topic, qos, payload, properties, expires_at } = self;
        let (topic, payload, properties) = (topic.clone(), payload.clone(), properties.clone());
        Retained { topic, qos: *qos, payload, properties, expires_at: *expires_at }
    }
}

pub(crate) enum Record {
    /// A message with its id.
    Message(u64, Message),
    Client(Client),
    Subscription(Subscription),
    /// The id of a message that is retained.
    Retained(u64),
    /// A message that waits for a client.
    Queued,
    /// Mosquitto's own counters, or a kind of a later release.
    Other,
}

/// Reads the next record.
pub(crate) fn next(cursor: &mut Cursor<'_>, version: u32) -> Result<Record, DatabaseError> {
    let kind = cursor.u32("a record has no kind")?;
    let length = cursor.u32("a record has no length")?;
    let mut record = cursor.part(length as usize, "a record is longer than the file")?;
    match kind {
        2 => message(&mut record),
        3 => Ok(Record::Queued),
        4 => record.u64("a retained message has no id").map(Record::Retained),
        5 => subscription(&mut record),
        6 => client(&mut record, version),
        _ => Ok(Record::Other),
    }
}

fn message(record: &mut Cursor<'_>) -> Result<Record, DatabaseError> {
    const WHAT: &str = "a message is cut off";
    let id = record.u64(WHAT)?;
    let expires_at = record.u64(WHAT)?;
    let payload = record.u32(WHAT)?;
    let _packet_id = record.u16(WHAT)?;
    let source = record.u16(WHAT)?;
    let username = record.u16(WHAT)?;
    let topic = record.u16(WHAT)?;
    let _port = record.u16(WHAT)?;
    let qos = qos(record)?;
    let _retain = record.u8(WHAT)?;
    record.take(usize::from(source) + usize::from(username), WHAT)?;
    let topic = record.text(topic, WHAT)?;
    let payload = record.take(payload as usize, WHAT)?.to_vec();
    let properties = properties(record)?;
    Ok(Record::Message(id, Message { topic, qos, payload, properties, expires_at }))
}

/// The properties behind a payload, if there are any: a length of one to four bytes, and themselves.
fn properties(record: &mut Cursor<'_>) -> Result<Vec<u8>, DatabaseError> {
    const WHAT: &str = "the properties of a message are cut off";
    if record.is_empty() {
        return Ok(Vec::new());
    }
    let mut length = 0;
    for shift in [0, 7, 14, 21] {
        let byte = record.u8(WHAT)?;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let properties = record.rest();
    if properties.len() == length {
        Ok(properties.to_vec())
    } else {
        Err(DatabaseError::Damaged { at: record.at(), damage: WHAT })
    }
}

fn client(record: &mut Cursor<'_>, version: u32) -> Result<Record, DatabaseError> {
    const WHAT: &str = "a session is cut off";
    let expires_at = record.u64(WHAT)?;
    let expiry_interval = record.u32(WHAT)?;
    let _packet_id = record.u16(WHAT)?;
    let id = record.u16(WHAT)?;
    let username = if version >= WITH_USERNAME {
        let _port = record.u16(WHAT)?;
        let username = record.u16(WHAT)?;
        let _padding = record.u32(WHAT)?;
        username
    } else {
        0
    };
    let id = record.text(id, WHAT)?;
    let username = record.text(username, WHAT)?;
    Ok(Record::Client(Client { id, username, expiry_interval, expires_at }))
}

fn subscription(record: &mut Cursor<'_>) -> Result<Record, DatabaseError> {
    const WHAT: &str = "a subscription is cut off";
    let identifier = record.u32(WHAT)?;
    let client_id = record.u16(WHAT)?;
    let filter = record.u16(WHAT)?;
    let qos = qos(record)?;
    let options = record.u8(WHAT)?;
    let _padding = record.u16(WHAT)?;
    let client_id = record.text(client_id, WHAT)?;
    let filter = record.text(filter, WHAT)?;
    let (no_local, retain_as_published) = (options & NO_LOCAL != 0, options & RETAIN_AS_PUBLISHED != 0);
    Ok(Record::Subscription(Subscription { client_id, filter, qos, identifier, no_local, retain_as_published }))
}

fn qos(record: &mut Cursor<'_>) -> Result<QoS, DatabaseError> {
    let at = record.at();
    match record.u8("a QoS is missing")? {
        0 => Ok(QoS::AtMostOnce),
        1 => Ok(QoS::AtLeastOnce),
        2 => Ok(QoS::ExactlyOnce),
        _ => Err(DatabaseError::Damaged { at, damage: "a QoS is above 2" }),
    }
}
