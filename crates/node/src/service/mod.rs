//! What services within the process may do at a node: publish, ask who is connected and how far away, ping, and send
//! clients elsewhere. All of it is bounded, and a shard waits for none of them.

pub(crate) mod inside;
pub(crate) mod membership;
pub(crate) mod observers;
pub(crate) mod principals;
pub(crate) mod records;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

use tidegate_engine::{
    InnerPublication, Millis, ObservedTicket, Observer, ObserverAnswer, ObserverError, ObserverId, ObserverWindow,
    Place, Principal, Reason, RetainedValue, ShardId, TenantId, partition_of,
};

use crate::handle::{NoAnswer, NodeHandle, wait};
use crate::listener::Shortage;
use crate::service::inside::Inside;
use crate::service::observers::{NodeObservers, ObserverSink};
use crate::service::principals::{Answered, NodePrincipals};
use crate::service::records::TakenSink;
use crate::shard::Shard;
use crate::shard::facets::OrderCalls;
use crate::shard::inbox::{Admin, ToShard};

/// Pongs that wait for the pinging service; further ones are dropped, and their nodes count as silent in that round.
const WAITING_PONGS: usize = 65_536;

/// Is called when there is something to take. It only hands the news over.
pub type ServiceWake = Arc<dyn Fn() + Send + Sync>;

/// Who is to be pinged: tenant, client id, and the topic of the message.
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
    TellTaken(Box<TakenSink>),
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

/// The receivers of a shard's reports to services.
#[derive(Default)]
pub(crate) struct Services {
    pongs: Option<(SyncSender<Pong>, ServiceWake)>,
    pub(crate) taken: Option<Box<TakenSink>>,
    pub(crate) observers: NodeObservers,
    pub(crate) principals: NodePrincipals,
    /// What services publish to names that are no topics of their own.
    pub(crate) misnamed: Shortage,
}

/// Pongs of all clients.
#[derive(Debug)]
pub struct Pongs(Receiver<Pong>);

impl Pongs {
    /// Takes the next pong.
    pub fn take(&self) -> Option<Pong> {
        self.0.try_recv().ok()
    }
}

/// Parts of the process that publish or receive without an MQTT session: principals, observers, services.
#[derive(Debug)]
pub struct NodeInsiders<'n> {
    pub(super) node: &'n NodeHandle,
}

impl NodeHandle {
    pub(crate) fn home(&self, tenant: TenantId, name: &str) -> ShardId {
        Place { shard: ShardId(0), shards: self.shards() }.home_of(partition_of(tenant, name))
    }

    /// The calls for parts of the process without an MQTT session.
    pub const fn insiders(&self) -> NodeInsiders<'_> {
        NodeInsiders { node: self }
    }
}

impl NodeInsiders<'_> {
    pub(super) fn tell_services(&self, shard: ShardId, order: ServiceOrder) {
        self.node.tell(shard, ToShard::Admin(Admin::Service(order)));
    }

    /// Publishes a message of the broker itself. The call does not wait for it; a message with an invalid topic is
    /// logged and dropped.
    pub fn publish_inner(&self, message: InnerPublication) {
        self.order_publish(message, false);
    }

    /// The same for a message that every node of a cluster would publish: only the home of the topic's retained message
    /// publishes it.
    pub fn publish_at_home(&self, message: InnerPublication) {
        self.order_publish(message, true);
    }

    fn order_publish(&self, message: InnerPublication, at_home: bool) {
        let shard = self.node.home(message.tenant, &message.topic);
        self.tell_services(shard, ServiceOrder::Publish { message: Box::new(message), at_home });
    }

    /// All clients that are connected; with `rtt` also how long the round trips of their transports take, which costs a
    /// system call for each TCP connection.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn client_links(&self, rtt: bool) -> Result<Vec<ClientLink>, NoAnswer> {
        let all = self.node.ask_all(|answer| Admin::Service(ServiceOrder::Links { rtt, answer }))?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Reports pongs from now on; an earlier caller gets no more. Up to 65,536 wait.
    pub fn pongs(&self, wake: &ServiceWake) -> Pongs {
        let (sender, pongs) = sync_channel(WAITING_PONGS);
        self.node.tell_all(|| Admin::Service(ServiceOrder::Pongs(sender.clone(), Arc::clone(wake))));
        Pongs(pongs)
    }

    /// Begins a new round of pings: acknowledgements of earlier ones are not reported any more.
    pub fn forget_pings(&self) {
        self.node.tell_all(|| Admin::Service(ServiceOrder::ForgetPings));
    }

    /// Publishes to each of these clients at QoS 1 on a topic of its own, for a pong. Who is away, or has something to
    /// acknowledge, is not asked; who owes the pong of an earlier round is, without another message. Returns when each
    /// was, in the order of `pings`.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub fn ping(&self, pings: Vec<Ping>, expires_at: Millis) -> Result<Vec<Option<Instant>>, NoAnswer> {
        let mut sent = vec![None; pings.len()];
        let mut by_shard: Vec<(Vec<usize>, Vec<Ping>)> = vec![Default::default(); usize::from(self.node.shards())];
        for (at, ping) in pings.into_iter().enumerate() {
            let home = self.node.home(ping.0, &ping.1);
            if let Some((places, part)) = by_shard.get_mut(usize::from(home.0)) {
                places.push(at);
                part.push(ping);
            }
        }
        for (shard, (places, pings)) in (0..).map(ShardId).zip(by_shard) {
            if pings.is_empty() {
                continue;
            }
            let (answer, answers) = channel();
            self.tell_services(shard, ServiceOrder::Ping { pings, expires_at, answer });
            for (at, when) in places.into_iter().zip(wait(shard, &answers)?) {
                if let Some(place) = sent.get_mut(at) {
                    *place = when;
                }
            }
        }
        Ok(sent)
    }

    /// Ends the connection of a client and redirects it to `reference`: an MQTT 5 client gets a DISCONNECT with it
    /// (0x9C), others are dropped. Returns true if there was a connection.
    ///
    /// # Errors
    /// When its shard does not answer.
    pub fn send_elsewhere(&self, tenant: TenantId, client_id: &str, reference: &str) -> Result<bool, NoAnswer> {
        let shard = self.node.home(tenant, client_id);
        let (answer, answers) = channel();
        let (client_id, reference) = (client_id.to_owned(), reference.to_owned());
        self.tell_services(shard, ServiceOrder::SendElsewhere { tenant, client_id, reference, answer });
        wait(shard, &answers)
    }
}

