//! Relays that have work to do: one message at a time, and the others wait, as with an application that computes.

use std::collections::VecDeque;

use crate::load::plan::{Encoding, Role};

/// The work of a relay.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Until when it is busy, in nanoseconds since the run's zero.
    pub(super) busy_until_ns: u64,
    /// Messages as they are to be passed on, with the number of the connection by which they came.
    pub(super) messages: VecDeque<(u32, Vec<u8>)>,
}

impl Work {
    /// The place of another message.
    pub(super) fn message(&mut self, epoch: u32) -> &mut Vec<u8> {
        self.messages.push_back((epoch, Vec::new()));
        let last = self.messages.len() - 1;
        &mut self.messages[last].1
    }
}

/// The time of a client of a role for a message, in microseconds.
pub(super) const fn work_of(role: &Role) -> u32 {
    match role {
        Role::Relay { work_us, .. } => *work_us,
        _ => 0,
    }
}

/// The encoding in which a client of a role forwards documents.
pub(super) const fn encoding_of(role: &Role) -> Option<Encoding> {
    match role {
        Role::Relay { encoding, .. } => *encoding,
        _ => None,
    }
}
