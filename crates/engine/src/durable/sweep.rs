//! Entries of a store without an owner.

use std::collections::BTreeSet;

use crate::journal::keys::Key;
use crate::journal::keys::StoredSession;
use crate::records::stored::ReadEntry;

/// Finds the pairs of a store without an owner, in one pass over all of them in the order of their keys. A session that
/// ends deletes only its own key, and a message that several sessions share is deleted by none of them: the sweep
/// deletes the rest.
#[derive(Debug, Default)]
pub struct Sweep {
    /// The session whose parts are being read.
    session: Option<StoredSession>,
    /// The message on its way that is being looked at.
    crossing: Option<u64>,
    /// Messages that entries refer to.
    bodies: BTreeSet<u64>,
}

impl Sweep {
    /// Whether a pair is to be kept. What this version cannot read is: throwing it away is not for a sweep to decide.
    pub fn keep(&mut self, key: &[u8], value: &[u8]) -> bool {
        match Key::read(key) {
            Ok(Key::Session(session)) => {
                self.session = Some(session);
                true
            }
            Ok(
                Key::Subscription(session, _)
                | Key::Received(session, _)
                | Key::Sent(session, _)
                | Key::Seen(session, _)
                | Key::Refused(session, _),
            ) => self.session == Some(session),
            Ok(Key::Entry(session, _)) => {
                let lives = self.session == Some(session);
                if lives {
                    self.bodies.extend(ReadEntry::body_of(value));
                }
                lives
            }
            Ok(Key::Crossing(number)) => {
                self.crossing = Some(number);
                true
            }
            Ok(Key::Crossed(number, _)) => self.crossing == Some(number),
            Ok(Key::Body(number)) => self.bodies.contains(&number),
            Ok(
                Key::Numbers(_)
                | Key::Will(_)
                | Key::Outgoing(_)
                | Key::Mark(..)
                | Key::Retained(..)
                | Key::Arrival(_)
                | Key::Passed(..)
                | Key::Group(..)
                | Key::Foreign,
            )
            | Err(_) => true,
        }
    }
}
