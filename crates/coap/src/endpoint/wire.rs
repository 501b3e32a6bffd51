//! The clients and the datagrams to them, without sessions: places, proofs of addresses, messages under way, and bodies in
//! blocks.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::observation::ObservationId;
use super::peer::{Peer, Progress, Sending, Transfer};
use super::uploads::{Key, Upload, too_large};
use super::{Action, PeerId, Reading, Reply, SessionId, Settings, Timer};
use crate::answer::{Answer, Body};
use crate::block::Block;
use crate::counters::Counters;
use crate::fields::Shown;
use crate::limits::{
    ACK_TIMEOUT, BODIES_PART, MAX_PEERS, MAX_TRANSFERS, MAX_UPLOADS, Millis, PLACES_LOOKED_AT, PROOF_MINUTES, SWEEP,
};
use crate::message::{Code, Kind, Message, option};

/// Milliseconds of a minute.
const MINUTE: Millis = 60_000;

/// The clients, and the datagrams to them.
#[derive(Debug)]
pub(super) struct Wire {
    /// Random keys: no client can make proofs of addresses, or foresee numbers.
    keys: RandomState,
    drawn: u64,
    /// Whether each client has proven its address.
    are_proven: bool,
    /// Bytes of all incomplete bodies, and of all bodies that are fetched in blocks, beside the first one.
    max_bodies: usize,
    /// Longest body of a request, bytes.
    max_body: usize,
    pub(super) now: Millis,
    pub(super) peers: HashMap<PeerId, Peer>,
    /// The remembered clients; those at the front lose their places first.
    pub(super) places: VecDeque<PeerId>,
    next: u64,
    pub(super) upload_bytes: usize,
    pub(super) transfer_bytes: usize,
    /// Bytes of the messages that wait for observers.
    pub(super) waiting_bytes: usize,
    pub(super) timers: BTreeSet<(Millis, Timer)>,
    /// Whether a sweep is among the timers.
    pub(super) sweeps: bool,
    pub(super) actions: VecDeque<Action>,
    pub(super) counters: Counters,
}

impl Wire {
    pub(super) fn new(keys: RandomState, settings: Settings) -> Self {
        Self {
            keys,
            drawn: 0,
            are_proven: settings.are_proven,
            max_bodies: settings.max_waiting_bytes / BODIES_PART,
            max_body: settings.max_body,
            now: 0,
            peers: HashMap::new(),
            places: VecDeque::new(),
            next: 0,
            upload_bytes: 0,
            transfer_bytes: 0,
            waiting_bytes: 0,
            timers: BTreeSet::new(),
            sweeps: false,
            actions: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A number that no client foresees.
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.keys.hash_one(("number", self.drawn))
    }

    /// Whether a client has proven that it receives at its address.
    pub(super) fn is_proven(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|known| known.proven)
    }

    /// The answer that asks a client to prove its address: its next request has the same value [RFC 9175, 2.3].
    pub(super) fn challenge(&self, peer: PeerId) -> Answer {
        Answer::new(Code::UNAUTHORIZED).with(option::ECHO, self.proof(peer, self.now / MINUTE))
    }

    pub(super) fn proof(&self, peer: PeerId, minute: u64) -> Vec<u8> {
        let mut proof = (minute as u32).to_be_bytes().to_vec();
        proof.extend_from_slice(&self.keys.hash_one(("address", peer, minute)).to_be_bytes());
        proof
    }

    pub(super) fn proves(&self, peer: PeerId, echo: &[u8]) -> bool {
        let minute = self.now / MINUTE;
        (minute.saturating_sub(PROOF_MINUTES)..=minute).any(|minute| self.proof(peer, minute) == echo)
    }

    /// Makes a place for a client, if it has none. False when there is no place.
    pub(super) fn hear(&mut self, peer: PeerId, len: usize) -> bool {
        if !self.peers.contains_key(&peer) {
            if self.peers.len() >= MAX_PEERS && !self.free_a_place() {
                self.counters.without_place += 1;
                return false;
            }
            let first_id = self.draw() as u16;
            // No other machine sends from a loopback address.
            let is_proven = self.are_proven || peer.at.ip().is_loopback();
            self.peers.insert(peer, Peer::new(first_id, self.now, is_proven));
            self.places.push_back(peer);
            if !std::mem::replace(&mut self.sweeps, true) {
                self.timers.insert((self.now + SWEEP, Timer::Sweep));
            }
        }
        let now = self.now;
        self.peers.get_mut(&peer).is_some_and(|known| {
            known.hears(now, len);
            true
        })
    }

