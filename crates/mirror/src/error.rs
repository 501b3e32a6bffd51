//! What can go wrong, and what to do about it.

use std::io;

use tidegate_bus::{BusError, LogName, Position};

/// Why a mirror could not be opened. What is on the bus was not changed, but for a claim.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The bus did not do what it was asked.
    #[error("the files of {log} on the bus cannot be used: {source}")]
    Bus {
        /// Which log.
        log: LogName,
        /// What the bus said.
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
    #[error(
        "another process takes {log} as often as this one does; two nodes have this name: give one of them another name"
    )]
    Contended {
        /// Which log.
        log: LogName,
    },
    /// The log has less than it had confirmed.
    #[error(
        "{log} has lost a part of what it had confirmed: the working copy has seen position {seen}, and the log ends at {end}; bring the \
         servers' data back. If that cannot be done, remove the log on the servers: the node then fills it from its directory"
    )]
    Behind {
        /// Which log.
        log: LogName,
        /// Up to where the copy had seen it.
        seen: Position,
        /// Where it ends now.
        end: Position,
    },
    /// A record is not what was written, or some are missing.
    #[error(
        "{log} is damaged at position {position}: {what}; bring the servers' data back. If that cannot be done, remove the log on the servers: \
         a node with its data directory then fills it from there"
    )]
    Damaged {
        /// Which log.
        log: LogName,
        /// Where.
        position: Position,
        /// What was found.
        what: String,
    },
    /// The log was to be filled from a directory, and that was not done.
    #[error("{log} was never filled to its end; start the node once with the data directory that it was filled from")]
    Unfinished {
        /// Which log.
        log: LogName,
    },
    /// The directory holds a store that is not a copy of this log.
    #[error(
        "the directory holds a store that is no copy of {log}; move the directory away to take what the bus has, or give the node another name"
    )]
    Foreign {
        /// Which log.
        log: LogName,
    },
    /// The directory is the copy of another log.
    #[error(
        "the directory is the working copy of {found}, not of {log}; give the node its name back, or another directory"
    )]
    OtherLog {
        /// Which log was asked for.
        log: LogName,
        /// Which one it is a copy of.
        found: String,
    },
    /// The mirror was lost while it was opened.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Why nothing can be written any more, for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Another process has taken the place: what it found is all that was confirmed here.
    #[error("another process has taken {0}: it goes on from what was confirmed here, and nothing more is")]
    Fenced(LogName),
    /// The bus has less than it had confirmed.
    #[error(
        "{log} has lost what it had confirmed up to position {seen}; start the node again, which says what can be done"
    )]
    Behind {
        /// Which log.
        log: LogName,
        /// Up to where it had confirmed.
        seen: Position,
    },
    /// The mirror was closed.
    #[error("the mirror was closed")]
    Closed,
}

impl Lost {
    /// As the store is told.
    pub(crate) fn to_io(&self) -> io::Error {
        match self {
            Self::Fenced(_) | Self::Behind { .. } => tidegate_store::Fenced::error(self.to_string()),
            Self::Closed => io::Error::other(self.clone()),
        }
    }
}
