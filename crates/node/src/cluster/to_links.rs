//! Messages to the links, and the questions between nodes that they carry.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use mio::Token;
use tidegate_engine::{PartitionId, ShardId, WireError};

use super::slots::SessionId;
use super::{ClusterStatus, ClusterView, NodeName};
use crate::inbox::InboxSender;

/// Longest question, and longest answer, bytes. It is a small part of the limit of a node's send queue.
pub const MAX_QUESTION_BYTES: usize = 4 * 1024 * 1024;

/// A message to the links.
#[derive(Debug)]
pub(crate) enum ToLinks {
    /// Put a view in force, and say so when all shards have it.
    View { view: Arc<ClusterView>, done: Sender<()> },
    /// Answer how the links are.
    Status(Sender<ClusterStatus>),
    /// Answer which other node serves a partition.
    NodeOf { partition: PartitionId, answer: Sender<Option<NodeName>> },
    /// Report sessions and questions.
    Listen { listener: Sender<PeerEvent>, links: LinksSender },
    /// Ask another node.
    Ask { node: NodeName, body: Vec<u8>, answer: Sender<Result<Vec<u8>, AskError>> },
    /// Answer a question.
    Answer { session: SessionId, number: u64, asked_bytes: u64, body: Vec<u8> },
    /// A shard has a roster, and has handed the others all earlier records.
    HasRoster { shard: ShardId, number: u64 },
    /// The nodes of a roster know the interest of a shard.
    Settled { shard: ShardId, number: u64 },
    /// Another node's shard has sent an unreadable record.
    Broken { slot: ShardId, error: WireError },
    /// Say goodbye to all behind all that waits, and report when they have read it.
    Goodbye(Sender<()>),
}

/// Sends messages to the links, or wakes their thread for a filled outbox.
pub(crate) type LinksSender = InboxSender<ToLinks>;

pub(super) const WAKER: Token = Token(0);
pub(super) const LISTENER: Token = Token(1);

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
    pub(super) fn new(from: NodeName, body: Vec<u8>, (session, number): (SessionId, u64), links: LinksSender) -> Self {
        let asked_bytes = body.len() as u64;
        Self { from, body, session, number, asked_bytes, links, is_answered: false }
    }

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
