//! Sessions that have ended and still have subscriptions or messages. `connection/ending.rs` removes them.

use std::collections::VecDeque;
use std::rc::Rc;

use super::{Delivery, FilterList, Membership};
use crate::ids::SessionKey;
use crate::telling::reason::Reason;

/// The rest of an ended session.
#[derive(Debug)]
pub(crate) struct EndedSession {
    pub key: SessionKey,
    pub client_id: Box<str>,
    /// The reason of its dropped messages.
    pub reason: Reason,
    pub filters: FilterList,
    pub memberships: Vec<Rc<Membership>>,
    /// Messages that waited, without messages of shared groups.
    pub queue: VecDeque<Delivery>,
    /// Whether it was that of a broker, which is removed at once.
    pub of_uplink: bool,
}

impl EndedSession {
    pub(crate) fn is_done(&self) -> bool {
        self.filters.len() == 0 && self.memberships.is_empty() && self.queue.is_empty()
    }
}

/// Ended sessions in the order of their ends, and the work done for them in the present turn.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions {
    pub waiting: VecDeque<EndedSession>,
    /// Units of work done in the present turn.
    pub work: usize,
}

impl EndedSessions {
    /// A turn begins.
    pub(crate) fn begin_turn(&mut self) {
        self.work = 0;
    }
}
