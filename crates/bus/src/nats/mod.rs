//! The bus on NATS: core for live messages, JetStream for logs. The client has its own thread.

mod copies;
mod diagnosis;
mod lane;
mod live;
mod message;
mod naming;
mod pull;
mod reader;
mod server;
mod silence;
mod standing;
mod unreadable;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use async_nats::jetstream::context::ContextBuilder;
use async_nats::{ClientError, ConnectOptions, Event};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot, watch};

use crate::address::{Credentials, Server as ServerAddress};
use crate::backend::{Backend, Target};
use crate::budget::Ticket;
use crate::complaints::Complaints;
use crate::completion::Completion;
use crate::connection::Link;
use crate::feed::Feed;
use crate::live::Mailbox;
use crate::{
    Append, Bounds, BusError, Connection, Epoch, LiveMessage, LogPartition, LogSpec, Observer, Position, Reader,
    Settings, SubjectFilter, Subscription, Tally, Wake,
};
use diagnosis::{Ours, diagnose};
use lane::{Lane, Request};
use reader::ReaderTask;
use server::{Server, is_up, told};

/// How long an answer may take before the request is repeated.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long an abandoned answer keeps its place among the outstanding ones.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);
/// Longest pause between attempts to connect.
const CONNECT_EVERY: Duration = Duration::from_secs(2);
/// Messages that the client keeps for the socket; the bus counts further waiting ones.
const CLIENT_CAPACITY: usize = 256;

struct Nats {
    server: Server,
    link: Arc<Link>,
    handle: Handle,
    lanes: Mutex<HashMap<LogPartition, UnboundedSender<Request>>>,
    live: UnboundedSender<(LiveMessage, Ticket)>,
    /// Dropped with the bus, which ends its thread.
    _stop: oneshot::Sender<()>,
}

pub(crate) fn open(
    servers: &[ServerAddress],
    credentials: Option<&Credentials>,
    settings: &Settings,
    observer: Observer,
) -> Result<Arc<dyn Backend>, BusError> {
    let names: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let link = Link::new(names.join(","), observer);
    let (turns, turns_seen) = watch::channel(0);
    let ours = Ours { tls: settings.tls, has_certificate: settings.tls_identity.is_some() };
    let ear = Ear { link: Arc::clone(&link), turns, complaints: Arc::default(), servers: servers.into(), ours };
    let mut options = options(settings, ear);
    if let Some(credentials) = credentials {
        options = options.user_and_password(credentials.user.clone(), credentials.password().to_owned());
    }
    let addresses: Vec<String> = servers.iter().map(|server| format!("nats://{server}")).collect();
    let (ready, started) = channel();
    let start = Start { options, addresses, turns: turns_seen, settings: Arc::new(settings.clone()), ready };
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new().name("bus-nats".to_owned());
    thread.spawn(move || run(start, stopped)).map_err(|error| BusError::Client(error.to_string()))?;
    let (server, handle) = started.recv().map_err(|_| BusError::Client("its thread has ended".to_owned()))??;
    let (live, inbox) = unbounded_channel();
    handle.spawn(live::send(server.client.clone(), server.settings.prefix.clone(), inbox));
    Ok(Arc::new(Nats { server, link, handle, lanes: Mutex::default(), live, _stop: stop }))
}

/// The arguments of the thread.
struct Start {
    options: ConnectOptions,
    addresses: Vec<String>,
    turns: watch::Receiver<u64>,
    settings: Arc<Settings>,
    ready: Sender<Result<(Server, Handle), BusError>>,
}

/// The thread of the client, until the bus has gone.
fn run(start: Start, stopped: oneshot::Receiver<()>) {
    let Start { options, addresses, turns, settings, ready } = start;
    let named = addresses.len();
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(BusError::Client(error.to_string())))),
    };
    let handle = runtime.handle().clone();
    runtime.block_on(async move {
        // It does not wait for the servers.
        let client = match options.connect(addresses).await {
            Ok(client) => client,
            Err(error) => return drop(ready.send(Err(BusError::Client(told(&error))))),
        };
        let context = ContextBuilder::new()
            .timeout(ANSWER_WITHIN)
            .ack_timeout(FORGOTTEN_AFTER)
            .max_ack_inflight(settings.max_waiting.min(1 << 20))
            .build(client.clone());
        // The standard library seeds its hashers from the system: no other process has this number.
        let writer = RandomState::new().hash_one(std::process::id());
        tokio::spawn(silence::watch(client.clone(), turns.clone(), settings.lease));
        let (copies, standings) = (Arc::default(), Arc::default());
        let server = Server { client, context, turns, settings, writer, named, copies, standings };
        if ready.send(Ok((server, handle))).is_ok() {
            // The bus says nothing here; its end is that the sender goes.
            let _ = stopped.await;
        }
    });
    // Tasks under way are dropped with the runtime, and their callers get the outcome that the bus has stopped.
}

