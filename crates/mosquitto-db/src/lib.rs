//! Reads the file in which Mosquitto keeps its state, `mosquitto.db`, and makes entries of a store of ours of it.
//!
//! Versions 5 (Mosquitto 1.6) and 6 (Mosquitto 2.0) are supported. Sizes are big-endian; message ids and times are
//! little-endian, as Mosquitto writes them on every processor that Tidegate runs on. The crate reads no file.

mod cursor;
mod entries;
mod records;

pub use entries::{Entries, entries};

use std::collections::BTreeMap;

use tidegate_mqtt::QoS;

use cursor::Cursor;
use records::{Message, Record};

/// The first bytes of a file.
const MAGIC: &[u8; 15] = b"\x00\xb5\x00mosquitto db";
/// The versions that are read.
const VERSIONS: std::ops::RangeInclusive<u32> = 5..=6;

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// The file begins with other bytes.
    #[error("this is no mosquitto.db")]
    NoDatabase,
    /// The file is of an old or an unknown Mosquitto.
    #[error(
        "version {0} of mosquitto.db is not read, only 5 and 6; start and stop Mosquitto 2.0 with it, and try again"
    )]
    Version(u32),
    /// The file ends within a record, or a record contradicts itself.
    #[error("the file is damaged at byte {at}: {damage}")]
    Damaged {
        /// The offset of the record.
        at: usize,
        /// The fault.
        damage: &'static str,
    },
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client id.
    pub id: String,
    /// The user name of its last connection; empty for none.
    pub username: String,
    /// How long the session outlives a connection, seconds; `u32::MAX` is for ever.
    pub expiry_interval: u32,
    /// When the session expires, seconds since 1970; 0 if it was connected when the file was written, or never expires.
    pub expires_at: u64,
}

/// A subscription of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The client id of the session.
    pub client_id: String,
    /// The topic filter.
    pub filter: String,
    /// The greatest QoS of its messages.
    pub qos: QoS,
    /// The Subscription Identifier; 0 for none.
    pub identifier: u32,
    /// No Local.
    pub no_local: bool,
    /// Retain As Published.
    pub retain_as_published: bool,
}

/// A retained message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The topic.
    pub topic: String,
    /// The QoS that it was published with.
    pub qos: QoS,
    /// The payload.
    pub payload: Vec<u8>,
    /// Its properties, as a PUBLISH of MQTT 5 encodes them without their length.
    pub properties: Vec<u8>,
    /// When it expires, seconds since 1970; 0 for never.
    pub expires_at: u64,
}

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    /// The sessions, in the order of the file.
    pub clients: Vec<Client>,
    /// The subscriptions, in the order of the file.
    pub subscriptions: Vec<Subscription>,
    /// The retained messages, in the order of the file.
    pub retained: Vec<Retained>,
    /// Messages that wait for clients; they are counted and not read.
    pub queued: usize,
}

/// Reads a file.
///
/// # Errors
///
/// When it is not a `mosquitto.db`, of another version, or damaged. Content before the damage is not returned, since it
/// would look like the whole state.
pub fn read(bytes: &[u8]) -> Result<Database, DatabaseError> {
    let mut cursor = Cursor::new(bytes);
    if cursor.take(MAGIC.len(), "the head")? != MAGIC {
        return Err(DatabaseError::NoDatabase);
    }
    let _checksum = cursor.u32("the head")?;
    let version = cursor.u32("the head")?;
    if !VERSIONS.contains(&version) {
        return Err(DatabaseError::Version(version));
    }
    let mut database = Database::default();
    let mut messages: BTreeMap<u64, Message> = BTreeMap::new();
    while !cursor.is_empty() {
        match records::next(&mut cursor, version)? {
            Record::Message(id, message) => drop(messages.insert(id, message)),
            Record::Client(client) => database.clients.push(client),
            Record::Subscription(subscription) => database.subscriptions.push(subscription),
            Record::Retained(id) => {
                let message = messages.get(&id).ok_or(DatabaseError::Damaged {
                    at: cursor.at(),
                    damage: "a retained message is not in the file",
                })?;
                database.retained.push(message.retained());
            }
            Record::Queued => database.queued += 1,
            Record::Other => {}
        }
    }
    Ok(database)
}
