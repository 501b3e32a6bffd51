//! Starting and stopping: from settings to running shards, and back.

mod listening;
mod stopped;
mod ways;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle, panicking};
use std::time::Duration;

use mio::{Poll, Waker};
use tidegate_engine::{Authentication, ListenerId, MAX_SHARDS, Millis, Restored, ShardId};
use tidegate_store::{Running, Status, Store};

use crate::address::{ListenAddress, LocalAddress};
use crate::admission::Admission;
use crate::broker_link::Dialer;
use crate::clock::{Clock, time_until};
use crate::cluster::{LinkBindError, LinksThread, PreparedLinks};
use crate::durable::{self, DurableError, LeftRuns, ShardJournal, restorer};
use crate::files::{TooFewFiles, raise_open_file_limit};
use crate::handle::{Fleet, NodeHandle};
use crate::inbox::inbox;
use crate::inner::Family;
use crate::limits::{GOODBYE_LIMIT, LONGEST_WAIT};
use crate::listener::BindError;
use crate::memory::room::Room;
use crate::observer::Observer;
use crate::orders::{Admin, ShardInbox, ShardSender, ToShard};
use crate::quic::MAX_ENDPOINTS;
use crate::settings::NodeSettings;
use crate::shard::{Shard, ShardSeed, Shared, WAKER, listener_token};
use crate::tls::{ALPN_HTTP, ALPN_MQTT, FileWatch, TlsError, TlsListener, TlsListeners};
use listening::{Listening, listen, spread, spread_quic};
pub use stopped::{HeldStore, Stopped};
use ways::{commits_of, start_links};

