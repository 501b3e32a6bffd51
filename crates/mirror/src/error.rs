//! Errors of the mirror, each with a remedy.

use std::io;

use tidegate_bus::{BusError, LogName, Position};

/// The damage of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The checksum of a record does not fit its bytes.
    #[error("its checksum is wrong")]
    Checksum,
    /// A record of another format.
    #[error("it has format {found}, this version reads {reads}")]
    Format {
        /// That of the record.
        found: u8,
        /// That of this version.
        reads: u8,
    },
    /// A record of an unknown kind.
    #[error("its kind, {0}, is unknown")]
    Kind(u8),
    /// A record ends before its last field.
    #[error("it is too short")]
    TooShort,
    /// A record has bytes behind its last field.
    #[error("it is too long")]
    TooLong,
    /// The name of a file is not UTF-8.
    #[error("a name is not text")]
    NotText,
    /// The name of a file could lead elsewhere.
    #[error("{0:?} is no name of a file")]
    Name(String),
    /// The files of a list, or their parts, are not in order.
    #[error("its files are not in order")]
    Order,
    /// A list has another number of files than the records before it.
    #[error("there are {there} files, {listed} should be")]
    FileCount {
        /// Files by the records.
        there: usize,
        /// Files by the list.
        listed: usize,
    },
    /// A file differs from the list.
    #[error("{0} has unexpected content")]
    Content(String),
    /// A part of a file is missing at the end of the log.
    #[error("{0} is not all there")]
    Lacking(String),
    /// A record is missing.
    #[error("record {next} comes after record {last}")]
    Gap {
        /// The number of the record.
        next: u64,
        /// The number of the previous record.
        last: u64,
    },
    /// Records in front of it are missing, and no list of all files follows.
    #[error("records in front of it are missing")]
    Missing,
    /// The first records are missing.
    #[error("its beginning cannot be read")]
    Beginning,
}

/// Why a mirror could not be opened. The attempt left the log unchanged, except for a claim.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// A request to the bus failed.
    #[error("the files of {log} on the bus cannot be used: {source}")]
    Bus {
        /// The log.
        log: LogName,
        /// The error of the bus.
        source: BusError,
    },
    /// The directory of the working copy cannot be used.
    #[error("the working copy cannot be used: {0}")]
    Local(#[from] io::Error),
    /// Another process uses the directory.
    #[error("the working copy is in use by {}; stop it first", holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    Locked {
        /// The process that says so.
        holder: Option<u32>,
    },
    /// Another process claims the log again and again.
    #[error("another process keeps acquiring {log}: two nodes have this name; give one of them another name")]
    Contended {
        /// The log.
        log: LogName,
    },
    /// The log has less than it had confirmed.
    #[error(
        "{log} has lost confirmed records: the working copy has seen position {seen}, and the log ends at {end}; bring the \
         servers' data back. If that cannot be done, remove the log on the servers: the node then fills it from its directory"
    )]
    Behind {
        /// The log.
        log: LogName,
        /// Up to where the copy had seen it.
        seen: Position,
        /// The end of the log now.
        end: Position,
    },
    /// A record is damaged, or records are missing.
    #[error(
        "{log} is damaged at position {position}: {damage}; bring the servers' data back. If that cannot be done, remove the log on the servers: \
         a node with its data directory then fills it from there"
    )]
    Damaged {
        /// The log.
        log: LogName,
        /// The position in the log.
        position: Position,
        /// The damage.
        damage: Damage,
    },
    /// The log was to be filled from a directory, and that was not done.
    #[error("{log} was never filled to its end; start the node once with the data directory that it was filled from")]
    Unfinished {
        /// The log.
        log: LogName,
    },
    /// The owner of the log writes or trims it in each attempt to read it.
    #[error("the owner of {log} changes it while it is read: {last}; try again")]
    Changing {
        /// The log.
        log: LogName,
        /// Why the last attempt failed.
        last: String,
    },
    /// The directory holds a store that is not a copy of this log.
    #[error(
        "the directory holds a store that is not a copy of {log}; move the directory away to fetch the store from the bus, or give the node another name"
    )]
    Foreign {
        /// The log.
        log: LogName,
    },
    /// The directory is the copy of another log.
    #[error(
        "the directory is the working copy of {found}, not of {log}; give the node its name back, or another directory"
    )]
    OtherLog {
        /// The requested log.
        log: LogName,
        /// The log that it is a copy of.
        found: String,
    },
    /// The mirror was lost while it was opened.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Why writes fail for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Another process owns the log: it continues from the records confirmed so far.
    #[error("another process has taken {0}: it continues from the records confirmed here, and no more are accepted")]
    Fenced(LogName),
    /// The bus has less than it had confirmed.
    #[error("{log} lost confirmed records up to position {seen}; restart the node: its error lists the repairs")]
    Behind {
        /// The log.
        log: LogName,
        /// Up to where it had confirmed.
        seen: Position,
    },
    /// The mirror was closed.
    #[error("the mirror was closed")]
    Closed,
}

impl Lost {
    /// The error for the store.
    pub(crate) fn to_io(&self) -> io::Error {
        match self {
            Self::Fenced(_) | Self::Behind { .. } => tidegate_store::Fenced::error(self.to_string()),
            Self::Closed => io::Error::other(self.clone()),
        }
    }
}
