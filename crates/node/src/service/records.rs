//! Between the engines and a service that puts messages for applications on a bus, and brings theirs. What has not been
//! confirmed yet is bounded; beyond the bound, publishers are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use tidegate_engine::{
    ApplicationMessage, InnerPublication, Principal, PrincipalKind, Reason, RecordTicket, ShardId, TenantId,
};

use crate::handle::NodeHandle;
use crate::service::principals::PublishOutcome;
use crate::service::{ServiceOrder, ServiceWake};
use crate::shard::Shard;
use crate::shard::inbox::{Admin, ToShard};

/// Messages for applications of a node that wait for the bus at once; further ones are refused. As many reports may
/// wait.
const MAX_WAITING: u64 = 32_768;
/// Their bytes, topics, properties and payloads together.
const MAX_WAITING_BYTES: u64 = 32 * 1024 * 1024;

/// What waits for the bus now.
#[derive(Debug, Default)]
struct Waiting {
    messages: AtomicU64,
    bytes: AtomicU64,
}

/// A place among what waits, given back when it is dropped.
#[derive(Debug)]
struct Room {
    waiting: Arc<Waiting>,
    bytes: u64,
}

impl Room {
    fn take(waiting: &Arc<Waiting>, bytes: u64) -> Option<Self> {
        let room = Self { waiting: Arc::clone(waiting), bytes };
        let messages = waiting.messages.fetch_add(1, Ordering::AcqRel);
        let before = waiting.bytes.fetch_add(bytes, Ordering::AcqRel);
        // Dropping it gives back what was added.
        (messages < MAX_WAITING && before.saturating_add(bytes) <= MAX_WAITING_BYTES).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.waiting.messages.fetch_sub(1, Ordering::AcqRel);
        self.waiting.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// A message for applications, or what a node says of itself, that is to be put on the bus. Whoever takes it confirms
/// it; dropped, it is refused.
#[derive(Debug)]
pub struct NodeRecord {
    message: ApplicationMessage,
    shard: ShardId,
    node: NodeHandle,
    told: bool,
    _room: Room,
}

impl NodeRecord {
    /// The message.
    pub fn message(&self) -> &ApplicationMessage {
        &self.message
    }

    /// It is on the bus.
    pub fn confirm(mut self) {
        self.tell(None);
    }

    /// It cannot be put there.
    pub fn refuse(mut self) {
        self.tell(Some(Reason::BusRefused));
    }

    fn tell(&mut self, refused: Option<Reason>) {
        self.told = true;
        if let Some(ticket) = self.message.ticket {
            let order = ServiceOrder::Recorded { ticket, refused };
            self.node.tell(self.shard, ToShard::Admin(Admin::Service(order)));
        }
    }
}

impl Drop for NodeRecord {
    fn drop(&mut self) {
        if !self.told {
            self.tell(Some(Reason::BusRefused));
        }
    }
}

/// What shards tell the service.
pub(crate) enum RecordNews {
    Message(Box<NodeRecord>),
    Taken { number: u64, taken: bool },
}

/// A shard's end.
#[derive(Clone)]
pub(crate) struct RecordSink {
    news: Sender<RecordNews>,
    wake: ServiceWake,
    waiting: Arc<Waiting>,
    node: NodeHandle,
}

/// A shard's end of what nodes say of themselves.
#[derive(Clone)]
pub(crate) struct ReportSink {
    news: Sender<Box<NodeRecord>>,
    wake: ServiceWake,
    waiting: Arc<Waiting>,
    node: NodeHandle,
}

/// What mobile nodes say of themselves at this node, for a service: messages on the topics that the settings name
/// (`AddressSettings::reports`). At most 32,768 of them are unconfirmed, or 32 MiB; further ones are refused, and those of
/// QoS 0 are counted as dropped.
pub struct Reports(Receiver<Box<NodeRecord>>);

impl std::fmt::Debug for Reports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

impl Reports {
    /// The next one that has come.
    pub fn take(&self) -> Option<NodeRecord> {
        self.0.try_recv().ok().map(|report| *report)
    }
}

/// What a service that stands between this node and a bus is told.
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
    Message(Box<NodeRecord>),
    /// What was published under this number has been taken: from now on the node answers for it, also after a crash if
    /// it has a store. Not `taken` is to be published again.
    Taken {
        /// As it was given.
        number: u64,
        /// Whether it was.
        taken: bool,
    },
}

impl Records {
    /// The next thing that has come.
    pub fn take(&self) -> Option<RecordEvent> {
        Some(match self.news.try_recv().ok()? {
            RecordNews::Message(record) => RecordEvent::Message(record),
            RecordNews::Taken { number, taken } => RecordEvent::Taken { number, taken },
        })
    }