    /// Takes the place of a client without a session; first of one whose address is not proven.
    pub(super) fn free_a_place(&mut self) -> bool {
        for also_proven in [false, true] {
            for _ in 0..PLACES_LOOKED_AT.min(self.places.len()) {
                let Some(peer) = self.places.pop_front() else { return false };
                let Some(known) = self.peers.get(&peer) else { return true };
                if known.may_leave() && (also_proven || !known.proven) {
                    self.forget(peer);
                    return true;
                }
                self.places.push_back(peer);
            }
        }
        false
    }

    /// Adds a block to its body. Returns the body when that was the last one.
    pub(super) fn add_block(
        &mut self,
        peer: PeerId,
        key: Key,
        (block, part): (Block, &[u8]),
        longest: usize,
    ) -> Result<Option<Vec<u8>>, Box<Answer>> {
        let refuse = |code, why: &str| Err(Box::new(Answer::refusal(code, why)));
        if block.more && part.len() != block.size() {
            return refuse(Code::BAD_REQUEST, "a block before the last one has another size than it says");
        }
        let proven = self.is_proven(peer);
        let Some(known) = self.peers.get_mut(&peer) else { return refuse(Code::INCOMPLETE, "") };
        let begun = known.uploads.iter().position(|upload| upload.key == key);
        let mut body = begun.map(|at| known.uploads.swap_remove(at).body).unwrap_or_default();
        self.upload_bytes -= body.len();
        if block.number == 0 {
            body.clear();
        }
        if block.offset() != body.len() {
            return refuse(Code::INCOMPLETE, "a block before this one is missing");
        }
        if body.len() + part.len() > longest {
            return Err(Box::new(too_large(longest)));
        }
        body.extend_from_slice(part);
        if !block.more {
            return Ok(Some(body));
        }
        // Clients without a proven address get half of the room. One longest body has room in any case.
        let room = if proven { self.max_bodies } else { self.max_bodies / 2 }.max(self.max_body);
        if self.upload_bytes + body.len() > room {
            return refuse(Code::UNAVAILABLE, "too many bodies come in blocks now");
        }
        if known.uploads.len() >= MAX_UPLOADS {
            return refuse(Code::TOO_MANY, "too many bodies of this client come in blocks");
        }
        self.upload_bytes += body.len();
        known.uploads.push(Upload { key, body, used: self.now });
        Ok(None)
    }

    pub(super) fn keep_for_blocks(
        &mut self,
        peer: PeerId,
        session: SessionId,
        topic: &str,
        event: bool,
        body: &Arc<Body>,
    ) {
        let (now, bytes) = (self.now, body.bytes.len());
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let is_same = |it: &Transfer| it.session == session && it.topic == topic && it.event == event;
        if let Some(at) = known.transfers.iter().position(is_same) {
            self.transfer_bytes -= known.transfers.swap_remove(at).body.bytes.len();
        }
        // One body has room in any case. Without room the next block is one of the message that is retained by then.
        if known.transfers.len() >= MAX_TRANSFERS
            || (self.transfer_bytes > 0 && self.transfer_bytes + bytes > self.max_bodies)
        {
            return;
        }
        self.transfer_bytes += bytes;
        let (topic, body) = (topic.to_owned(), Arc::clone(body));
        known.transfers.push(Transfer { session, topic, event, body, used: now });
    }

    /// The answer that shows a message; its body is kept where it has further blocks.
    pub(super) fn representation(
        &mut self,
        peer: PeerId,
        session: SessionId,
        reading: &Reading,
        message: Shown,
    ) -> Answer {
        let body = Arc::new(Body::of(message, reading.event));
        if reading.accept.is_some_and(|accept| body.format.is_some_and(|format| format != accept)) {
            return Answer::refusal(Code::NOT_ACCEPTABLE, "the message has another content format");
        }
        let answer = body.answer(reading.block, &reading.etags);
        if answer.has_more() {
            self.keep_for_blocks(peer, session, &reading.topic, reading.event, &body);
        }
        answer
    }

