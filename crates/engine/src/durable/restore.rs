//! Restores the state from a store, before any client is served.

use super::crossing::Replay;
use super::restoring::Restoring;
use crate::hash::NameHasher;
use crate::ids::SessionKey;
use crate::journal::keys::StoredSession;
use crate::message::MessageRef;
use crate::summed;
use crate::wire::WireError;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

/// The reason why a store was not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// A pair is not of this version, or damaged in a way that its checksum did not show.
    Malformed {
        /// The key, in hexadecimal.
        key: String,
        /// The part that was being read.
        error: WireError,
    },
    /// A part of a session came without the session.
    NoSession {
        /// The session's number.
        session: u64,
    },
    /// Messages that sessions are owed are missing.
    MissingMessages {
        /// How many.
        messages: u64,
    },
}

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed { key, error } => write!(f, "the value of key {key} cannot be read: {error}"),
            Self::NoSession { session } => write!(f, "a part of session {session} is there and the session is not"),
            Self::MissingMessages { messages } => {
                write!(f, "{messages} messages that sessions are owed are missing")
            }
        }
    }
}

impl std::error::Error for RestoreError {}

summed! {
    /// The restored state in numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Restored {
        /// Sessions.
        pub sessions: u64,
        /// Their subscriptions, shared ones included.
        pub subscriptions: u64,
        /// Messages that sessions are owed.
        pub messages: u64,
        /// Retained messages.
        pub retained: u64,
    }
}

/// The barrier behind a restore carries this connection index, which no connection has.
pub(crate) const RESTORING_INDEX: u32 = u32::MAX - 2;

/// Everything that is being taken in.
#[derive(Debug, Default)]
pub(crate) struct Restoration {
    /// The session that is being restored.
    pub(crate) current: Option<(StoredSession, Restoring)>,
    /// A session that was still to come, whose queue is dropped.
    pub(crate) dropped: Option<StoredSession>,
    /// Sessions that are owed messages that come behind all sessions.
    pub(crate) pending: Vec<(StoredSession, Restoring)>,
    /// Sessions whose queue has to be read again, by their numbers.
    pub(crate) again: BTreeMap<u64, (StoredSession, Restoring)>,
    pub(crate) bodies: HashMap<u64, MessageRef, BuildHasherDefault<NameHasher>>,
    /// Sessions whose end or will is computed from now on; another restart must not start that time again.
    pub(crate) broken_off: Vec<SessionKey>,
    pub(crate) replay: Replay,
    pub(crate) done: Restored,
}

/// The error for a record that cannot be read, with its key.
pub(crate) fn malformed(key: &[u8], error: WireError) -> RestoreError {
    use std::fmt::Write;
    let key = key.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    RestoreError::Malformed { key, error }
}
