//! Publications of principals are decided and answered.

use crate::connection::Outcome;
use crate::event::Event;
use crate::events::reason::Reason;
use crate::flows::contexts::Answering;
use crate::flows::contexts::Deciding;
use crate::ids::{ConnectionKey, PrincipalId, TenantId};
use crate::principals::Held;
use crate::publish::inbound::Inbound;
use tidegate_mqtt::ReasonCode;

impl Answering<'_> {
    /// Takes the message that is held longest.
    pub(crate) fn take_held(&mut self, key: ConnectionKey) -> Option<Held> {
        let registered = self.services.principals.all.get_mut(&key)?;
        let held = registered.held.pop_front()?;
        let cost = held.cost();
        registered.held_bytes -= cost;
        self.state.memory.held -= cost;
        self.state.memory.input_bytes -= cost;
        Some(held)
    }

    /// Refuses the held messages of a principal whose time to wait is over.
    pub(crate) fn refuse_held(&mut self, key: ConnectionKey, reason: Reason) {
        while let Some(held) = self.take_held(key) {
            self.refuse_publication(PrincipalId(key), held.number, reason);
        }
    }

    /// Refuses the unanswered messages of a principal, because the broker stops or the principal goes.
    pub(crate) fn refuse_all_of_principal(&mut self, key: ConnectionKey, reason: Reason) {
        if let Some(extra) = self.state.connections.get_mut(key).and_then(|connection| connection.extra.as_mut()) {
            // Later confirmations are ignored.
            extra.acks.abandon();
        }
        let answering =
            self.services.principals.all.get_mut(&key).map(|registered| std::mem::take(&mut registered.answering));
        for number in answering.into_iter().flatten() {
            self.tell_published(PrincipalId(key), number, Err(reason));
        }
        self.refuse_held(key, reason);
    }

    /// Pending publications of all principals are refused: the lease of this node has ended, and no promise counts.
    pub(crate) fn refuse_all_of_principals(&mut self, reason: Reason) {
        let keys: Vec<ConnectionKey> = self.services.principals.all.keys().copied().collect();
        for key in keys {
            self.refuse_all_of_principal(key, reason);
        }
        for (_, id, number, _) in std::mem::take(&mut self.services.principals.uncommitted) {
            if let Some(registered) = self.services.principals.all.get_mut(&id.0) {
                registered.uncommitted -= 1;
            }
            self.tell_published(id, number, Err(reason));
        }
    }

    /// Counts a message that did not reach the pipeline, and answers it.
    #[cold]
    pub(crate) fn refuse_publication(&mut self, id: PrincipalId, number: u64, reason: Reason) {
        self.state.counters.drop_message(reason);
        self.tell_published(id, number, Err(reason));
    }

    /// Answers the oldest unanswered message of a principal. `promises` is true if the answer must wait for the commit.
    #[cold]
    pub(crate) fn answer_principal(&mut self, key: ConnectionKey, outcome: Outcome, promises: bool) {
        let Some(registered) = self.services.principals.all.get_mut(&key) else { return };
        let Some(number) = registered.answering.pop_front() else { return };
        // An acknowledgement that promises nothing waits for the acknowledgements before it.
        let waits = registered.uncommitted > 0;
        let last = self.services.principals.uncommitted.back().map(|(batch, ..)| *batch).filter(|_| waits);
        let batch = if promises { self.state.journal.promised_batch() } else { last };
        match batch {
            Some(batch) => {
                registered.uncommitted += 1;
                self.services.principals.uncommitted.push_back((batch, PrincipalId(key), number, outcome));
            }
            None => self.tell_published(PrincipalId(key), number, outcome),
        }
    }

    /// All batches up to this one are committed.
    pub(crate) fn tell_committed(&mut self, committed: u64) {
        while let Some((batch, id, number, outcome)) = self.services.principals.uncommitted.front().copied()
            && batch <= committed
        {
            self.services.principals.uncommitted.pop_front();
            if let Some(registered) = self.services.principals.all.get_mut(&id.0) {
                registered.uncommitted -= 1;
            }
            self.tell_published(id, number, outcome);
        }
    }

    pub(crate) fn tell_published(&mut self, principal: PrincipalId, number: u64, outcome: Result<ReasonCode, Reason>) {
        self.state.events.push_back(Event::Published { principal, number, outcome });
    }
}

impl Deciding<'_> {
    /// The name of the publisher of a message, and its tenant.
    pub(crate) fn publisher_of(&self, it: &Inbound<'_>) -> Option<(TenantId, &str)> {
        match it.session {
            Some(session) => {
                let session = self.state.sessions.get(session.0)?;
                Some((session.tenant, &*session.client_id))
            }
            None => self.services.principals.name(it.key),
        }
    }
}
