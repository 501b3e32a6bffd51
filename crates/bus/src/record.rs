//! Records, and the numbers that say which is meant.

use std::fmt;

use bytes::Bytes;

/// Longest key, bytes: a key is part of a subject on NATS. The caller hashes longer ones.
pub(crate) const MAX_KEY_BYTES: usize = 1_024;
/// Most headers of a record.
pub(crate) const MAX_HEADERS: usize = 64;
/// Most bytes of the names and values of all headers of a record: NATS takes 64 KiB, including the headers that the bus
/// adds.
pub(crate) const MAX_HEADER_BYTES: usize = 32_768;

/// One part of a log, which has an order of its own: 0 to one less than the log's number of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The position of a record in its partition. Positions ascend and are never used twice; there are gaps between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Before everything: reading from here gives all that there is.
    pub const START: Self = Self(0);

    /// The position after this one, to read on from.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The owner of a partition of a fenced log: the position of the claim. All records of earlier owners are before it, none
/// after, so an owner that has read up to it has seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub Position);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name and a value beside the payload. Names are ASCII letters, digits, `-` and `_` and do not begin with `Nats-` or
/// `Tidegate-`; values are UTF-8 without control characters and without space at either end. At most 64 to a record,
/// and 32,768 bytes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name; several headers may have the same one.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Header {
    pub(crate) fn size(&self) -> usize {
        self.name.len() + self.value.len()
    }

    /// Whether every backend can carry it as it is.
    pub(crate) fn is_valid(&self) -> bool {
        let lower = self.name.to_ascii_lowercase();
        let bytes_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=128).contains(&self.name.len())
            && self.name.bytes().all(bytes_fit)
            && !lower.starts_with("nats-")
            && !lower.starts_with("tidegate-")
            && !self.value.chars().any(char::is_control)
            && self.value.trim() == self.value
    }
}

/// A record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The subject of the record, at most 1,024 bytes; may be empty except where a log keeps the latest of each key.
    pub key: Bytes,
    /// Names and values beside the payload.
    pub headers: Vec<Header>,
    /// The content. In a log that keeps the latest of each key, an empty payload removes the key.
    pub payload: Bytes,
    /// The writer, in a fenced log; nothing in others.
    pub epoch: Option<Epoch>,
}

impl Append {
    /// A record of nothing but a payload.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { key: Bytes::new(), headers: Vec::new(), payload: payload.into(), epoch: None }
    }

    /// With a key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = key.into();
        self
    }

    /// With one more header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push(Header { name: name.into(), value: value.into() });
        self
    }

    /// By the owner with this epoch.
    #[must_use]
    pub fn by(mut self, epoch: Epoch) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// Bytes of key, headers and payload.
    pub fn size(&self) -> usize {
        size(&self.key, &self.headers, &self.payload)
    }
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its position.
    pub position: Position,
    /// As it was appended; may be empty.
    pub key: Bytes,
    /// As they were appended, in order.
    pub headers: Vec<Header>,
    /// As it was appended; empty where a key was removed.
    pub payload: Bytes,
}

impl Record {
    /// Bytes of key, headers and payload.
    pub fn size(&self) -> usize {
        size(&self.key, &self.headers, &self.payload)
    }
}

fn size(key: &[u8], headers: &[Header], payload: &[u8]) -> usize {
    let headers: usize = headers.iter().map(Header::size).sum();
    key.len() + headers + payload.len()
}
