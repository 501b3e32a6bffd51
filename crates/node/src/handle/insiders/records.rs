//! Between the engines and the services that observe messages for applications and reports of mobile nodes. The number
//! of unconfirmed messages is bounded; beyond the bound, publishers are refused.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tidegate_engine::{InnerPublication, ObserverId, ObserverWindow};

use super::NodeInsiders;
use crate::handle::NodeHandle;
use crate::handle::insiders::observers::{Deliver, Observation};
use crate::orders::{Admin, ToShard};
use crate::service::{ServiceOrder, ServiceWake, TakenSink};

/// Messages for applications of a node that wait for the bus at once, 32,768 or 32 MiB; further ones are refused. As
/// many reports may wait.
const WINDOW: ObserverWindow = ObserverWindow { messages: 32_768, bytes: 32 * 1024 * 1024 };

/// The events of shards for the service.
enum RecordNews {
    Message(Box<Observation>),
    Taken { number: u64, taken: bool },
}

/// The reports of mobile nodes at this node, for a service: messages on the topics that the settings name
/// (`AddressSettings::reports`). At most 32,768 of them are unconfirmed, or 32 MiB; further ones are refused, or with
/// QoS 0 counted as dropped.
pub struct Reports(Receiver<Box<Observation>>);

impl std::fmt::Debug for Reports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

impl Reports {
    /// The next observation.
    pub fn take(&self) -> Option<Observation> {
        self.0.try_recv().ok().map(|report| *report)
    }
}

/// The queues of a service between this node and a bus.
pub struct Records {
    news: Receiver<RecordNews>,
    node: NodeHandle,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

/// Something for the service.
#[derive(Debug)]
pub enum RecordEvent {
    /// A message of a client for applications.
    Message(Box<Observation>),
    /// The message with this number has been accepted: from now on the node is responsible for it, also after a crash
    /// if it has a store. If not `taken`, it must be published again.
    Taken {
        /// As it was given.
        number: u64,
        /// Whether it was.
        taken: bool,
    },
}

impl Records {
    /// The next event.
    pub fn take(&self) -> Option<RecordEvent> {
        Some(match self.news.try_recv().ok()? {
            RecordNews::Message(record) => RecordEvent::Message(record),
            RecordNews::Taken { number, taken } => RecordEvent::Taken { number, taken },
        })
    }

    /// Publishes a message; [`RecordEvent::Taken`] reports its acceptance. Messages of one topic keep their order.
    pub fn publish(&self, message: InnerPublication, number: u64) {
        let shard = self.node.home(message.tenant, &message.topic);
        let order = ServiceOrder::PublishFromBus(Box::new(message), number);
        self.node.tell(shard, ToShard::Admin(Admin::Service(order)));
    }
}

impl NodeInsiders<'_> {
    /// Delivers clients' messages for applications from now on, if the settings have a bus for them. Before, and after
    /// this is dropped, they are refused.
    pub fn records(&self, wake: &ServiceWake) -> Records {
        let (sender, news) = channel();
        let (taken_news, taken_wake) = (sender.clone(), Arc::clone(wake));
        let sink: TakenSink = Arc::new(move |number, taken| {
            // The receiver may be gone.
            let _ = taken_news.send(RecordNews::Taken { number, taken });
            taken_wake();
        });
        self.node.tell_all(|| Admin::Service(ServiceOrder::TellTaken(Arc::clone(&sink))));
        let wake = Arc::clone(wake);
        let deliver: Deliver = Arc::new(move |message| {
            // Without a receiver, the message returns and is refused when it is dropped.
            let _ = sender.send(RecordNews::Message(message));
            wake();
        });
        self.attach_observer(ObserverId::APPLICATIONS, WINDOW, &deliver);
        Records { news, node: self.node.clone() }
    }

    /// Delivers the reports of mobile nodes from now on, to this service instead of an earlier one. Until then, and
    /// when this is dropped, it is refused.
    pub fn reports(&self, wake: &ServiceWake) -> Reports {
        let (news, reports) = channel();
        let wake = Arc::clone(wake);
        let deliver: Deliver = Arc::new(move |report| {
            // As above.
            let _ = news.send(report);
            wake();
        });
        self.attach_observer(ObserverId::REPORTS, WINDOW, &deliver);
        Reports(reports)
    }
}
