//! The orders of services within the process to a shard, and its reports to them.

mod inside;
pub(crate) mod observers;
pub(crate) mod principals;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Sender, SyncSender};
use std::time::Instant;

use tidegate_engine::{
    InnerPublication, Millis, ObservedTicket, Observer, ObserverAnswer, ObserverError, ObserverId, ObserverWindow,
    Principal, Reason, RetainedValue, TenantId,
};

pub(crate) use self::inside::Inside;
use self::observers::{NodeObservers, ObserverSink};
use self::principals::{Answered, NodePrincipals};
use crate::shortage::Shortage;

/// Is called when there is something to take. It only hands the news over.
pub type ServiceWake = Arc<dyn Fn() + Send + Sync>;

/// The client to ping: tenant, client id, and the topic of the message.
pub type Ping = (TenantId, String, String);

/// A client that is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLink {
    /// The tenant.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: String,
    /// The smoothed round trip of its transport, microseconds, where TCP or QUIC has measured one.
    pub rtt_us: Option<u64>,
}

/// A client has acknowledged a ping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The tenant.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: String,
    /// When its acknowledgement was read.
    pub at: Instant,
}

/// An order of a service for a shard.
pub(crate) enum ServiceOrder {
    /// Publish this; where it is for one node of a cluster to say, if this is the one.
    Publish { message: Box<InnerPublication>, at_home: bool },
    /// Report the connected clients, with the round trips of their transports if wanted.
    Links { rtt: bool, answer: Sender<Vec<ClientLink>> },
    /// Tell pongs here from now on.
    Pongs(SyncSender<Pong>, ServiceWake),
    /// Ping these clients, and say when each was sent its ping.
    Ping { pings: Vec<Ping>, expires_at: Millis, answer: Sender<Vec<Option<Instant>>> },
    /// A new round of pings begins: acknowledgements of older ones are not reported any more.
    ForgetPings,
    /// Publish this message of a bus, and report its number when it is accepted.
    PublishFromBus(Box<InnerPublication>, u64),
    /// Take a connection in that another part of the process has made.
    Enter(Box<Inside>),
    /// Register a principal.
    AddPrincipal { number: u64, principal: Box<Principal>, answered: Answered, unanswered: Arc<AtomicUsize> },
    /// Forget a principal.
    RemovePrincipal { number: u64 },
    /// Publish as a principal.
    PublishAs { principal: u64, message: Box<InnerPublication>, number: u64 },
    /// Read the retained message of a topic, if the principal may read it.
    ReadRetained { principal: Box<Principal>, topic: String, answer: Sender<Result<Option<RetainedValue>, Reason>> },
    /// Report the outcomes of messages from a bus here from now on.
    TellTaken(TakenSink),
    /// Begin to observe.
    Observe { number: u64, observer: Box<Observer>, sink: ObserverSink, answer: Sender<Result<(), ObserverError>> },
    /// Deliver the messages of an observer of the settings here from now on.
    AttachObserver { observer: ObserverId, window: ObserverWindow, sink: ObserverSink },
    /// Observe no more.
    EndObserver { number: u64 },
    /// The outcome of a message at an observer.
    Observed { ticket: ObservedTicket, answer: ObserverAnswer },
    /// Send a client elsewhere, and answer whether there was one.
    SendElsewhere { tenant: TenantId, client_id: String, reference: String, answer: Sender<bool> },
}

impl fmt::Debug for ServiceOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceOrder")
    }
}

/// Takes the outcome of a numbered message from a bus, on the shard's thread: whether it was accepted.
pub(crate) type TakenSink = Arc<dyn Fn(u64, bool) + Send + Sync>;

/// The receivers of a shard's reports to services.
#[derive(Default)]
pub(crate) struct Services {
    pub(crate) pongs: Option<(SyncSender<Pong>, ServiceWake)>,
    pub(crate) taken: Option<TakenSink>,
    pub(crate) observers: NodeObservers,
    pub(crate) principals: NodePrincipals,
    /// Publications of services to topic names outside their own topics.
    pub(crate) misnamed: Shortage,
}

impl Services {
    /// Reports whether a message of a service was accepted.
    pub(crate) fn tell_taken(&self, number: u64, taken: bool) {
        if let Some(sink) = &self.taken {
            sink(number, taken);
        }
    }
}
