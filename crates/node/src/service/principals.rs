//! The principals that have their home on a shard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_engine::{
    Engine, InnerPublication, Now, ObserverId, Principal, PrincipalId, PrincipalKind, Reason, TenantId,
};
use tidegate_mqtt::ReasonCode;

/// The outcome of a message: the code that a PUBACK would have, or the reason of the refusal.
pub type PublishOutcome = Result<ReasonCode, Reason>;

/// Is called on a shard's thread with the number of a message and its outcome. It only hands them over.
pub type Answered = Arc<dyn Fn(u64, PublishOutcome) + Send + Sync>;

/// A shard's state about its principals.
#[derive(Default)]
pub(crate) struct NodePrincipals {
    by_number: BTreeMap<u64, PrincipalId>,
    waiting: BTreeMap<PrincipalId, Waiting>,
    /// Publishes the messages from a bus.
    bus: Option<PrincipalId>,
}

/// The receiver of a principal's answers.
struct Waiting {
    answered: Answered,
    unanswered: Arc<AtomicUsize>,
    /// The principal is gone; it is removed with its last answer.
    gone: bool,
}

impl NodePrincipals {
    pub(crate) fn add(
        &mut self,
        (engine, now): (&mut Engine, Now),
        number: u64,
        principal: Principal,
        answered: Answered,
        unanswered: Arc<AtomicUsize>,
    ) {
        let id = engine.insiders().add_principal(now, principal);
        self.by_number.insert(number, id);
        self.waiting.insert(id, Waiting { answered, unanswered, gone: false });
    }

    pub(crate) fn remove(&mut self, (engine, now): (&mut Engine, Now), number: u64) {
        let Some(id) = self.by_number.remove(&number) else { return };
        engine.insiders().remove_principal(now, id);
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.gone = true;
        }
        self.forget_if_over(id);
    }

    pub(crate) fn publish(
        &self,
        (engine, now): (&mut Engine, Now),
        principal: u64,
        message: InnerPublication,
        number: u64,
    ) {
        if let Some(id) = self.by_number.get(&principal).copied() {
            engine.insiders().publish_as(now, id, message, number);
        }
    }

    /// Publishes a message from a bus.
    pub(crate) fn publish_from_bus(
        &mut self,
        (engine, now): (&mut Engine, Now),
        message: InnerPublication,
        number: u64,
    ) {
        let id = *self.bus.get_or_insert_with(|| engine.insiders().add_principal(now, bus_principal()));
        engine.insiders().publish_as(now, id, message, number);
    }

    /// A message of a principal has been answered. Returns whether a message from a bus is done with.
    pub(crate) fn take(&mut self, principal: PrincipalId, number: u64, outcome: PublishOutcome) -> Option<bool> {
        if self.bus == Some(principal) {
            return Some(is_taken(outcome));
        }
        let waiting = self.waiting.get(&principal)?;
        waiting.unanswered.fetch_sub(1, Ordering::AcqRel);
        (waiting.answered)(number, outcome);
        self.forget_if_over(principal);
        None
    }

    /// Forgets a principal that is gone and waits for no answer.
    fn forget_if_over(&mut self, principal: PrincipalId) {
        let is_over = |waiting: &Waiting| waiting.gone && waiting.unanswered.load(Ordering::Acquire) == 0;
        if self.waiting.get(&principal).is_some_and(is_over) {
            self.waiting.remove(&principal);
        }
    }
}

/// Messages from a bus that a shard holds while it cannot take them. The service has no more under way.
const MAX_HELD_FROM_BUS: usize = 1 << 20;
/// Bytes of these messages.
const MAX_HELD_BYTES_FROM_BUS: u64 = 256 * 1024 * 1024;

/// The principal that publishes the messages from a bus.
fn bus_principal() -> Principal {
    Principal {
        kind: PrincipalKind::Broker,
        tenant: TenantId::DEFAULT,
        name: "bus".into(),
        identity: None,
        listener: None,
        max_held_messages: MAX_HELD_FROM_BUS,
        max_held_bytes: MAX_HELD_BYTES_FROM_BUS,
        // A message from a bus does not go there again.
        unobserved_by: vec![ObserverId::APPLICATIONS, ObserverId::REPORTS],
    }
}

/// Whether a message from a bus is done with: it was taken, or would never be. Otherwise it is published again. A full
/// queue that rejects does not hold up the bus: its message is dropped, and counted as such.
fn is_taken(outcome: PublishOutcome) -> bool {
    let of_subscriber = [Reason::QueueFullReject, Reason::BlockedTooLong, Reason::BusRefused];
    outcome.err().is_none_or(|reason| !reason.is_temporary() || of_subscriber.contains(&reason))
}
