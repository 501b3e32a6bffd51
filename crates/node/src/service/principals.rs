//! Principals: services and users of other protocols, which publish and read without an MQTT session.
//!
//! A principal lives on one shard, the home of its name, so that its messages keep their order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate_engine::{Engine, InnerPublication, Now, Principal, PrincipalId, Reason, RetainedValue, ShardId};
use tidegate_mqtt::ReasonCode;

use super::NodeInsiders;
use crate::handle::{NoAnswer, NodeHandle};
use crate::service::ServiceOrder;
use crate::service::inside::Inlet;
use crate::shard::inbox::{Admin, ToShard};

/// The outcome of a message: the code that a PUBACK would have, or the reason of the refusal.
pub type PublishOutcome = Result<ReasonCode, Reason>;

/// Is called on a shard's thread with the number of a message and its outcome. It only hands them over.
pub type Answered = Arc<dyn Fn(u64, PublishOutcome) + Send + Sync>;

/// Numbers of all principals of the process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A principal at this node. Dropping it removes it; unanswered messages are answered first.
pub struct NodePrincipal {
    node: NodeHandle,
    shard: ShardId,
    number: u64,
    principal: Principal,
    unanswered: Arc<AtomicUsize>,
    max_unanswered: usize,
}

impl std::fmt::Debug for NodePrincipal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodePrincipal").field("principal", &self.principal.name).finish_non_exhaustive()
    }
}

/// A shard's state about its principals.
#[derive(Default)]
pub(crate) struct NodePrincipals {
    by_number: BTreeMap<u64, PrincipalId>,
    waiting: BTreeMap<PrincipalId, Waiting>,
    /// Publishes the messages from a bus.
    bus: Option<PrincipalId>,
}

/// Who waits for the answers of a principal.
struct Waiting {
    answered: Answered,
    unanswered: Arc<AtomicUsize>,
    /// The principal is gone; it is removed with its last answer.
    gone: bool,
}

impl NodeInsiders<'_> {
    /// Registers a principal. `answered` hears of each message once; no more than `max_unanswered` wait for that.
    pub fn principal(&self, principal: Principal, max_unanswered: usize, answered: &Answered) -> NodePrincipal {
        let shard = self.node.home(principal.tenant, &principal.name);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unanswered = Arc::new(AtomicUsize::new(0));
        let (waiting, answered) = (Arc::clone(&unanswered), Arc::clone(answered));
        let boxed = Box::new(principal.clone());
        let order = ServiceOrder::AddPrincipal { number, principal: boxed, answered, unanswered: waiting };
        self.node.tell(shard, ToShard::Admin(Admin::Service(order)));
        NodePrincipal { node: self.node.clone(), shard, number, principal, unanswered, max_unanswered }
    }
}

impl NodePrincipal {
    /// Publishes a message; `answered` receives its number.
    ///
    /// # Errors
    /// [`Reason::PublisherHeld`] when as many messages as may be are not answered: `answered` does not hear of this one.
    pub fn publish(&self, message: InnerPublication, number: u64) -> Result<(), Reason> {
        if self.unanswered.fetch_add(1, Ordering::AcqRel) >= self.max_unanswered {
            self.unanswered.fetch_sub(1, Ordering::AcqRel);
            return Err(Reason::PublisherHeld);
        }
        let order = ServiceOrder::PublishAs { principal: self.number, message: Box::new(message), number };
        self.node.tell(self.shard, ToShard::Admin(Admin::Service(order)));
        Ok(())
    }

    /// The retained message of a topic, or why the principal is not given it: [`Reason::NotAuthorized`], or
    /// [`Reason::NotServedHere`] when another node of a cluster is the home of the topic.
    ///
    /// # Errors
    /// When the shard does not answer.
    pub fn retained(&self, topic: &str) -> Result<Result<Option<RetainedValue>, Reason>, NoAnswer> {
        Inlet::new(self.node.clone()).retained(&self.principal, topic)
    }
}

impl Drop for NodePrincipal {
    fn drop(&mut self) {
        let order = ServiceOrder::RemovePrincipal { number: self.number };
        self.node.tell(self.shard, ToShard::Admin(Admin::Service(order)));
    }
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
        let id = *self.bus.get_or_insert_with(|| engine.insiders().add_principal(now, super::records::bus_principal()));
        engine.insiders().publish_as(now, id, message, number);
    }

    /// A message of a principal has been answered. Returns whether a message from a bus is done with.
    pub(crate) fn take(&mut self, principal: PrincipalId, number: u64, outcome: PublishOutcome) -> Option<bool> {
        if self.bus == Some(principal) {
            return Some(super::records::is_taken(outcome));
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
