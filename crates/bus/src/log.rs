//! The kinds and limits of logs.

use std::fmt;
use std::time::Duration;

use crate::{LogName, Partition, Position};

/// The writers that may append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Every process.
    Many,
    /// In each partition only the newest owner.
    Owner,
}

/// The records that a log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything until it is trimmed.
    All,
    /// Of each key at least the latest record. What removes a key is kept for a while, too.
    LatestOfKey,
}

/// A log as it should be on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSpec {
    /// Its name.
    pub name: LogName,
    /// How many partitions it has, 1 to 4,096; fixed once it was made.
    pub partitions: u32,
    /// The writers that may append.
    pub writers: Writers,
    /// The records that it keeps.
    pub keep: Keep,
    /// Records that a partition may hold; one more is refused with `BusError::Full`.
    pub max_records: u64,
    /// Bytes that a partition may hold; refused as above. Kafka cannot hold to it.
    pub max_bytes: u64,
    /// How long a record is kept, trimmed or not; nothing for as long as there is room. An embedded bus keeps it for
    /// longer. On Kafka the value at the creation of the log stays.
    pub keep_for: Option<Duration>,
}

impl LogSpec {
    /// A log that everybody may append to, such as an inbox.
    pub fn shared(name: LogName, partitions: u32) -> Self {
        let (writers, keep) = (Writers::Many, Keep::All);
        let (max_records, max_bytes, keep_for) = (10_000_000, 256 * 1024 * 1024, None);
        Self { name, partitions, writers, keep, max_records, max_bytes, keep_for }
    }

    /// A log with one owner to a partition, such as a state.
    pub fn fenced(name: LogName, partitions: u32) -> Self {
        Self { writers: Writers::Owner, ..Self::shared(name, partitions) }
    }

    /// Keeps the latest record of each key instead of all.
    #[must_use]
    pub fn latest_of_key(mut self) -> Self {
        self.keep = Keep::LatestOfKey;
        self
    }
}

/// A partition of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogPartition {
    /// The log.
    pub log: LogName,
    /// Its partition.
    pub partition: Partition,
}

impl LogPartition {
    /// A partition of a log.
    pub fn new(log: LogName, partition: u32) -> Self {
        Self { log, partition: Partition(partition) }
    }
}

impl fmt::Display for LogPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.log, self.partition)
    }
}

/// The first and the next position of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The log begins here: earlier records have been trimmed.
    pub first: Position,
    /// All records below this were confirmed at the time of the question; later ones are here or above.
    pub next: Position,
}
