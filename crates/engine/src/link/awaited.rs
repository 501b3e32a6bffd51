//! Pending answers of other nodes: their waiters are notified when the node is gone.

use std::collections::VecDeque;

use crate::link::envelope::Ticket;

/// An answer that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub ticket: Ticket,
    /// Whether the request was about interest: a node that is gone does not need it.
    pub interest: bool,
}

/// An answer that is owed.
#[derive(Clone, Copy, Debug)]
struct Owed {
    awaited: Awaited,
    /// The present waiter, if it is not the requester.
    heir: Option<Ticket>,
}

/// Answers that one shard of another node owes, in the order of the questions. There are no more than fit into what may
/// be under way.
#[derive(Debug, Default)]
pub(crate) struct AwaitedAnswers(VecDeque<Owed>);

impl AwaitedAnswers {
    pub(super) fn add(&mut self, awaited: Awaited) {
        self.0.push_back(Owed { awaited, heir: None });
    }

    /// An answer has come. Most come in the order of the requests. Returns the waiter, if it is not the requester.
    pub(super) fn remove(&mut self, awaited: Awaited) -> Option<Ticket> {
        let at = self.0.iter().position(|owed| owed.awaited == awaited)?;
        self.0.remove(at)?.heir
    }

    /// Passes an owed answer to another waiter. Returns true if it is owed.
    pub(super) fn pass_on(&mut self, ticket: Ticket, heir: Ticket) -> bool {
        let asked = Awaited { ticket, interest: false };
        let Some(owed) = self.0.iter_mut().find(|owed| owed.awaited == asked) else { return false };
        owed.heir = Some(heir);
        true
    }

    /// Takes all, each with its present waiter.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Awaited> + use<> {
        let all = std::mem::take(&mut self.0).into_iter();
        all.map(|Owed { awaited, heir }| Awaited { ticket: heir.unwrap_or(awaited.ticket), ..awaited })
    }
}