/// Why a node did not start. All started parts were stopped.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A number of shards that is not served.
    #[error("{0} shards are not possible: use 1 to {MAX_SHARDS}")]
    Shards(u16),
    /// Listeners and their settings do not match one to one.
    #[error("there are {addresses} listener addresses for the settings of {settings} listeners: give one for each")]
    Listeners {
        /// Addresses given.
        addresses: usize,
        /// Settings given.
        settings: usize,
    },
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Other nodes of the cluster cannot be waited for.
    #[error(transparent)]
    Cluster(#[from] LinkBindError),
    /// More sockets for QUIC than are served.
    #[error("{0} sockets for QUIC are too many: {MAX_ENDPOINTS} are possible; a host name may have several addresses")]
    QuicSockets(usize),
    /// A TLS listener cannot use its files.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The limit of open files cannot be read.
    #[error("cannot read the limit of open files: {0}")]
    OpenFiles(#[source] io::Error),
    /// More connections are configured than files are granted.
    #[error(transparent)]
    TooFewFiles(#[from] TooFewFiles),
    /// The system refuses a poller.
    #[error("cannot set up the event loop of {shard}: {source}; is the limit of open files very low?")]
    Poll {
        /// The shard.
        shard: ShardId,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The system refuses the thread that looks at certificates.
    #[error("cannot start the thread that looks at certificates: {0}; raise the limit of threads (`ulimit -u`)")]
    TlsThread(#[source] io::Error),
    /// The content of the store cannot be served.
    #[error(transparent)]
    Durable(#[from] DurableError),
    /// The system refuses the thread of the links to other nodes.
    #[error("cannot start the thread of the links to other nodes: {0}; raise the limit of threads (`ulimit -u`)")]
    LinksThread(#[source] io::Error),
    /// The system refuses a thread.
    #[error(
        "cannot start the thread of {shard}: {source}; use fewer shards or raise the limit of threads (`ulimit -u`)"
    )]
    Thread {
        /// The shard.
        shard: ShardId,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A running broker: its shards and their listeners. Dropping it closes everything without a goodbye; use
/// [`Node::stop`].
pub struct Node {
    handle: NodeHandle,
    clock: Clock,
    addresses: Vec<LocalAddress>,
    /// The listener of each of them.
    owners: Vec<ListenerId>,
    threads: Vec<JoinHandle<()>>,
    /// Ends before the shards, which then have no links.
    links: Option<LinksThread>,
    /// Outlives the shards' threads: their last batches are committed when it stops.
    store: Option<Running>,
    restored: Restored,
    left_usage: LeftRuns,
    /// Looks at the files of TLS listeners as long as the node lives.
    _watch: Option<FileWatch>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("addresses", &self.addresses).field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Node {
    /// Raises the limit of open files, binds all listeners, and starts one thread per shard. When this returns, clients
    /// can connect.
    ///
    /// # Errors
    /// When the settings are invalid or a system call fails.
    pub fn start(settings: NodeSettings) -> Result<Self, StartError> {
        check(&settings)?;
        let ground = Ground::open(&settings)?;
        Self::begin(settings, ground, None)
    }

    /// A node within another one, from which its clients come.
    pub(crate) fn start_within(settings: NodeSettings, family: &Family) -> Result<Self, StartError> {
        let ground = Ground { family: family.clone(), listening: Listening::default(), watch: None, links: None };
        Self::begin(settings, ground, None)
    }

    /// The same for a node with a store. It restores the content of the store before any client is served.
    ///
    /// # Errors
    /// The same, and when the content of the store cannot be read or restored.
    pub fn start_with_store(settings: NodeSettings, store: Store) -> Result<Self, StartError> {
        check(&settings)?;
        let ground = Ground::open(&settings)?;
        ground.family.bans.follow(&ground.family.admission);
        Self::begin(settings, ground, Some(store))
    }

    fn begin(settings: NodeSettings, ground: Ground, store: Option<Store>) -> Result<Self, StartError> {
        let Ground { family, listening: Listening { acceptors, quic, addresses, owners }, watch, links } = ground;
        let (event_loops, senders) = event_loops(settings.shards)?;
        let dialer = Arc::new(dialer_of(&settings));
        let identities = settings.identities;
        let fleet = Fleet {
            dialer: Arc::clone(&dialer),
            brokers: settings.brokers,
            identities: identities.clone(),
            links: links.as_ref().map(|links| Arc::new(links.handle())),
        };
        let handle = NodeHandle::new(senders.clone(), &family, fleet);
        let Family { tls, clock, admission, connections, max_connections, .. } = family.clone();
        let mut node = Self::idle(handle, clock, (addresses, owners), watch);
        let mut engine = settings.engine;
        // Bans and the limits of users are checked at every CONNECT, besides any other authentication.
        let asks_outside = engine.authentication == Authentication::External;
        engine.authentication = Authentication::External;
        let observer = Arc::clone(&settings.observer);
        let shared = Arc::new(Shared {
            max_connections,
            connections,
            tls,
            listener_names: engine.listeners.iter().map(|listener| listener.name.as_str().into()).collect(),
            observer: settings.observer,
            asks_outside,
            presets: settings.presets,
            cluster_secret: settings.cluster.as_ref().map(|cluster| cluster.secret.clone()),
            admission: Arc::clone(&admission),
            flight: settings.flight,
            dialer,
        });
        let engine = Arc::new(engine);
        let seed = settings.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let spread = spread(acceptors, settings.shards);
        let quic = spread_quic(quic, &senders)?;
        let (restorer, mut seeds) = store.as_ref().map(|_| restorer(settings.shards, admission, clock.now())).unzip();
        let parts = event_loops.into_iter().zip(spread).zip(quic);
        for (shard, (((poll, inbox), acceptors), quic)) in (0..settings.shards).map(ShardId).zip(parts) {
            let seed = ShardSeed {
                place: tidegate_engine::ShardPosition { shard, shards: settings.shards },
                clock: node.clock,
                settings: Arc::clone(&engine),
                seed: seed.wrapping_add(u64::from(shard.0)),
                poll,
                inbox,
                inboxes: senders.clone(),
                acceptors,
                quic,
                shared: Arc::clone(&shared),
                access: settings.access.clone(),
                homes: settings.homes.clone(),
                links: links.as_ref().map(PreparedLinks::sender),
                restore: seeds.as_mut().and_then(VecDeque::pop_front),
            };
            node.threads.push(start_shard(seed)?);
        }
        if let (Some(store), Some(restorer)) = (store, restorer) {
            (node.restored, node.left_usage) = restorer.run(&store, Room::of_process(settings.memory_ceiling))?;
            node.serve_from(store, &senders)?;
        }
        if let Some(links) = links {
            let alarm = Alarm { shard: ShardId(0), observer };
            node.links = Some(start_links(links, clock, &senders, alarm)?);
        }
        if let Some(identities) = identities {
            identities.0.begin(family).map_err(StartError::TlsThread)?;
        }
        Ok(node)
    }

    /// A node without threads.
    fn idle(
        handle: NodeHandle,
        clock: Clock,
        (addresses, owners): (Vec<LocalAddress>, Vec<ListenerId>),
        watch: Option<FileWatch>,
    ) -> Self {
        Self {
            handle,
            clock,
            addresses,
            owners,
            threads: Vec::new(),
            links: None,
            store: None,
            restored: Restored::default(),
            left_usage: LeftRuns::default(),
            _watch: watch,
        }
    }

    /// Lets clients in, now that all that the store holds is taken in.
    fn serve_from(&mut self, store: Store, inboxes: &[ShardSender]) -> Result<(), StartError> {
        let running =
            durable::start(store, inboxes.iter().cloned().map(commits_of).collect(), self.handle.stored_bans())?;
        for (shard, inbox) in (0..).zip(inboxes) {
            inbox.send(ToShard::Admin(Admin::Serve(ShardJournal::new(&running, shard, self.left_usage.this_run))));
        }
        self.store = Some(running);
        Ok(())
    }

    /// The state restored from the store at the start.
    pub fn restored(&self) -> Restored {
        self.restored
    }

    /// At the first call the usage of earlier processes in the store, until [`NodeHandle::forget_usage`].
    pub fn take_left_usage(&mut self) -> LeftRuns {
        self.left_usage.take()
    }

    /// How the store is doing, where there is one.
    pub fn store_status(&self) -> Option<Arc<Status>> {
        self.store.as_ref().map(Running::status)
    }

    /// The addresses it listens on, in the order of the settings. A host name with several addresses counts several times.
    pub fn local_addresses(&self) -> &[LocalAddress] {
        &self.addresses
    }

    /// The first address of those listeners that are wanted which is not a file.
    pub fn socket_of(&self, wanted: impl Fn(ListenerId) -> bool) -> Option<SocketAddr> {
        let mut all = self.owners.iter().zip(&self.addresses).filter(|(owner, _)| wanted(**owner));
        all.find_map(|(_, address)| address.socket())
    }

    /// For other threads: numbers and requests.
    pub fn handle(&self) -> NodeHandle {
        self.handle.clone()
    }

    /// Stops: listeners close, wills are published as configured, clients are notified, output is flushed, connections
    /// close. Connections that remain after `limit` are cut off. Then the threads end.
    pub fn stop(mut self, limit: Duration) -> Stopped {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let deadline = self.clock.now().monotonic.plus(milliseconds);
        // A client may be the receiver of another's will: no connection closes before all shards have sent theirs.
        self.all_report(deadline, |sent| Admin::LastWills { sent });
        let mut drained = self.all_report(deadline, |drained| Admin::Stop { drained });
        if let Some(identities) = self.handle.identities() {
            // From here on no client is on its way to them.
            drained &= identities.stop(time_until(deadline, self.clock.now().monotonic).unwrap_or_default());
        }
        if let Some(links) = &self.links {
            let left = time_until(deadline, self.clock.now().monotonic).unwrap_or_default();
            links.say_goodbye(left.min(GOODBYE_LIMIT));
        }
        let (usage, users) =
            self.handle.report_by_user().map(|report| (report.usage, report.users)).unwrap_or_default();
        let (failed, store) = self.end();
        Stopped { drained, failed, store, usage, users }
    }

    /// Stops as [`Self::stop`] does where another process has taken this one's place: the wills of its clients are that
    /// one's to publish.
    pub fn stop_replaced(self, limit: Duration) -> Stopped {
        self.handle.tell_all(|| Admin::LeaveWills);
        self.stop(limit)
    }

    /// Asks every shard for the same thing and waits until all have reported that it is done, or until `deadline`; says
    /// whether all have. A shard that is done serves the others until all are.
    fn all_report(&self, deadline: Millis, request: impl Fn(Sender<ShardId>) -> Admin) -> bool {
        let (done, reports) = channel();
        self.handle.tell_all(|| request(done.clone()));
        drop(done);
        let mut waiting: HashSet<ShardId> = (0..self.handle.shards()).map(ShardId).collect();
        while !waiting.is_empty() {
            let left = time_until(deadline, self.clock.now().monotonic).unwrap_or(LONGEST_WAIT);
            match reports.recv_timeout(left.min(LONGEST_WAIT)) {
                Ok(shard) => {
                    waiting.remove(&shard);
                }
                Err(_) if self.is_over(deadline) => break,
                Err(_) => {}
            }
        }
        waiting.is_empty()
    }

    /// Whether waiting for the shards is pointless: the time is over, or one of them has ended.
    fn is_over(&self, deadline: Millis) -> bool {
        deadline <= self.clock.now().monotonic || self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends all threads and returns the shards that had panicked, and the store.
    fn end(&mut self) -> (Vec<ShardId>, HeldStore) {
        self.links = None;
        self.handle.tell_all(|| Admin::Exit);
        let threads = std::mem::take(&mut self.threads);
        let ended = (0..).map(ShardId).zip(threads.into_iter().map(JoinHandle::join));
        let failed = ended.filter(|(_, outcome)| outcome.is_err()).map(|(shard, _)| shard).collect();
        // This commits the batches that the shards have submitted.
        let store = self.store.take().and_then(Running::stop);
        (failed, HeldStore(store))
    }
}

/// The shared parts of a node: its own, or the parts of the node around it.
struct Ground {
    family: Family,
    listening: Listening,
    watch: Option<FileWatch>,
    /// The prepared listener for links of other nodes.
    links: Option<PreparedLinks>,
}

impl Ground {
    fn open(settings: &NodeSettings) -> Result<Self, StartError> {
        let limit = raise_open_file_limit().map_err(StartError::OpenFiles)?;
        limit.check(settings.max_connections)?;
        let tls = Arc::new(open_tls(settings)?);
        let listening = listen(settings, &tls)?;
        let watch = watch_files(&tls, settings.tls_check)?;
        let links = settings.cluster.as_ref().map(PreparedLinks::open).transpose()?;
        let clock = Clock::start();
        let admission = Arc::new(Admission::new(clock.now(), settings.admission.clone(), settings.listeners.len()));
        let (bans, connections) = (Arc::default(), Arc::default());
        let max_connections = limit.connections(settings.max_connections);
        Ok(Self {
            family: Family { tls, clock, admission, bans, connections, max_connections },
            listening,
            watch,
            links,
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

/// The event loop of a shard.
type EventLoop = (Poll, ShardInbox);

/// A poller with an inbox for each shard, and the sending sides of all inboxes.
fn event_loops(shards: u16) -> Result<(Vec<EventLoop>, Vec<ShardSender>), StartError> {
    let make = |shard| {
        let refused = |source| StartError::Poll { shard, source };
        let poll = Poll::new().map_err(refused)?;
        let (sender, inbox) = inbox(Waker::new(poll.registry(), WAKER).map_err(refused)?);
        Ok(((poll, inbox), sender))
    };
    let pairs: Vec<_> = (0..shards).map(ShardId).map(make).collect::<Result<_, StartError>>()?;
    Ok(pairs.into_iter().unzip())
}

fn check(settings: &NodeSettings) -> Result<(), StartError> {
    if settings.shards == 0 || settings.shards > MAX_SHARDS {
        return Err(StartError::Shards(settings.shards));
    }
    let (addresses, engine) = (settings.listeners.len(), settings.engine.listeners.len());
    if addresses != engine {
        return Err(StartError::Listeners { addresses, settings: engine });
    }
    Ok(())
}

/// Reads the files of all TLS listeners.
fn open_tls(settings: &NodeSettings) -> Result<TlsListeners, TlsError> {
    let mut listeners = BTreeMap::new();
    for (position, address) in settings.listeners.iter().enumerate() {
        match settings.tls.get(&position) {
            Some(of_listener) if address.is_tls() => {
                let alpn = if matches!(address, ListenAddress::Tls(_) | ListenAddress::Quic(_)) {
                    ALPN_MQTT
                } else {
                    ALPN_HTTP
                };
                listeners.insert(position, Arc::new(TlsListener::new(of_listener.clone(), alpn)?));
            }
            None if !address.is_tls() => {}
            None => return Err(TlsError::NoSettings { address: address.to_string() }),
            Some(_) => return Err(TlsError::NotTls { address: address.to_string() }),
        }
    }
    Ok(TlsListeners::new(listeners))
}

fn watch_files(tls: &Arc<TlsListeners>, interval: Duration) -> Result<Option<FileWatch>, StartError> {
    if tls.is_empty() || interval.is_zero() {
        return Ok(None);
    }
    FileWatch::start(Arc::clone(tls), interval).map(Some).map_err(StartError::TlsThread)
}

fn start_shard(mut seed: ShardSeed) -> Result<JoinHandle<()>, StartError> {
    let shard = seed.place.shard;
    for (position, acceptor) in seed.acceptors.iter_mut().enumerate() {
        acceptor
            .register(seed.poll.registry(), listener_token(position))
            .map_err(|source| StartError::Poll { shard, source })?;
    }
    for endpoint in &seed.quic {
        endpoint.register(seed.poll.registry()).map_err(|source| StartError::Poll { shard, source })?;
    }
    let observer = Arc::clone(&seed.shared.observer);
    let body = move || {
        let mut seed = seed;
        let _alarm = Alarm { shard, observer };
        let restore = seed.restore.take();
        Shard::new(seed, restore.is_none()).run(restore);
    };
    let builder = Builder::new().name(format!("shard-{}", shard.0));
    builder.spawn(body).map_err(|source| StartError::Thread { shard, source })
}

/// Reports a panic if it is dropped by one.
struct Alarm {
    shard: ShardId,
    observer: Arc<dyn Observer>,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if panicking() {
            self.observer.shard_failed(self.shard);
        }
    }
}

/// How brokers are connected to. Another member of the cluster may work off the connections of this one's last life: a
/// member asks before it connects.
fn dialer_of(settings: &NodeSettings) -> Dialer {
    let is_member = settings.cluster.as_ref().is_some_and(|cluster| cluster.carried != crate::cluster::Carried::All);
    if is_member { Dialer::held() } else { Dialer::default() }
}
