//! Taking in what a store holds, before any client is served.

use super::crossing::Replay;
use super::keys::StoredSession;
use super::records::delivery;
use super::records::{Content, Numbers};
use super::restoring::{RestoredEntry, Restoring};
use crate::cluster::exchanges::Exchange;
use crate::desk::Desk;
use crate::hash::NameHasher;
use crate::ids::SessionKey;
use crate::message::MessageRef;
use crate::session::InFlight;
use crate::session::packet_ids::{Inflight, State};
use crate::wire::{WireError, WireReader};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use tidegate_mqtt::PacketId;

/// Why what a store holds was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// A pair is not of this version, or damaged in a way that its checksum did not show.
    Malformed {
        /// The key, in hexadecimal.
        key: String,
        /// What was being read.
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

/// What was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl Restored {
    /// Adds what another shard has taken in.
    pub fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.subscriptions += other.subscriptions;
        self.messages += other.messages;
        self.retained += other.retained;
    }
}

/// The barrier behind a restore carries this connection index, which no connection has.
pub(crate) const RESTORING_INDEX: u32 = u32::MAX - 2;

/// Everything that is being taken in.
#[derive(Debug, Default)]
pub(crate) struct Restoration {
    /// The session whose parts are coming in.
    pub(crate) current: Option<(StoredSession, Restoring)>,
    /// Sessions that are owed messages that come behind all sessions.
    pub(crate) pending: Vec<(StoredSession, Restoring)>,
    pub(crate) bodies: HashMap<u64, MessageRef, BuildHasherDefault<NameHasher>>,
    /// Sessions whose end or will is reckoned from now on, which another restart must not begin anew.
    pub(crate) broken_off: Vec<SessionKey>,
    pub(crate) replay: Replay,
    pub(crate) done: Restored,
}

impl Restoration {
    /// The message of an entry, unless it is missing.
    fn message_of(&self, content: &Content) -> Option<MessageRef> {
        match content {
            Content::Here(message) => Some(Rc::clone(message)),
            Content::Body(body) => self.bodies.get(body).map(Rc::clone),
        }
    }
}

impl Restoration {
    /// All parts of a session have come: what it is owed is put together, unless some of that comes later.
    pub(crate) fn close_restored(&mut self, desk: &mut Desk) -> Result<(), RestoreError> {
        let Some((stored, mut restoring)) = self.current.take() else { return Ok(()) };
        restoring.leave_tail(desk.memory.queue_share());
        let shares = |restored: &RestoredEntry| matches!(restored.entry.content, Content::Body(_));
        if restoring.entries.values().any(shares) {
            self.pending.push((stored, restoring));
            return Ok(());
        }
        match self.restore_queue(desk, stored, restoring) {
            0 => Ok(()),
            messages => Err(RestoreError::MissingMessages { messages }),
        }
    }

    /// A QoS 2 packet id that a publisher has not released, with the name that its message crossed under, if it did.
    pub(crate) fn restore_received(&self, desk: &mut Desk, id: PacketId, value: &[u8]) -> Result<(), WireError> {
        let known = self.current.as_ref().map(|(_, restoring)| restoring.key);
        let Some(session) = known.and_then(|key| desk.sessions.get_mut(key.0)) else { return Ok(()) };
        session.flow_mut().received.insert(id);
        if !value.is_empty() {
            let exchange = Exchange::read_stored(&mut WireReader::new(value))?;
            session.rare_mut().exchanges.push((id, exchange));
        }
        Ok(())
    }

    /// Puts together what a session is owed; returns how many messages are missing.
    pub(crate) fn restore_queue(&mut self, desk: &mut Desk, stored: StoredSession, restoring: Restoring) -> u64 {
        let mut missing = 0;
        let mut sent = Vec::new();
        let mut queue = Vec::new();
        let next = restoring.entries.keys().next_back().map_or(0, |last| *last).max(restoring.last);
        for (number, RestoredEntry { entry, sent: record }) in restoring.entries {
            let Some(message) = self.message_of(&entry.content) else {
                missing += 1;
                continue;
            };
            let delivery = delivery(entry, message, number);
            if number <= restoring.mailbox_from && record.is_none() && desk.gives_up_restored(restoring.key, &delivery)
            {
                continue;
            }
            self.done.messages += 1;
            match record {
                Some(record) => sent.push((record, delivery)),
                None => queue.push(delivery),
            }
        }
        sent.sort_by_key(|(record, _)| record.order);
        let last_sent = sent.last().map_or(0, |(record, _)| record.order);
        let Some(session) = desk.sessions.get_mut(restoring.key.0) else { return missing };
        if sent.is_empty() && queue.is_empty() && restoring.tail.is_none() {
            session.settle();
            if restoring.mailbox_from != 0 {
                self.broken_off.push(restoring.key);
            }
            return missing;
        }
        debug_assert_eq!(session.stored, Some(stored), "the session was made for these entries");
        let of_uplink = session.is_uplink();
        let flow = session.flow_mut();
        flow.next_number = next.max(last_sent);
        flow.mailbox_from = restoring.mailbox_from;
        let unanswered = sent.into_iter().map(|(record, delivery)| {
            let numbers = Numbers { entry: delivery.number, separate: true };
            let keep = !record.released && (record.state != State::AwaitPubComp || of_uplink);
            (record.id, record.state, InFlight { delivery: keep.then_some(delivery), numbers })
        });
        let unanswered: Vec<_> = unanswered.collect();
        let kept = unanswered.iter().filter_map(|(_, _, item)| item.delivery.as_ref());
        flow.inflight_bytes = kept.map(crate::session::Delivery::cost).sum();
        match Inflight::from_entries(unanswered) {
            Some(restored) => flow.inflight = restored,
            None => missing += 1,
        }
        let queue_bytes: u64 = queue.iter().map(crate::session::Delivery::cost).sum();
        flow.queue = queue.into_iter().collect();
        flow.queue_bytes = queue_bytes;
        if let Some(tail) = restoring.tail {
            self.done.messages += tail.messages;
            desk.memory.stored_messages += tail.messages;
            desk.memory.stored_bytes += tail.bytes;
            flow.tail = Some(Box::new(tail));
        }
        flow.note_taken_in();
        let (waiting, inflight_bytes) = (flow.queue.len() as u64, flow.inflight_bytes);
        session.settle();
        desk.memory.queued_messages += waiting;
        desk.memory.queued_bytes += queue_bytes;
        desk.memory.held += queue_bytes + inflight_bytes;
        desk.sessions.count_runs(&mut desk.memory, restoring.key);
        desk.sessions.watch_expiry(&mut desk.timers, restoring.key);
        missing
    }
}

/// What cannot be read, with its key.
pub(crate) fn malformed(key: &[u8], error: WireError) -> RestoreError {
    use std::fmt::Write;
    let key = key.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    RestoreError::Malformed { key, error }
}
