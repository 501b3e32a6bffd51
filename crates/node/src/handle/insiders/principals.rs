//! Principals: services and users of other protocols, which publish and read without an MQTT session.
//!
//! A principal lives on one shard, the home of its name, so that its messages keep their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate_engine::{InnerPublication, Principal, Reason, RetainedValue, ShardId};

use super::NodeInsiders;
use crate::handle::insiders::inlet::Inlet;
use crate::handle::{NoAnswer, NodeHandle};
use crate::orders::{Admin, ToShard};
use crate::service::ServiceOrder;
use crate::service::principals::Answered;

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
