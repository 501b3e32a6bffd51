//! Errors of a bus.

use std::time::Duration;

use crate::{AddressError, Epoch, LogPartition, NameError, Position};

/// The reason of a failed operation on the bus.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The address is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The client cannot be started.
    #[error("the client of the bus cannot be started: {0}")]
    Client(String),
    /// A file with certificates or a key, for TLS.
    #[error("{file} cannot be used for TLS with the bus: {reason}")]
    TlsFile {
        /// The file.
        file: String,
        /// The fault.
        reason: String,
    },
    /// This build has no client for NATS.
    #[error("this build has no client for NATS; take the full program, or build it with the feature `nats`")]
    NoNats,
    /// This build has no client for Kafka.
    #[error("this build has no client for Kafka; build it with `cargo build --release --features kafka`")]
    NoKafka,
    /// This build speaks to Kafka without TLS, and proves passwords only by sending them.
    #[error(
        "this build speaks to Kafka without TLS and SCRAM; build it with `cargo build --release --features kafka-tls`"
    )]
    NoKafkaTls,
    /// Too much waits for the bus. Nothing was sent; try again when something was confirmed.
    #[error("too much waits for the bus ({limit} is {value}); wait for confirmations, or raise the limit")]
    Waiting {
        /// The setting that was reached.
        limit: &'static str,
        /// Its value, in requests or bytes.
        value: usize,
    },
    /// The bus was away for longer than a request may wait. Nothing was stored.
    #[error("the bus did not answer for {waited:?}, the request timeout; check that its servers run: {reason}")]
    Away {
        /// How long the request waited.
        waited: Duration,
        /// The last error of the backend.
        reason: String,
    },
    /// The append was sent and not confirmed in time: it may be stored, or be stored later. Readers have to recognise a
    /// repetition by its contents.
    #[error(
        "an append to {place} was not confirmed within {waited:?}; it may be stored. Repeat it with the same id, which readers recognise"
    )]
    Unconfirmed {
        /// The partition.
        place: LogPartition,
        /// How long the request waited.
        waited: Duration,
    },
    /// The partition is full. Nothing was stored; trim it first.
    #[error("{place} is full ({limit}); trim it, or raise the limit")]
    Full {
        /// The partition.
        place: LogPartition,
        /// The limit that was reached.
        limit: String,
    },
    /// Another owner has the partition, or this ownership ended with an append that failed. Nothing was stored.
    #[error("the owner of {place} with epoch {epoch} was replaced; acquire it again before appending")]
    Fenced {
        /// The partition.
        place: LogPartition,
        /// The epoch of the owner that was refused.
        epoch: Epoch,
    },
    /// A fenced log takes appends of an owner only.
    #[error("{0} takes appends of its owner only; call own first and give the epoch")]
    NoEpoch(LogPartition),
    /// A log that everybody appends to has no owners.
    #[error("{0} has no owner: it takes appends of everybody; leave the epoch out")]
    NotFenced(LogPartition),
    /// The requested records have been trimmed, or the servers have lost the log and it was created again. The present
    /// records can be read from the beginning.
    #[error("{place} was trimmed below {first}; records from {from} on were deleted")]
    Trimmed {
        /// The partition.
        place: LogPartition,
        /// The position to read on at.
        from: Position,
        /// The first position that is left.
        first: Position,
    },
    /// The log was not made by this bus, has fewer partitions, or the servers have lost it.
    #[error("there is no {0}; create the log first, and keep to its number of partitions")]
    Unknown(LogPartition),
    /// The log exists otherwise than it should.
    #[error("log {log} exists with another {difference}; take another name or prefix, or delete it on the servers")]
    Mismatch {
        /// The log.
        log: String,
        /// The difference.
        difference: &'static str,
    },
    /// The record is too large.
    #[error(
        "a record of {bytes} bytes is larger than {max}; split it, or raise max_record_bytes here and on the servers"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Something of the record cannot be carried.
    #[error("this cannot be carried: {0}")]
    Malformed(&'static str),
    /// A number is out of its range.
    #[error("{option} is {value}; it has to be {range}")]
    Range {
        /// The setting.
        option: &'static str,
        /// The value.
        value: u64,
        /// The allowed range.
        range: &'static str,
    },
    /// The servers have no room for a log, which reserves its limit. Nothing was made.
    #[error(
        "the bus has no room for log {log}, which reserves {bytes} bytes; lower its limit, or give the servers more storage (`max_file_store` of NATS)"
    )]
    NoRoom {
        /// The log.
        log: String,
        /// The bytes that a partition of it would reserve.
        bytes: u64,
        /// The bytes that it reserves now, if it is there.
        present: Option<u64>,
    },
    /// The servers refused.
    #[error("the bus refused to {action}: {reason}")]
    Refused {
        /// The refused action.
        action: &'static str,
        /// The servers' reason.
        reason: String,
    },
    /// The directory of an embedded bus cannot be used.
    #[error("the directory of the bus cannot be used: {0}")]
    Directory(String),
    /// The bus was stopped, or is no longer there.
    #[error("the bus has stopped; open it again")]
    Stopped,
}

impl BusError {
    /// Whether an append fails each time that it is tried, because of its content.
    pub fn is_for_good(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Malformed(_))
    }
}

/// Checks that a number is in its range, which is also given as text.
pub(crate) fn in_range(
    option: &'static str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
    text: &'static str,
) -> Result<(), BusError> {
    if range.contains(&value) { Ok(()) } else { Err(BusError::Range { option, value, range: text }) }
}
