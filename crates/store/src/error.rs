//! Errors of the store, each with a remedy.

use std::io;

use crate::state::State;

/// The disk reports that another process owns its files, and that no write here will ever succeed. The store then
/// serves reads, reports no more commits, and does not retry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fenced(String);

impl Fenced {
    /// As an error of a write or a sync. The text says who has the files.
    pub fn error(text: impl Into<String>) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, Self(text.into()))
    }

    /// Whether an error says so.
    pub(crate) fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

/// The remedy of a file that the operating system does not read.
fn remedy_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "run the command as the user of the broker",
        io::ErrorKind::OutOfMemory => "allow the process more memory (`ulimit -v`)",
        io::ErrorKind::IsADirectory => "a directory has the name of this file",
        _ => "look at the system's log for a failing disk",
    }
}

/// The remedy of a file that the operating system does not write, behind the error.
pub(crate) fn write_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => "; allow the process larger files (`ulimit -f`)",
        io::ErrorKind::OutOfMemory => "; allow the process more memory (`ulimit -v`)",
        _ => "",
    }
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The disk refused.
    #[error("cannot read {file}: {source}; {}", remedy_of(.source))]
    Io {
        /// The file's name in the store's directory.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The bytes differ from those written.
    #[error(
        "{file} is damaged at byte {offset}: {damage}; `tidegate store check DIR` lists all damage, \
         `tidegate store export --salvage DIR` saves what can be read"
    )]
    Damaged {
        /// The file's name in the store's directory.
        file: String,
        /// The offset of the damage, bytes from the beginning of the file.
        offset: u64,
        /// A description of the damage.
        damage: String,
    },
    /// A file that belongs to the store is not there.
    #[error(
        "{file} is missing; put it back, or save the rest with `tidegate store export --salvage DIR` \
         and import it into an empty directory"
    )]
    Missing {
        /// The file's name in the store's directory.
        file: String,
    },
    /// The file was written by another version.
    #[error(
        "{file} has format {found}, this version reads {supported}; export it with the version that wrote it \
         and import it into an empty directory"
    )]
    Version {
        /// The file's name in the store's directory.
        file: String,
        /// The format that the file says it has.
        found: u32,
        /// The format that this version reads and writes.
        supported: u32,
    },
    /// More loads wait than `max_waiting_loads` allows.
    #[error("too many loads are waiting; try again when one has completed")]
    Busy,
    /// The store has been stopped.
    #[error("the store has been stopped")]
    Stopped,
}

/// Why a store could not be opened. The attempt changed nothing that would make a second attempt worse.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("the store is in use by {}; stop it, or take another directory", holder_text(.holder.as_ref()))]
    Locked {
        /// The process that says it holds the store.
        holder: Option<u32>,
    },
    /// The directory cannot be written.
    #[error("cannot write into the store's directory: {source}; give its owner write permission, or take another one")]
    ReadOnly {
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is no room for the few files of an empty store.
    #[error("no space is left for the store ({file}): {source}; free some space or take another disk")]
    NoSpace {
        /// The file that could not be written.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {file}: {source}{}", write_remedy(.source))]
    Write {
        /// The file's name in the store's directory.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// No write here will ever succeed.
    #[error("the store is another process's now: {0}")]
    Fenced(String),
    /// A file could not be read, is missing or damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
}

fn holder_text(holder: Option<&u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl OpenError {
    /// The state of a running store after this error; takes a text.
    pub(crate) fn state(&self) -> fn(String) -> State {
        match self {
            Self::NoSpace { .. } => |_| State::Full,
            Self::Fenced(_) => State::Fenced,
            _ => State::Failing,
        }
    }

    /// The error for a failed write.
    pub(crate) fn writing(file: &str, source: io::Error) -> Self {
        let file = file.to_owned();
        if Fenced::is_in(&source) {
            return Self::Fenced(source.to_string());
        }
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { file, source },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { source },
            _ => Self::Write { file, source },
        }
    }
}

impl ReadError {
    /// The error for a failed read; a file that does not exist is reported as missing.
    pub(crate) fn reading(file: &str, source: io::Error) -> Self {
        let file = file.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { file },
            _ => Self::Io { file, source },
        }
    }

    /// Damage at a place.
    pub(crate) fn damaged(file: &str, offset: u64, damage: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), offset, damage: damage.into() }
    }
}

/// Why a batch was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The payload is not a sequence of operations.
    #[error(transparent)]
    Malformed(#[from] crate::OperationError),
    /// The batch is larger than a frame of the journal can be.
    #[error("a batch of {0} bytes is larger than 1073741824; hand it in as several")]
    TooLarge(usize),
    /// The store has been stopped.
    #[error("the store has been stopped")]
    Stopped,
}

/// Puts the path of the store's directory into a message of the store, in place of `DIR`: the store does not know its
/// path, and a command in the message can be copied afterwards.
pub fn with_directory(message: &str, directory: &str) -> String {
    message.replace(" DIR", &format!(" {directory}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_file_is_named_with_its_remedy() {
        let shown = |kind: io::ErrorKind| ReadError::reading("LOCK", kind.into()).to_string();
        assert!(shown(io::ErrorKind::PermissionDenied).ends_with("; run the command as the user of the broker"));
        assert!(shown(io::ErrorKind::IsADirectory).ends_with("; a directory has the name of this file"));
        assert!(shown(io::ErrorKind::OutOfMemory).ends_with("; allow the process more memory (`ulimit -v`)"));
        assert!(shown(io::ErrorKind::Other).contains("failing disk"));
    }

    #[test]
    fn a_file_that_is_too_large_is_named_with_its_remedy() {
        let shown = OpenError::writing("0000000000000001.journal", io::ErrorKind::FileTooLarge.into()).to_string();
        assert!(shown.ends_with("; allow the process larger files (`ulimit -f`)"), "{shown}");
    }
}