impl OrderCalls<'_> {
    pub(crate) fn take_service_order(&mut self, order: ServiceOrder) {
        let Shard { engine, services, serving, now, .. } = &mut *self.shard;
        let now = *now;
        // The caller may have given up waiting: its answer is dropped.
        match order {
            ServiceOrder::Publish { message, at_home } => {
                if at_home && !engine.questions().is_home_of_topic(message.tenant, &message.topic) {
                    return;
                }
                if !engine.insiders().publish_inner(now, &message)
                    && let Some(times) = services.misnamed.note(now.monotonic)
                {
                    tracing::warn!(topic = %message.topic, times, "a service published to a topic that it does not own");
                }
            }
            ServiceOrder::Links { rtt, answer } => {
                let _ = answer.send(self.links(rtt));
            }
            ServiceOrder::Pongs(sender, wake) => services.pongs = Some((sender, wake)),
            ServiceOrder::Ping { pings, expires_at, answer } => {
                let ping = |(tenant, client_id, topic): &Ping| {
                    let at = Instant::now();
                    engine.insiders().ping(now, *tenant, client_id, topic, expires_at).then_some(at)
                };
                let _ = answer.send(pings.iter().map(ping).collect());
            }
            ServiceOrder::ForgetPings => engine.insiders().forget_pings(),
            ServiceOrder::PublishFromBus(message, number) => {
                services.principals.publish_from_bus((engine, now), *message, number);
            }
            // A shard that does not serve yet, or no more, closes it.
            ServiceOrder::Enter(inside) if *serving => {
                let (transport, listener, peer) = inside.into_parts();
                self.shard.admission().admit(transport, listener, peer);
            }
            ServiceOrder::Enter(_) => {}
            ServiceOrder::AddPrincipal { number, principal, answered, unanswered } => {
                let engine = (engine, now);
                services.principals.add(engine, number, *principal, answered, unanswered);
            }
            ServiceOrder::RemovePrincipal { number } => {
                services.principals.remove((engine, now), number);
            }
            ServiceOrder::PublishAs { principal, message, number } => {
                services.principals.publish((engine, now), principal, *message, number);
            }
            ServiceOrder::ReadRetained { principal, topic, answer } => {
                let _ = answer.send(engine.questions().retained_for(now, &principal, &topic));
            }
            ServiceOrder::TellTaken(sink) => services.taken = Some(sink),
            ServiceOrder::Observe { number, observer, sink, answer } => {
                let _ = answer.send(services.observers.begin(engine, number, *observer, sink));
            }
            ServiceOrder::AttachObserver { observer, window, sink } => {
                services.observers.attach((engine, now), observer, window, sink);
            }
            ServiceOrder::EndObserver { number } => {
                services.observers.end((engine, now), number);
            }
            ServiceOrder::Observed { ticket, answer } => engine.insiders().confirm_observed(now, ticket, answer),
            ServiceOrder::SendElsewhere { tenant, client_id, reference, answer } => {
                let _ = answer.send(engine.insiders().send_elsewhere(now, tenant, &client_id, &reference));
            }
        }
    }

    fn links(&mut self, rtt: bool) -> Vec<ClientLink> {
        let clients = self.shard.engine.questions().connected_clients();
        let clients: Vec<_> = clients.map(|(tenant, id, key)| (tenant, id.to_owned(), key)).collect();
        let table = &mut self.shard.table;
        let link = |(tenant, client_id, key)| {
            let transport = rtt.then(|| table.get(key)).flatten();
            ClientLink { tenant, client_id, rtt_us: transport.and_then(|(_, transport)| transport.rtt_us()) }
        };
        clients.into_iter().map(link).collect()
    }

    pub(crate) fn take_pong(&mut self, tenant: TenantId, client_id: String) {
        if let Some((pongs, wake)) = &self.shard.services.pongs
            && pongs.try_send(Pong { tenant, client_id, at: Instant::now() }).is_ok()
        {
            wake();
        }
    }
}
