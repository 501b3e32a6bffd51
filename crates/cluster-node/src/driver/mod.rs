//! A node of a cluster: carries the tables of `tidegate-cluster` over the bus, and carries out their steps on the node.
//!
//! Four threads, and a fifth where shares follow measures. `control` speaks to the bus: it renews the lease, reads tables, says what this node is, and decides
//! where this node leads. `work` carries out the steps of a table on the shards, in order, which may take a while.
//! `watch` compares what the shards serve with the table, `doubt` looks whether other nodes still run, and `load` measures.
//! docs/cluster.md tells the whole of it.

mod alike;
mod balances;
mod behind;
mod control;
mod counters;
mod doubt;
mod encryption;
mod ending;
mod error;
mod event;
#[cfg(test)]
mod first_table;
mod following;
mod forgotten;
mod inquiry;
mod kind;
mod lead;
#[cfg(test)]
mod linked_peer;
mod load;
mod logs;
mod measuring;
mod memory;
mod namesake;
mod parcel;
mod parts;
mod place;
mod reach;
mod restore;
mod sets;
mod shown;
mod status;
mod tenants;
mod view;
mod watch;
mod weights;
mod work;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_cluster::{Addresses, Weight};
use tidegate_engine::{Home, Homes as EngineHomes, Millis, PARTITIONS};
use tidegate_node::{Carried, ClusterSettings, Node, NodeHomes, NodeName, Secret};

use self::control::Control;
pub use self::error::NodeError;
use self::event::Event;
use self::logs::Logs;
pub use self::logs::settings as bus_settings;
use self::memory::MemoryFile;
use self::restore::Restorer;
pub use self::status::ClusterApi;
use self::status::{NodeKind, Shared};
use self::weights::WeightPolicy;
use tidegate_admin::members::RELOAD_PATIENCE;
use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::reload::Reloadable;
use tidegate_config::sections::cluster::{Redirect, Share};
use tidegate_identity::tenant_numbers::Agree;
use tidegate_mirror::MirrorDisk;
use tidegate_process::signals::BrokerSignals;

/// Pause before the next check whether everything was handed over.
const LEAVE_PAUSE: Duration = Duration::from_millis(20);
/// How long a node that stops waits for members of shared groups to answer messages that it has dealt. Then the homes of the
/// groups get these messages.
const KEPT_WAIT: Duration = Duration::from_secs(2);
/// How long the bus may take to agree on the numbers of tenants.
const AGREEMENT_PATIENCE: Duration = Duration::from_secs(30);
const _: () = assert!(AGREEMENT_PATIENCE.as_secs() + 10 < RELOAD_PATIENCE.as_secs(), "a reload agrees within its time");
/// How often a start that waits for the cluster says so.
const STILL_WAITING: Duration = Duration::from_secs(10);

/// The state of a node of a cluster before it runs.
pub struct Joining {
    logs: Logs,
    name: NodeName,
    incarnation: u64,
    settings: ClusterSettings,
    redirect: Redirect,
    /// The last life under the name, if it was silent for a lease before this start.
    silent_life: Option<u64>,
}

/// The store of the node, whose files are on a bus.
pub struct StoreOnBus {
    /// The files.
    pub disk: Arc<MirrorDisk>,
    /// Whether the data directory had the files before: then the process that had them last has ended.
    pub was_here: bool,
    /// Whether the other nodes find the files when this one dies.
    pub is_for_cluster: bool,
}

/// The fixed properties of the running node.
struct Setup {
    name: NodeName,
    incarnation: u64,
    redirect: Redirect,
    lease: Duration,
    /// How long nodes stay as they are before shares are made even.
    settle: Duration,
    addresses: Addresses,
    /// Whether others find the store on the bus when this node dies.
    kept: bool,
    /// The address at which the process listens for links ([`place::of_listener`]).
    place: Option<String>,
    /// Whether messages cross by brokers, and not by links.
    orchestrator: bool,
    /// The prefix of an orchestrator's messages that cross by links all the same.
    address_prefix: Option<String>,
    weight: Weight,
    /// The word of `cluster.balance`.
    balance: String,
}

/// Why the node has not joined.
pub enum NotJoined {
    /// It got a signal to stop.
    Stopped,
    /// Something cannot be used.
    Failed(NodeError),
}

