//! An observation, and the messages that wait for it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::SessionId;
use crate::block::Block;
use crate::fields::Shown;
use crate::message::Token;

/// Names an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObservationId(pub(super) u64);

/// A client that observes a topic.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) id: ObservationId,
    pub(super) token: Token,
    pub(super) session: SessionId,
    pub(super) subscription: u32,
    pub(super) event: bool,
    /// The size of blocks that the client wants.
    pub(super) block: Option<Block>,
    /// Whether its first answer has been sent.
    pub(super) active: bool,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) unconfirmed: u8,
    /// The id of its last notification, which a reset may name.
    pub(super) last_id: Option<u16>,
}

/// A message that waits for an observer. The observers of a client share it.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) message: Arc<Shown>,
    pub(super) delivery: Option<u64>,
}
