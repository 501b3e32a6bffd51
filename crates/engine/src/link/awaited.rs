//! Answers that another node owes: whoever waits for them is told when that node is gone.

use std::collections::VecDeque;

use crate::link::envelope::Ticket;

/// An answer that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub ticket: Ticket,
    /// Whether the question was about interest: a node that is gone needs to know of none.
    pub interest: bool,
}

/// Answers that one shard of another node owes, in the order of the questions. There are no more than fit into what may be under
/// way.
#[derive(Debug, Default)]
pub(crate) struct AwaitedAnswers(VecDeque<Awaited>);

impl AwaitedAnswers {
    pub(super) fn add(&mut self, awaited: Awaited) {
        self.0.push_back(awaited);
    }

    /// One has come. Most come in the order in which they were asked for.
    pub(super) fn remove(&mut self, awaited: Awaited) {
        if let Some(at) = self.0.iter().position(|other| *other == awaited) {
            self.0.remove(at);
        }
    }

    pub(super) fn take(&mut self) -> VecDeque<Awaited> {
        std::mem::take(&mut self.0)
    }
}