impl<E: Into<NodeError>> From<E> for NotJoined {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Reaches the bus, and agrees with the other nodes on a secret where none is configured. Waits for the bus.
///
/// # Errors
/// When something of the configuration cannot be used, or the process gets a signal to stop meanwhile.
pub fn join(config: &Config, status: &BrokerStatus, signals: &mut BrokerSignals) -> Result<Option<Joining>, NotJoined> {
    if config.cluster.name.is_empty() {
        return Ok(None);
    }
    let name = NodeName::new(&config.cluster.name).map_err(NodeError::Name)?;
    let listen = tidegate_config::cluster::listen(&config.cluster, &config.listeners)?;
    let configured = tidegate_config::cluster::secret(&config.cluster)?;
    let logs = Logs::open(config, status, &mut || signals.stop_is_asked())?;
    let secret = if let Some(secret) = configured {
        secret
    } else {
        if !listen.ip().is_loopback() {
            tracing::warn!(
                "the cluster's secret is on the bus: every reader of the bus can impersonate a node; set cluster.secret_file"
            );
        }
        logs.agree_on_secret(&mut || signals.stop_is_asked())?
    };
    let silent_life = namesake::wait_for_end(config, &logs, listen, status, &mut || signals.stop_is_asked())?;
    status.has_bus();
    let secret = Secret::new(&secret).map_err(NodeError::Secret)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let incarnation = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let mut settings = ClusterSettings::new(name.clone(), incarnation, listen, secret);
    settings.carried = match address_prefix(config) {
        _ if !config.orchestrator.enabled => Carried::All,
        Some(prefix) => Carried::Below(prefix),
        None => Carried::Values,
    };
    settings.tls = encryption::link_tls(config, listen)?;
    let redirect = config.cluster.redirect;
    Ok(Some(Joining { logs, name, incarnation, settings, redirect, silent_life }))
}

impl Joining {
    /// How this node agrees with the others on the numbers of tenants.
    pub fn tenant_agreement(&self) -> Arc<Agree> {
        let logs = self.logs.clone();
        Arc::new(move |wanted: &[String]| {
            let deadline = Instant::now() + AGREEMENT_PATIENCE;
            logs.agree_on_tenants(wanted, &mut || Instant::now() > deadline).map_err(|error| match error {
                NotJoined::Failed(error) => error.into(),
                NotJoined::Stopped => {
                    format!("the numbers of tenants on the bus: no answer within {AGREEMENT_PATIENCE:?}; see whether its servers run").into()
                }
            })
        })
    }

    /// The cluster settings of the node.
    pub fn settings(&self) -> ClusterSettings {
        self.settings.clone()
    }

    /// No client is served before there is a table with this node in it.
    pub fn homes_at_start(&self) -> Arc<NodeHomes> {
        let table = EngineHomes {
            homes: [Home::Nowhere; PARTITIONS as usize],
            references: Vec::new(),
            redirect: self.redirect == Redirect::V5,
            lease_until: Millis::NEVER,
            patience_ms: 0,
        };
        Arc::new(NodeHomes { table: Arc::new(table), relays: Arc::default() })
    }

    /// Becomes a member, now that the node runs.
    ///
    /// # Errors
    /// When the system gives no thread, the memory file cannot be read, the store is of a process that was no member, or
    /// the node has no address for others.
    pub fn begin(
        self,
        config: &Config,
        node: &Node,
        admin: Option<String>,
        store: Option<StoreOnBus>,
    ) -> Result<ClusterNode, NodeError> {
        let Self { logs, name, incarnation, redirect, silent_life, .. } = self;
        let directory = config.store.directory.as_deref();
        let is_mirrored = store.is_some();
        let is_new = store.as_ref().is_some_and(|store| !store.was_here);
        let kept = store.as_ref().is_some_and(|store| store.is_for_cluster);
        let memory = MemoryFile::of(directory, store.map(|store| store.disk));
        let is_orchestrator = config.orchestrator.enabled;
        memory.check_store(&node.restored(), is_orchestrator)?;
        let mut remembered = memory.load()?;
        let place = node.handle().cluster_address().and_then(place::of_listener);
        remembered.life = remembered.ended_life(!is_new, place.as_deref(), silent_life);
        if !kept {
            tracing::warn!(
                todo = advice_to_keep(config, is_mirrored),
                "this node has no data directory: its sessions and retained messages are lost when it dies"
            );
        }
        let addresses: Addresses = tidegate_config::cluster::advertised(&config.cluster, node, admin)?;
        let (lease, patience) = (logs::lease(config), config.cluster.patience);
        let address_prefix = address_prefix(config);
        let kind = NodeKind { is_orchestrator, exchanges_addresses: address_prefix.is_some() };
        let shared = Shared::new(name.as_str(), node.handle(), lease, patience, kind);
        let shared = Arc::new(shared);
        let (events, inbox) = channel();
        let engine = config.engine_settings(config.node.shards());
        let restorer = Restorer::new(name.to_string(), node.handle(), logs.bus.clone(), engine, directory);
        let (handle, told) = (node.handle(), events.clone());
        let saves_to = memory.clone();
        let work = work::begin(&name, handle, logs.clone(), memory, restorer, Arc::clone(&shared), told)?;
        let setup = Setup {
            name,
            incarnation,
            redirect,
            lease,
            settle: config.cluster.settle,
            addresses,
            kept,
            place,
            orchestrator: is_orchestrator,
            address_prefix,
            weight: Weight(config.cluster.weight),
            balance: balances::word_of(config.cluster.balance),
        };
        shared.want_share(config.cluster.share == Share::AtOnce);
        shared.alike.set(alike::checksums(config));
        let policy = WeightPolicy::of(&config.cluster, &config.context)?;
        let (bus, is_measured) = (logs.bus.clone(), policy.measures());
        let control = Control::new(setup, logs, remembered, Arc::clone(&shared), events.clone(), work, policy);
        let thread = Builder::new().name("cluster".into()).spawn(move || control.run(&inbox));
        let thread = thread.map_err(NodeError::Thread)?;
        let watched = watch::begin(Arc::clone(&shared), saves_to)?;
        let mut looks = vec![watched, doubt::begin(Arc::clone(&shared), events.clone())?];
        if is_measured {
            looks.push(measuring::begin(Arc::clone(&shared), bus, config.limits.max_connections.into())?);
        }
        let watch = Mutex::new(Some(looks));
        Ok(ClusterNode { shared, events, thread: Mutex::new(Some(thread)), watch })
    }
}

/// A node that is, or wants to be, a member of its cluster.
pub struct ClusterNode {
    shared: Arc<Shared>,
    events: Sender<Event>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The threads that watch served partitions and other nodes, and measure, run until these are dropped.
    watch: Mutex<Option<Vec<Sender<()>>>>,
}

impl std::fmt::Debug for ClusterNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterNode").finish_non_exhaustive()
    }
}

