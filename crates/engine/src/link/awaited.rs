//! Answers that another node owes: their waiters are notified when that node is gone.

use std::collections::VecDeque;

use crate::link::envelope::Ticket;

/// An answer that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub ticket: Ticket,
    /// Whether the question was about interest: a node that is gone needs to know of none.
    pub interest: bool,
}

/// An answer that is owed.
#[derive(Clone, Copy, Debug)]
struct Owed {
    awaited: Awaited,
    /// The present waiter, if it is not the one that asked.
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

    /// One has come. Most come in the order in which they were asked for. Returns who waits for it, where that is not
    /// who has asked.
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

    /// Takes all of them, each with who waits for it by now.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Awaited> + use<> {
        let all = std::mem::take(&mut self.0).into_iter();
        all.map(|Owed { awaited, heir }| Awaited { ticket: heir.unwrap_or(awaited.ticket), ..awaited })
    }
}