fn options(settings: &Settings, ear: Ear) -> ConnectOptions {
    let mut options = ConnectOptions::new()
        .name(format!("tidegate {}", settings.prefix))
        .retry_on_initial_connect()
        .max_reconnects(None)
        .request_timeout(Some(ANSWER_WITHIN))
        // A way that drops everything says nothing of a connection that is begun, either.
        .connection_timeout(silence::patience(settings.lease).min(ANSWER_WITHIN))
        .client_capacity(CLIENT_CAPACITY)
        .subscription_capacity(settings.max_ahead.min(1 << 16))
        .reconnect_delay_callback(|attempts| CONNECT_EVERY.min(Duration::from_millis(50) * attempts.min(1_000) as u32))
        .require_tls(settings.tls)
        .event_callback(move |event| {
            ear.hear(&event);
            std::future::ready(())
        });
    if let Some(authorities) = &settings.tls_ca {
        options = options.add_root_certificates(authorities.clone());
    }
    if let Some(identity) = &settings.tls_identity {
        options = options.add_client_certificate(identity.certificate.clone(), identity.key.clone());
    }
    options
}

/// Notes the client's reports about its connection.
struct Ear {
    link: Arc<Link>,
    turns: watch::Sender<u64>,
    complaints: Arc<Complaints>,
    servers: Arc<[ServerAddress]>,
    ours: Ours,
}

impl Ear {
    fn hear(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.turns.send_if_modified(|turns| step(turns, !is_up(*turns)));
                self.complaints.connected();
                self.link.connected();
            }
            Event::Disconnected | Event::Closed => {
                self.turns.send_if_modified(|turns| step(turns, is_up(*turns)));
                self.link.lost();
            }
            Event::SlowConsumer(_) => {
                tracing::warn!("live messages or records arrived faster than they were processed; some were dropped");
            }
            Event::LameDuckMode => tracing::info!("a server of the bus is about to stop"),
            Event::ServerError(error) => tracing::warn!(%error, "a server of the bus reports an error"),
            Event::ClientError(error) => self.complain(error),
            Event::Draining => {}
        }
    }

    fn complain(&self, error: &ClientError) {
        if is_up(*self.turns.borrow()) {
            tracing::warn!(%error, "the bus client met an error");
            return;
        }
        tracing::debug!(%error, "the bus client cannot reach its servers");
        if !self.complaints.may_look() {
            return;
        }
        let (servers, link, complaints) =
            (Arc::clone(&self.servers), Arc::clone(&self.link), Arc::clone(&self.complaints));
        let said = match error {
            ClientError::Other(said) => said.clone(),
            error => error.to_string(),
        };
        let ours = self.ours;
        tokio::spawn(async move {
            let complaint = diagnose(&servers, ours, &said).await;
            complaints.tell(&link, &complaint);
        });
    }
}

fn step(turns: &mut u64, changes: bool) -> bool {
    *turns += u64::from(changes);
    changes
}

impl Nats {
    /// Hands a request to the one task that writes to the partition.
    fn write(&self, target: Target, request: Request) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(target.place.clone()).or_insert_with(|| {
            let (requests, inbox) = unbounded_channel();
            self.handle.spawn(Lane::new(self.server.clone(), target).run(inbox));
            requests
        });
        // A task that has gone drops the request, which tells that the bus has stopped.
        let _ = lane.send(request);
    }
}

impl Backend for Nats {
    fn connection(&self) -> Connection {
        self.link.state()
    }

    fn failure(&self) -> Option<String> {
        self.link.failure()
    }

    fn create(&self, spec: Arc<LogSpec>, completion: Completion<()>) {
        let server = self.server.clone();
        self.handle.spawn(async move {
            let outcome = server.create(&spec, completion.deadline()).await;
            completion.finish(outcome);
        });
    }

    fn own(&self, target: Target, completion: Completion<Epoch>) {
        self.write(target, Request::Own(completion));
    }

    fn append(&self, target: Target, append: Append, completion: Completion<Position>) {
        self.write(target, Request::Append(append, completion));
    }

    fn read(&self, target: Target, from: Position, wake: Wake) -> Result<Reader, BusError> {
        let room = Arc::new(Notify::new());
        let notify = Arc::clone(&room);
        let feed = Feed::new(from, wake, &self.server.settings, Box::new(move || notify.notify_one()));
        let (server, headless) = (self.server.clone(), Tally::default());
        let made = OnceLock::new();
        let task = ReaderTask { server, target, feed: Arc::clone(&feed), room, headless, made };
        self.handle.spawn(task.run());
        Ok(Reader::new(feed))
    }

    fn bounds(&self, target: Target, completion: Completion<Bounds>) {
        let server = self.server.clone();
        self.handle.spawn(async move {
            let outcome = server.bounds(&target.place, completion.deadline()).await;
            completion.finish(outcome);
        });
    }

    fn trim(&self, target: Target, below: Position, completion: Completion<()>) {
        let server = self.server.clone();
        self.handle.spawn(async move {
            let outcome = server.trim(&target, below, completion.deadline()).await;
            completion.finish(outcome);
        });
    }

    fn publish(&self, message: LiveMessage, room: Ticket) -> Result<(), BusError> {
        if !self.link.state().is_connected() {
            let reason = "live messages do not wait".to_owned();
            return Err(BusError::Away { waited: Duration::ZERO, reason });
        }
        self.live.send((message, room)).map_err(|_| BusError::Stopped)
    }

    fn subscribe(&self, filter: SubjectFilter, wake: Wake) -> Result<Subscription, BusError> {
        let mailbox = Mailbox::new(filter.clone(), wake, &self.server.settings);
        let (end, ended) = oneshot::channel();
        self.handle.spawn(live::receive(self.server.clone(), filter, Arc::clone(&mailbox), ended));
        Ok(Subscription::new(mailbox, Box::new(move || drop(end))))
    }
}
