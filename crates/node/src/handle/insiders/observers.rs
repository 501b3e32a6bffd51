//! Observers: services that must have each message of some topics before its publisher is acknowledged. The unconfirmed
//! messages of a service are bounded by its window; each shard has an equal part of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use tidegate_engine::{ObservedMessage, Observer, ObserverAnswer, ObserverError, ObserverId, ObserverWindow, ShardId};

use super::NodeInsiders;
use crate::handle::{NoAnswer, NodeHandle, wait};
use crate::orders::{Admin, ToShard};
use crate::service::ServiceOrder;
use crate::service::observers::ObserverSink;

/// Takes a message on a shard's thread. It only hands it over.
pub type Deliver = Arc<dyn Fn(Box<Observation>) + Send + Sync>;

/// Numbers of all observers of the process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A message that an observer must have. The service confirms or refuses it; dropped, it is refused for now.
#[derive(Debug)]
pub struct Observation {
    message: ObservedMessage,
    shard: ShardId,
    node: NodeHandle,
    is_answered: bool,
}

impl Observation {
    /// The message.
    pub fn message(&self) -> &ObservedMessage {
        &self.message
    }

    /// The service has stored it: its publisher may be acknowledged.
    pub fn confirm(mut self) {
        self.tell(ObserverAnswer::Taken);
    }

    /// The service cannot take it now: its publisher is to send it again.
    pub fn refuse(mut self) {
        self.tell(ObserverAnswer::Later);
    }

    /// The service will never take it: the publisher learns it as far as its version of MQTT allows.
    pub fn reject(mut self) {
        let client_id = std::mem::take(&mut self.message.client_id);
        let topic = std::mem::take(&mut self.message.topic);
        self.tell(ObserverAnswer::Never { tenant: self.message.tenant, client_id, topic });
    }

    fn tell(&mut self, answer: ObserverAnswer) {
        self.is_answered = true;
        let order = ServiceOrder::Observed { ticket: self.message.ticket, answer };
        self.node.tell(self.shard, ToShard::Admin(Admin::Service(order)));
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        if !self.is_answered {
            self.tell(ObserverAnswer::Later);
        }
    }
}

/// Why there cannot be an observer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    /// A shard refuses it.
    #[error(transparent)]
    Refused(#[from] ObserverError),
    /// A shard does not answer.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// An observer at all shards of a node. Dropping it ends it, and its unconfirmed messages are refused.
pub struct NodeObserver {
    node: NodeHandle,
    number: u64,
}

impl std::fmt::Debug for NodeObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeObserver").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for NodeObserver {
    fn drop(&mut self) {
        let number = self.number;
        self.node.tell_all(|| Admin::Service(ServiceOrder::EndObserver { number }));
    }
}

/// The part of a window that a shard has.
fn part_of(window: ObserverWindow, shards: u16) -> ObserverWindow {
    let shards = u64::from(shards.max(1));
    ObserverWindow { messages: window.messages.div_ceil(shards), bytes: window.bytes.div_ceil(shards) }
}

/// Brings messages from a shard to a service, which answers through the node.
fn sink_of(node: &NodeHandle, deliver: &Deliver) -> ObserverSink {
    let (deliver, node) = (Arc::clone(deliver), node.clone());
    Arc::new(move |shard, message| {
        deliver(Box::new(Observation { message, shard, node: node.clone(), is_answered: false }));
    })
}

impl NodeInsiders<'_> {
    /// Has the messages of some topics delivered to a service from now on. When this returns, every message that enters
    /// is.
    ///
    /// # Errors
    /// When a filter is not valid, there are too many observers, or a shard does not answer.
    pub fn observe(&self, observer: Observer, deliver: &Deliver) -> Result<NodeObserver, ObserveError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // If a shard refuses it, it ends at the others.
        let guard = NodeObserver { node: self.node.clone(), number };
        let sink = sink_of(self.node, deliver);
        let observer = Observer { window: part_of(observer.window, self.node.shards()), ..observer };
        for shard in (0..self.node.shards()).map(ShardId) {
            let (answer, answers) = channel();
            let (observer, sink) = (Box::new(observer.clone()), sink.clone());
            let order = ServiceOrder::Observe { number, observer, sink, answer };
            self.node.tell(shard, ToShard::Admin(Admin::Service(order)));
            wait(shard, &answers)??;
        }
        Ok(guard)
    }

    /// Delivers the messages of an observer of the settings to this service from now on; an earlier service receives no
    /// more.
    pub(crate) fn attach_observer(&self, observer: ObserverId, window: ObserverWindow, deliver: &Deliver) {
        let window = part_of(window, self.node.shards());
        let sink = sink_of(self.node, deliver);
        self.node.tell_all(|| Admin::Service(ServiceOrder::AttachObserver { observer, window, sink: sink.clone() }));
    }
}
