//! The state of a client.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::observation::{Observation, ObservationId};
use super::uploads::Upload;
use super::{JobId, SessionId};
use crate::answer::Body;
use crate::limits::{AMPLIFICATION, EXCHANGE_LIFETIME, MAX_CREDIT, MAX_EXCHANGES, Millis};

/// A client.
#[derive(Debug)]
pub(super) struct Peer {
    /// Whether it has proven that it receives at its address.
    pub(super) proven: bool,
    /// Bytes that may be sent to it while it has not.
    credit: usize,
    /// When it sent the last datagram.
    pub(super) heard: Millis,
    exchanges: VecDeque<Exchange>,
    /// Requests under way.
    pub(super) jobs: usize,
    next_id: u16,
    /// Numbers notifications; a later one has a larger number [RFC 7641, 4.4].
    sequence: u32,
    /// Confirmable messages that it has not acknowledged, by their ids.
    pub(super) sending: HashMap<u16, Sending>,
    /// The confirmable notification that it has not acknowledged: one at a time (`NSTART`).
    pub(super) confirming: Option<u16>,
    pub(super) observations: Vec<Observation>,
    /// Bytes of the messages that wait for them.
    pub(super) waiting_bytes: usize,
    /// The observation that comes next.
    pub(super) turn: usize,
    pub(super) uploads: Vec<Upload>,
    pub(super) transfers: Vec<Transfer>,
    pub(super) sessions: Vec<SessionId>,
}

/// A message of a client, so that its repetition is noticed.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) id: u16,
    at: Millis,
    pub(super) state: Progress,
}

/// How far the answer to a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The broker works at it.
    Working(JobId),
    /// It was acknowledged; the answer goes its own way.
    Acknowledged,
    /// The acknowledgement has the answer.
    Answered(Vec<u8>),
    /// It only reads, and may be read again.
    Repeatable,
    /// It is not confirmable: a repetition gets no answer.
    Silent,
}

/// A confirmable message without an acknowledgement.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) datagram: Vec<u8>,
    pub(super) due: Millis,
    pub(super) wait: Millis,
    pub(super) again: u32,
    /// The observation that it notifies, and the delivery that its acknowledgement confirms.
    pub(super) notifies: Option<(ObservationId, Option<u64>)>,
}

/// A body that is fetched in blocks.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) session: SessionId,
    pub(super) topic: String,
    pub(super) event: bool,
    pub(super) body: Arc<Body>,
    pub(super) used: Millis,
}

impl Peer {
    pub(super) fn new(first_id: u16, now: Millis, proven: bool) -> Self {
        Self {
            proven,
            credit: 0,
            heard: now,
            exchanges: VecDeque::new(),
            jobs: 0,
            next_id: first_id,
            sequence: 1,
            sending: HashMap::new(),
            confirming: None,
            observations: Vec::new(),
            waiting_bytes: 0,
            turn: 0,
            uploads: Vec::new(),
            transfers: Vec::new(),
            sessions: Vec::new(),
        }
    }

    /// It has sent a datagram of `len` bytes.
    pub(super) fn hears(&mut self, now: Millis, len: usize) {
        self.heard = now;
        self.credit = self.credit.saturating_add(len * AMPLIFICATION).min(MAX_CREDIT);
    }

    /// Bytes that it may be sent now.
    pub(super) const fn room(&self) -> usize {
        if self.proven { usize::MAX } else { self.credit }
    }

    /// Takes the credit for a datagram; false when it has too little.
    pub(super) const fn spend(&mut self, len: usize) -> bool {
        if self.proven {
            return true;
        }
        let Some(left) = self.credit.checked_sub(len) else { return false };
        self.credit = left;
        true
    }

    /// An id for a message to it.
    pub(super) const fn take_id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    /// The number of the next notification.
    pub(super) const fn take_sequence(&mut self) -> u32 {
        self.sequence = (self.sequence + 1) & 0xFF_FFFF;
        self.sequence
    }

    /// A message that it has sent before with this id.
    pub(super) fn exchange(&mut self, now: Millis, id: u16) -> Option<&mut Exchange> {
        while self.exchanges.front().is_some_and(|first| first.at + EXCHANGE_LIFETIME <= now) {
            self.exchanges.pop_front();
        }
        self.exchanges.iter_mut().rev().find(|exchange| exchange.id == id)
    }

    /// Remembers a message, and forgets the oldest where there is no room.
    pub(super) fn remember(&mut self, now: Millis, id: u16, state: Progress) {
        if let Some(known) = self.exchange(now, id) {
            known.state = state;
            return;
        }
        if self.exchanges.len() == MAX_EXCHANGES {
            self.exchanges.pop_front();
        }
        self.exchanges.push_back(Exchange { id, at: now, state });
    }

    /// Whether another client may take its place.
    pub(super) fn may_leave(&self) -> bool {
        self.sessions.is_empty() && self.jobs == 0
    }
}