    /// Publishes a message; [`RecordEvent::Taken`] tells that it was taken. Messages of one topic keep their order.
    pub fn publish(&self, message: InnerPublication, number: u64) {
        let shard = self.node.home(message.tenant, &message.topic);
        let order = ServiceOrder::PublishFromBus(Box::new(message), number);
        self.node.tell(shard, ToShard::Admin(Admin::Service(order)));
    }
}

impl NodeHandle {
    /// Has what clients publish for applications told from now on, where the settings say that there is a bus for it.
    /// Until then, and when this is dropped, it is refused.
    pub fn records(&self, wake: &ServiceWake) -> Records {
        let (sender, news) = channel();
        let sink = RecordSink { news: sender, wake: Arc::clone(wake), waiting: Arc::default(), node: self.clone() };
        self.tell_all(|| Admin::Service(ServiceOrder::Records(Box::new(sink.clone()))));
        Records { news, node: self.clone() }
    }

    /// Has what mobile nodes say of themselves told from now on; whoever asked before is told no more. Until then, and
    /// when this is dropped, it is refused.
    pub fn reports(&self, wake: &ServiceWake) -> Reports {
        let (news, reports) = channel();
        let sink = ReportSink { news, wake: Arc::clone(wake), waiting: Arc::default(), node: self.clone() };
        self.tell_all(|| Admin::Service(ServiceOrder::Reports(Box::new(sink.clone()))));
        Reports(reports)
    }
}

impl Shard {
    /// A message for applications goes to whoever puts it on the bus.
    pub(crate) fn take_record(&mut self, message: ApplicationMessage) {
        let ticket = message.ticket;
        let bytes = message.topic.len() + message.properties.len() + message.payload.len();
        let sink = self.services.records.as_ref();
        let room = sink.and_then(|sink| Some((sink, Room::take(&sink.waiting, bytes as u64)?)));
        let Some((sink, room)) = room else {
            return self.refuse_record(ticket);
        };
        let (shard, node) = (self.place.shard, sink.node.clone());
        let record = NodeRecord { message, shard, node, told: false, _room: room };
        // Nobody takes it: it comes back, and is refused when it is dropped.
        let _ = sink.news.send(RecordNews::Message(Box::new(record)));
        (sink.wake)();
    }

    /// What a node says of itself goes to whoever wants to hear it.
    pub(crate) fn take_report(&mut self, message: ApplicationMessage) {
        let ticket = message.ticket;
        let bytes = message.topic.len() + message.properties.len() + message.payload.len();
        let sink = self.services.reports.as_ref();
        let room = sink.and_then(|sink| Some((sink, Room::take(&sink.waiting, bytes as u64)?)));
        let Some((sink, room)) = room else {
            return self.refuse_record(ticket);
        };
        let (shard, node) = (self.place.shard, sink.node.clone());
        // If the receiver is gone, the report comes back and is refused when it is dropped.
        let _ = sink.news.send(Box::new(NodeRecord { message, shard, node, told: false, _room: room }));
        (sink.wake)();
    }

    /// There is no room for a message, or no service for it.
    fn refuse_record(&mut self, ticket: Option<RecordTicket>) {
        match ticket {
            Some(ticket) => self.engine.confirm_record(self.now, ticket, Some(Reason::BusRefused)),
            None => self.engine.lose_report(),
        }
    }

    /// What a service has published was taken, or not.
    pub(crate) fn tell_taken(&self, number: u64, taken: bool) {
        if let Some(sink) = &self.services.records {
            // Whoever wanted to know may have gone.
            let _ = sink.news.send(RecordNews::Taken { number, taken });
            (sink.wake)();
        }
    }
}

/// Messages from a bus that a shard holds while it cannot take them. The service has no more under way.
const MAX_HELD_FROM_BUS: usize = 1 << 20;
/// Bytes of these messages.
const MAX_HELD_BYTES_FROM_BUS: u64 = 256 * 1024 * 1024;

/// Who publishes what comes from a bus.
pub(crate) fn bus_principal() -> Principal {
    Principal {
        kind: PrincipalKind::Broker,
        tenant: TenantId::DEFAULT,
        name: "bus".into(),
        identity: None,
        max_held_messages: MAX_HELD_FROM_BUS,
        max_held_bytes: MAX_HELD_BYTES_FROM_BUS,
    }
}

/// Whether a message from a bus is done with: it was taken, or would never be. Otherwise it is published again. A full
/// queue that rejects does not hold up the bus: its message is dropped, and counted as such.
pub(crate) fn is_taken(outcome: PublishOutcome) -> bool {
    let of_subscriber = [Reason::QueueFullReject, Reason::BlockedTooLong, Reason::BusRefused];
    outcome.err().is_none_or(|reason| !reason.is_temporary() || of_subscriber.contains(&reason))
}
