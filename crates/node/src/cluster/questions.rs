//! Questions of a node to another one, which are answered outside of the shards: what administration needs to know of
//! all nodes.
//!
//! A question and its answer are bytes that only the two sides understand. They go over the session of both nodes, in
//! the order of its other frames.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use super::NodeName;
use super::session::{Open, Phase, Session};
use super::slots::SessionId;
use super::to_links::{AskError, LinksSender, MAX_QUESTION_BYTES, PeerEvent, PeerQuestion};
use super::wire::Frame;

/// Questions and answers may take this fraction (one part in `n`) of the bytes that may wait for a node
/// ([`LinkLimits::outbox_bytes`](super::LinkLimits)). The bodies of its questions that are being answered
/// have the same bound. Beyond it a question is answered with nothing. So messages always have most of the room.
const QUESTION_SHARE: u64 = 4;
/// Questions of this node that wait for their answers; a further one takes the place of the oldest.
const MAX_ASKED: usize = 256;
/// Maximum number of questions of one other node in progress; a further one gets an empty answer.
const MAX_ANSWERING: usize = 16;

/// The open questions to other nodes, and the receiver of their questions.
#[derive(Debug, Default)]
pub(super) struct Questions {
    last: u64,
    asked: BTreeMap<u64, Asked>,
    listener: Option<(Sender<PeerEvent>, LinksSender)>,
}

#[derive(Debug)]
struct Asked {
    session: SessionId,
    answer: Sender<Result<Vec<u8>, AskError>>,
}

impl Questions {
    pub(super) fn listen(&mut self, listener: Sender<PeerEvent>, links: LinksSender) {
        self.listener = Some((listener, links));
    }

    /// Notes a question of this node, and returns its number.
    pub(super) fn note_asked(&mut self, session: SessionId, answer: Sender<Result<Vec<u8>, AskError>>) -> u64 {
        if self.asked.len() >= MAX_ASKED {
            self.asked.pop_first();
        }
        self.last += 1;
        self.asked.insert(self.last, Asked { session, answer });
        self.last
    }

    /// Hands a question of another node to the listener. Returns whether there is one.
    pub(super) fn hand_over(&self, from: NodeName, body: &[u8], place: (SessionId, u64)) -> bool {
        let Some((_, links)) = &self.listener else { return false };
        self.tell(PeerEvent::Question(PeerQuestion::new(from, body.to_vec(), place, links.clone())))
    }

    /// Reports a new session.
    pub(super) fn note_linked(&self, name: &NodeName) {
        self.tell(PeerEvent::Linked(name.clone()));
    }

    /// Returns whether the process around the node listens.
    fn tell(&self, event: PeerEvent) -> bool {
        self.listener.as_ref().is_some_and(|(listener, _)| listener.send(event).is_ok())
    }

    /// A session is over: its questions get no answer any more.
    pub(super) fn end_session(&mut self, session: SessionId) {
        self.asked.retain(|_, asked| {
            if asked.session == session {
                let _ = asked.answer.send(Err(AskError::Lost));
            }
            asked.session != session
        });
    }

    /// An answer has come; empty means that the node has no answer.
    pub(super) fn take_answer(&mut self, session: SessionId, number: u64, body: &[u8]) {
        if self.asked.get(&number).is_none_or(|asked| asked.session != session) {
            return;
        }
        if let Some(asked) = self.asked.remove(&number) {
            let is_invalid = body.is_empty() || body.len() > MAX_QUESTION_BYTES;
            let answer = if is_invalid { Err(AskError::Busy) } else { Ok(body.to_vec()) };
            let _ = asked.answer.send(answer);
        }
    }

    /// Sends an answer, unless its session is over.
    pub(super) fn give_answer(session: Option<&mut Session>, number: u64, asked_bytes: u64, body: &[u8]) {
        let Some(session) = session else { return };
        let Phase::Open(open) = &mut session.phase else { return };
        open.answering = open.answering.saturating_sub(1);
        open.answering_bytes = open.answering_bytes.saturating_sub(asked_bytes);
        let body = if body.len() <= MAX_QUESTION_BYTES && has_room(open, body) { body } else { &[] };
        session.put(&Frame::Answer { number, body });
    }
}

/// Whether a question or an answer may wait for a node.
pub(super) fn has_room(open: &Open, body: &[u8]) -> bool {
    open.outbox.waiting() + body.len() as u64 <= open.outbox.limit() / QUESTION_SHARE
}

/// Whether another node may ask a further question, of these bytes.
pub(super) fn may_ask(open: &Open, body: &[u8]) -> bool {
    open.answering < MAX_ANSWERING
        && body.len() <= MAX_QUESTION_BYTES
        && open.answering_bytes + body.len() as u64 <= open.outbox.limit() / QUESTION_SHARE
}