    /// A further block of a body that the client has begun to fetch.
    pub(super) fn block_of_transfer(&mut self, peer: PeerId, session: SessionId, reading: &Reading) -> Option<Answer> {
        let block = reading.block.filter(|block| block.number > 0)?;
        let now = self.now;
        let known = self.peers.get_mut(&peer)?;
        let is_same =
            |it: &&mut Transfer| it.session == session && it.topic == reading.topic && it.event == reading.event;
        let transfer = known.transfers.iter_mut().find(is_same)?;
        transfer.used = now;
        Some(transfer.body.answer(Some(block), &[]))
    }

    /// Sends a datagram, if the client may get as many bytes.
    pub(super) fn send(&mut self, peer: PeerId, datagram: Vec<u8>) {
        if self.peers.get_mut(&peer).is_some_and(|known| known.spend(datagram.len())) {
            self.counters.datagrams_out += 1;
            self.counters.bytes_out += datagram.len() as u64;
            self.actions.push_back(Action::Send { peer, datagram });
        } else {
            self.counters.withheld += 1;
        }
    }

    /// Says that a message was not expected.
    pub(super) fn reset(&mut self, peer: PeerId, id: u16) {
        self.send(peer, Message::empty(Kind::Reset, id).encode());
    }

    /// Sends a message until it is acknowledged.
    pub(super) fn send_confirmable(
        &mut self,
        peer: PeerId,
        id: u16,
        datagram: Vec<u8>,
        notifies: Option<(ObservationId, Option<u64>)>,
    ) {
        let wait = ACK_TIMEOUT + self.draw() % (ACK_TIMEOUT / 2);
        let due = self.now + wait;
        if let Some(known) = self.peers.get_mut(&peer) {
            known.sending.insert(id, Sending { datagram: datagram.clone(), due, wait, again: 0, notifies });
            self.timers.insert((due, Timer::Resend(peer, id)));
        }
        self.send(peer, datagram);
    }

    pub(super) fn take_sent(&mut self, peer: PeerId, id: u16) -> Option<Sending> {
        let sent = self.peers.get_mut(&peer)?.sending.remove(&id)?;
        self.timers.remove(&(sent.due, Timer::Resend(peer, id)));
        Some(sent)
    }

    /// Sends the answer to a request.
    pub(super) fn reply(&mut self, peer: PeerId, reply: Reply, answer: &Answer) {
        let challenge = self.challenge(peer);
        let now = self.now;
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let (kind, id) = match (reply.kind, reply.acknowledged) {
            (Kind::Confirmable, false) => (Kind::Acknowledgement, reply.id),
            (Kind::Confirmable, true) => (Kind::Confirmable, known.take_id()),
            _ => (Kind::NonConfirmable, known.take_id()),
        };
        let room = known.room();
        let mut message = answer.clone().message(kind, id, reply.token);
        if answer.is_refusal() {
            // The text is cut to the bytes that a client without a proven address may get.
            let beyond = message.encode().len().saturating_sub(room);
            let mut left = message.payload.len().saturating_sub(beyond);
            while left > 0 && std::str::from_utf8(message.payload.get(..left).unwrap_or_default()).is_err() {
                left -= 1;
            }
            message.payload.truncate(left);
        } else if message.encode().len() > room && reply.method == Code::GET {
            message = challenge.message(kind, id, reply.token);
        }
        self.counters.count_answer(reply.method, message.code);
        let datagram = message.encode();
        let state = match kind {
            Kind::Acknowledgement if reply.method == Code::GET => Progress::Repeatable,
            Kind::Acknowledgement => Progress::Answered(datagram.clone()),
            Kind::Confirmable => Progress::Acknowledged,
            _ => Progress::Silent,
        };
        known.remember(now, reply.id, state);
        if kind == Kind::Confirmable {
            self.send_confirmable(peer, id, datagram, None);
        } else {
            self.send(peer, datagram);
        }
    }

    /// Forgets a client without a session, and the datagrams to it.
    pub(super) fn leave(&mut self, peer: PeerId) {
        let Some(known) = self.peers.remove(&peer) else { return };
        for (id, sent) in known.sending {
            self.timers.remove(&(sent.due, Timer::Resend(peer, id)));
        }
        self.places.retain(|place| *place != peer);
        self.actions.retain(|action| !matches!(action, Action::Send { peer: to, .. } if *to == peer));
    }

    /// Forgets a client without a session.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.peers.remove(&peer);
    }
}
