//! Questions of a node to another one, which are answered outside of the shards: what administration needs to know of
//! all nodes.
//!
//! A question and its answer are bytes that only the two sides understand. They go over the session of both nodes, in
//! the order of its other frames.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender};

use super::NodeName;
use super::links::Links;
use super::loss::Loss;
use super::session::{Open, Phase, Session};
use super::slots::SessionId;
use super::wire::Frame;
use super::work::{LinksSender, ToLinks};

/// Longest question, and longest answer, bytes. It is a small part of the limit of a node's send queue.
pub const MAX_QUESTION_BYTES: usize = 4 * 1024 * 1024;
/// Questions and answers may take one of so many parts of the bytes that may wait for a node
/// ([`LinkLimits::outbox_bytes`](super::LinkLimits)). The bodies of its questions that are being answered
/// have the same bound. Beyond it a question is answered with nothing. So messages always have most of the room.
const QUESTION_SHARE: u64 = 4;
/// Questions of this node that wait for their answers; a further one takes the place of the oldest.
const MAX_ASKED: usize = 256;
/// Maximum number of questions of one other node in progress; a further one gets an empty answer.
const MAX_ANSWERING: usize = 16;

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The question is longer than [`MAX_QUESTION_BYTES`].
    #[error("the question is longer than {MAX_QUESTION_BYTES} bytes")]
    TooLong,
    /// There is no session with the node.
    #[error("there is no link to it")]
    NotLinked,
    /// The session ended before the answer came.
    #[error("the link to it ended")]
    Lost,
    /// The node answers too many questions already, or is not ready to answer any, or too much waits for it.
    #[error("it answers no questions at the moment")]
    Busy,
}

/// The receiver of the answer to a question.
pub type PeerAnswer = Receiver<Result<Vec<u8>, AskError>>;

/// Something that concerns the process around a node.
#[derive(Debug)]
pub enum PeerEvent {
    /// There is a session with this node from now on.
    Linked(NodeName),
    /// Another node asks.
    Question(PeerQuestion),
}

/// A question of another node.
#[derive(Debug)]
pub struct PeerQuestion {
    /// The node that asks.
    pub from: NodeName,
    /// The question.
    pub body: Vec<u8>,
    session: SessionId,
    number: u64,
    /// Bytes of the question.
    asked_bytes: u64,
    links: LinksSender,
    is_answered: bool,
}

impl PeerQuestion {
    /// Answers it. An answer that is longer than [`MAX_QUESTION_BYTES`] or empty is not sent; the asking node is
    /// notified that it gets none.
    pub fn answer(mut self, body: Vec<u8>) {
        self.send(body);
    }

    fn send(&mut self, body: Vec<u8>) {
        self.is_answered = true;
        let Self { session, number, asked_bytes, .. } = *self;
        self.links.send(ToLinks::Answer { session, number, asked_bytes, body });
    }
}

/// A question that is dropped has no answer: the asking node is notified, and the place of the question is free.
impl Drop for PeerQuestion {
    fn drop(&mut self) {
        if !self.is_answered {
            self.send(Vec::new());
        }
    }
}

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
    /// Tells of a new session.
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
fn has_room(open: &Open, body: &[u8]) -> bool {
    open.outbox.waiting() + body.len() as u64 <= open.outbox.limit() / QUESTION_SHARE
}

impl Links {
    /// Sends events to this listener from now on, beginning with the existing sessions.
    pub(super) fn listen_to_peers(&mut self, listener: Sender<PeerEvent>, links: LinksSender) {
        self.questions.listener = Some((listener, links));
        for session in self.table.sessions.values() {
            if let Phase::Open(open) = &session.phase {
                self.questions.note_linked(&open.who.name);
            }
        }
    }

    /// Asks another node.
    pub(super) fn ask(&mut self, node: &NodeName, body: &[u8], answer: Sender<Result<Vec<u8>, AskError>>) {
        let id = self.table.peers.get(node).and_then(|peer| peer.session);
        let session =
            id.and_then(|id| self.table.sessions.get_mut(&id)).filter(|it| matches!(it.phase, Phase::Open(_)));
        let (Some(session), Some(id)) = (session, id) else {
            let _ = answer.send(Err(AskError::NotLinked));
            return;
        };
        if !matches!(&session.phase, Phase::Open(open) if has_room(open, body)) {
            let _ = answer.send(Err(AskError::Busy));
            return;
        }
        let questions = &mut self.questions;
        if questions.asked.len() >= MAX_ASKED {
            questions.asked.pop_first();
        }
        questions.last += 1;
        questions.asked.insert(questions.last, Asked { session: id, answer });
        session.put(&Frame::Question { number: questions.last, body });
    }

    /// Hands a question of another node to the listener.
    pub(super) fn take_question(
        &mut self,
        id: SessionId,
        session: &mut Session,
        number: u64,
        body: &[u8],
    ) -> Result<(), Loss> {
        let Phase::Open(open) = &mut session.phase else { return Err(Loss::OutOfPlace) };
        let asked_bytes = body.len() as u64;
        let taken = open.answering < MAX_ANSWERING
            && body.len() <= MAX_QUESTION_BYTES
            && open.answering_bytes + asked_bytes <= open.outbox.limit() / QUESTION_SHARE
            && match &self.questions.listener {
                None => false,
                Some((_, links)) => self.questions.tell(PeerEvent::Question(PeerQuestion {
                    from: open.who.name.clone(),
                    body: body.to_vec(),
                    session: id,
                    number,
                    asked_bytes,
                    links: links.clone(),
                    is_answered: false,
                })),
            };
        if taken {
            open.answering += 1;
            open.answering_bytes += asked_bytes;
        } else {
            session.put(&Frame::Answer { number, body: &[] });
        }
        Ok(())
    }
}