impl ClusterNode {
    /// For the console.
    pub fn api(&self) -> ClusterApi {
        ClusterApi(Arc::clone(&self.shared))
    }

    /// Waits until all clients are served: until the node is a member, follows the table, is linked to the others, and
    /// all partitions have their homes. Returns whether that is so; not when the process gets a signal to stop.
    pub fn wait_until_ready(&self, signals: &mut BrokerSignals) -> bool {
        let mut told = Instant::now();
        while let Some(block_reason) = self.shared.block_reason() {
            if signals.stop_is_asked() {
                return false;
            }
            if told.elapsed() > STILL_WAITING {
                told = Instant::now();
                tracing::warn!(why = block_reason, "clients are refused until the node is ready");
            }
            pause(LEAVE_PAUSE);
        }
        true
    }

    /// Follows the reloads of sections that all members have alike.
    pub fn sections(&self) -> Box<dyn Reloadable> {
        Box::new(self.shared.alike.clone())
    }

    /// Why the process ends on its own account, if it does.
    pub fn astray(&self) -> Option<&str> {
        self.shared.astray()
    }

    /// Hands over all that is worked here, as far as others take it within the limit, and leaves the cluster.
    pub fn leave(&self, limit: Duration) {
        let began = Instant::now();
        self.shared.begin_to_end(limit);
        let _ = self.events.send(Event::Woken);
        while !self.shared.has_nothing_to_hand_over() {
            if began.elapsed() >= limit {
                tracing::warn!(
                    partitions = self.shared.served(),
                    "not all partitions were handed over within cluster.leave_timeout"
                );
                break;
            }
            pause(LEAVE_PAUSE);
        }
        if self.shared.serves_nothing() {
            self.take_leave(limit.saturating_sub(began.elapsed()));
        }
        self.end();
    }

    /// Ends the exchanges with other nodes: messages that groups have dealt here are answered or given to other nodes.
    fn take_leave(&self, limit: Duration) {
        let began = Instant::now();
        loop {
            match self.shared.node().moves().take_leave(began.elapsed() >= KEPT_WAIT) {
                Ok(true) => return,
                Err(error) => return tracing::warn!(%error, "the node stops without the answers of all others"),
                Ok(false) if began.elapsed() >= limit => {
                    return tracing::warn!(
                        "cluster.leave_timeout ended before all nodes had confirmed the messages of shared groups; unconfirmed ones stay in the store of this node and may come twice"
                    );
                }
                Ok(false) => pause(LEAVE_PAUSE),
            }
        }
    }

    /// Leaves the cluster as it is.
    pub fn end(&self) {
        drop(self.watch.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = self.events.send(Event::End);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// The prefix of the topics that an orchestrator exchanges with the others over links.
fn address_prefix(config: &Config) -> Option<String> {
    (config.orchestrator.enabled && config.addresses.enabled).then(|| config.addresses.prefix.clone())
}

/// How to keep the store of a node when it dies.
fn advice_to_keep(config: &Config, is_mirrored: bool) -> &'static str {
    if config.store.directory.is_none() {
        "give it a data directory: --data DIR, or store.directory"
    } else if is_mirrored {
        "let mirror.bus, mirror.prefix and mirror.name be the cluster's, or leave the section [mirror] out"
    } else if !config.cluster.mirror {
        "set cluster.mirror to true"
    } else {
        "set store.durability to \"commit\""
    }
}

/// Waits before the next look at other nodes, which send no event when they change.
#[expect(clippy::disallowed_methods, reason = "the state is in other processes, and no event announces it")]
fn pause(length: Duration) {
    std::thread::sleep(length);
}
