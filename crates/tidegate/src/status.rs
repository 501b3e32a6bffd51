//! How the broker is, for the console.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use tidegate_bus::{Address, Bus};
use tidegate_console::{
    AdmissionStatus, BridgeNumbers, CoreNumbers, Logins, Phase, QuicCounters, Shell, Status, StatusSource,
    TenantNumbers, Unavailable,
};
use tidegate_context::service::{CoreCounters, CoreFigures};
use tidegate_engine::{Counters, Gauges};
use tidegate_mirror::MirrorDisk;
use tidegate_node::{BanOrigin, NodeHandle, NodeReport, RevocationLists, TenantHoldings};

use crate::cluster::ClusterApi;
use crate::context::{Lack, Services};
use crate::drain::Drain;
use crate::store_status;
use tidegate_config::Config;
use tidegate_homes::HomesKeeper;
use tidegate_hub::Hub;
use tidegate_identity::access::Tenancy;
use tidegate_identity::authentication::Authentication;

/// The broker as the console sees it, before, while and after its node runs.
#[derive(Debug)]
pub(crate) struct BrokerStatus {
    phase: AtomicU8,
    node: OnceLock<NodeHandle>,
    authentication: OnceLock<Arc<Authentication>>,
    store: OnceLock<Arc<tidegate_store::Status>>,
    mirror: OnceLock<Arc<MirrorDisk>>,
    fleet: OnceLock<(Config, Arc<HomesKeeper>)>,
    cluster: OnceLock<ClusterApi>,
    core: OnceLock<Arc<CoreCounters>>,
    services: OnceLock<Services>,
    tenancy: OnceLock<Tenancy>,
    bridges: OnceLock<ReadBridges>,
    pipelines: OnceLock<Arc<Hub>>,
    drain: Drain,
    started: SystemTime,
    /// The bus that a start waits for.
    awaited: Mutex<Option<AwaitedBus>>,
}

/// Reads the numbers of bridges.
struct ReadBridges(Box<dyn Fn() -> Vec<BridgeNumbers> + Send + Sync>);

impl std::fmt::Debug for ReadBridges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadBridges")
    }
}

/// A bus that nothing goes on without.
#[derive(Clone)]
struct AwaitedBus {
    address: String,
    bus: Bus,
    since: Instant,
}

impl std::fmt::Debug for AwaitedBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwaitedBus").field("address", &self.address).finish_non_exhaustive()
    }
}

const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;

impl BrokerStatus {
    /// A broker that starts now.
    pub(crate) fn starting() -> Self {
        Self {
            phase: AtomicU8::new(STARTING),
            node: OnceLock::new(),
            authentication: OnceLock::new(),
            store: OnceLock::new(),
            mirror: OnceLock::new(),
            fleet: OnceLock::new(),
            cluster: OnceLock::new(),
            core: OnceLock::new(),
            services: OnceLock::new(),
            tenancy: OnceLock::new(),
            bridges: OnceLock::new(),
            pipelines: OnceLock::new(),
            drain: Drain::default(),
            started: SystemTime::now(),
            awaited: Mutex::default(),
        }
    }

    /// The start needs this bus, and waits for it if need be, until [`Self::has_bus`].
    pub(crate) fn waits_for(&self, address: &Address, bus: &Bus) {
        let awaited = AwaitedBus { address: address.to_string(), bus: bus.clone(), since: Instant::now() };
        *self.awaited() = Some(awaited);
    }

    /// What was needed of the bus is done.
    pub(crate) fn has_bus(&self) {
        *self.awaited() = None;
    }

    fn awaited(&self) -> MutexGuard<'_, Option<AwaitedBus>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a start waits for, if it is a bus.
    fn start_waits_for(&self) -> Option<String> {
        let awaited = self.awaited().clone()?;
        let (bus, seconds) = (&awaited.address, awaited.since.elapsed().as_secs());
        Some(match (awaited.bus.connection().is_connected(), awaited.bus.failure()) {
            (true, _) => format!("it waits for answers of the bus {bus}, for {seconds} s so far"),
            (false, None) => format!("it waits for the bus {bus}, for {seconds} s so far"),
            (false, Some(why)) => format!("it waits for the bus {bus}, for {seconds} s so far: {why}"),
        })
    }

    /// Its clients are asked who they are.
    pub(crate) fn asks(&self, authentication: Arc<Authentication>) {
        // Set once, before the node takes clients in.
        let _ = self.authentication.set(authentication);
    }

    /// It has these tenants.
    pub(crate) fn serves(&self, tenancy: Tenancy) {
        // Set once, before the node takes clients in.
        let _ = self.tenancy.set(tenancy);
    }

    /// Its tenants, once they are known.
    pub(crate) fn tenancy(&self) -> Option<&Tenancy> {
        self.tenancy.get()
    }

    /// It has pipelines.
    pub(crate) fn has_pipelines(&self, pipelines: Arc<Hub>) {
        // Set once, when they are started.
        let _ = self.pipelines.set(pipelines);
    }

    /// Its pipelines, where there are some.
    pub(crate) fn pipelines(&self) -> Option<&Arc<Hub>> {
        self.pipelines.get()
    }

    /// It has bridges, whose numbers are read like this.
    pub(crate) fn bridges(&self, read: impl Fn() -> Vec<BridgeNumbers> + Send + Sync + 'static) {
        // Set once, when they are started.
        let _ = self.bridges.set(ReadBridges(Box::new(read)));
    }

    /// It keeps in a store what outlives the process.
    pub(crate) fn keeps(&self, store: Arc<tidegate_store::Status>) {
        // Set once, before the broker is ready.
        let _ = self.store.set(store);
    }

    /// Its store is also on a bus.
    pub(crate) fn mirrors(&self, disk: Arc<MirrorDisk>) {
        // Set once, before the broker is ready.
        let _ = self.mirror.set(disk);
    }

    /// It is an orchestrator; this is how brokers are spoken to, and who knows the homes of clients.
    pub(crate) fn orchestrates(&self, config: Config, homes: Arc<HomesKeeper>) {
        // Set once, before the broker is ready.
        let _ = self.fleet.set((config, homes));
    }

    /// It is a node of a cluster.
    pub(crate) fn joins(&self, cluster: ClusterApi) {
        // Set once, before the broker is ready.
        let _ = self.cluster.set(cluster);
    }

    /// It is a gateway of mobile nodes.
    pub(crate) fn serves_mobile_nodes(&self, counters: Arc<CoreCounters>) {
        // Set once, before the broker is ready.
        let _ = self.core.set(counters);
    }

    /// It has services for mobile nodes, and no clients of its own.
    pub(crate) fn runs_services(&self, services: Services) {
        // Set once, before it is asked for.
        let _ = self.services.set(services);
    }

    /// Its services, where it has nothing else.
    pub(crate) fn services(&self) -> Option<&Services> {
        self.services.get()
    }

    /// What they lack.
    pub(crate) fn services_lack(&self) -> Option<Lack> {
        self.services.get().and_then(Services::lack)
    }

    /// All of them work.
    pub(crate) fn services_ready(&self) {
        self.phase.store(READY, Ordering::Release);
    }

    /// Its place in its cluster, where it is a node of one.
    pub(crate) fn cluster_api(&self) -> Option<&ClusterApi> {
        self.cluster.get()
    }

    /// Who knows the homes of clients, where this is an orchestrator.
    pub(crate) fn homes_keeper(&self) -> Option<&Arc<HomesKeeper>> {
        self.fleet.get().map(|(_, homes)| homes)
    }

    /// The configuration of an orchestrator, if it is one.
    pub(crate) fn fleet_config(&self) -> Option<&Config> {
        self.fleet.get().map(|(config, _)| config)
    }

    /// Its brokers, where it is an orchestrator that answers.
    fn fleet_brokers(&self) -> Vec<tidegate_admin::BrokerStatus> {
        let fleet = self.fleet.get().and_then(|_| self.node.get()?.fleet().ok());
        fleet.map_or_else(Vec::new, |fleet| fleet.brokers.iter().map(crate::control::broker_status).collect())
    }

    /// Sends its clients elsewhere.
    pub(crate) fn drainer(&self) -> &Drain {
        &self.drain
    }

    /// Its node takes clients in.
    pub(crate) fn ready(&self, node: NodeHandle) {
        // The node is set once, before anything but this reads the phase as ready.
        let _ = self.node.set(node);
        self.phase.store(READY, Ordering::Release);
    }

    /// Its node, once there is one.
    pub(crate) fn handle(&self) -> Option<&NodeHandle> {
        self.node.get()
    }

    /// It was asked to stop.
    pub(crate) fn stopping(&self) {
        self.phase.store(STOPPING, Ordering::Release);
    }
}

impl StatusSource for BrokerStatus {
    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            READY => Phase::Ready,
            STOPPING => Phase::Stopping,
            _ => Phase::Starting,
        }
    }

    fn hindrance(&self) -> Option<String> {
        if tidegate_panics::is_ending() {
            return Some("a thread has panicked, and the process ends".to_owned());
        }
        if let Some(lack) = self.services_lack() {
            return Some(lack.what);
        }
        if self.phase() == Phase::Starting {
            return self.start_waits_for();
        }
        if self.drain.is_running() {
            return Some("its clients are sent elsewhere".to_owned());
        }
        let cluster = self.cluster.get().and_then(ClusterApi::hindrance);
        let mirror = || crate::mirror::hindrance(self.mirror.get()?.status());
        cluster.or_else(|| store_status::hindrance(self.store.get()?)).or_else(mirror)
    }

    fn status(&self) -> Result<Status, Unavailable> {
        if let Some(services) = self.services() {
            return Ok(self.status_of_services(services));
        }
        let report = self.node.get().and_then(|node| node.report().ok()).ok_or(Unavailable)?;
        let lists = self.node.get().map(NodeHandle::revocation_lists).unwrap_or_default();
        let shards = u16::try_from(report.shards.len()).unwrap_or(u16::MAX);
        Ok(Status {
            shell: shell(&report, lists),
            admission: admission(&report),
            logins: self.authentication.get().map(|authentication| logins(authentication)).unwrap_or_default(),
            homes: self.homes_keeper().map(|homes| homes.numbers()),
            cluster: self.cluster.get().map(ClusterApi::numbers),
            core: self.core.get().map(|counters| core_numbers(&counters.figures())),
            store: self.store.get().map(|store| store_status::numbers(store)),
            fleet: self.fleet_brokers(),
            tenants: self.tenancy.get().map(tenants).unwrap_or_default(),
            bridges: self.bridges.get().map(|read| read.0()).unwrap_or_default(),
            pipelines: self.pipelines.get().map(|it| crate::hub::numbers_of(it.status())).unwrap_or_default(),
            counters: report.counters,
            gauges: report.gauges,
            slow_sessions: report.slow_sessions,
            shards,
            started: self.started,
            version: env!("CARGO_PKG_VERSION"),
        })
    }
}

impl BrokerStatus {
    /// The numbers of a process without clients.
    fn status_of_services(&self, services: &Services) -> Status {
        Status {
            core: Some(core_numbers(&services.counters().figures())),
            started: self.started,
            version: env!("CARGO_PKG_VERSION"),
            shell: Shell::default(),
            admission: AdmissionStatus::default(),
            logins: Logins::default(),
            homes: None,
            cluster: None,
            store: None,
            fleet: Vec::new(),
            tenants: Vec::new(),
            bridges: Vec::new(),
            pipelines: Vec::new(),
            counters: Counters::default(),
            gauges: Gauges::default(),
            slow_sessions: 0,
            shards: 0,
        }
    }
}

/// The figures of the core, as the console tells them.
fn core_numbers(figures: &CoreFigures) -> CoreNumbers {
    CoreNumbers {
        gateways: figures.gateways,
        load_reports: figures.load_reports,
        connection_reports: figures.connection_reports,
        context_reports: figures.context_reports,
        pings: figures.pings,
        pongs: figures.pongs,
        late_pongs: figures.late_pongs,
        handovers: figures.handovers,
        handovers_decided: figures.handovers_decided,
        group_changes: figures.group_changes,
        contexts_evaluated: figures.contexts_evaluated,
        advertisements: figures.advertisements,
        records_out: figures.records_out,
        records_refused: figures.records_refused,
        records_retried: figures.records_retried,
        records_waiting: figures.records_waiting,
        records_in: figures.records_in,
        records_rejected: figures.records_rejected,
        records_expired: figures.records_expired,
        left_out: figures.left_out(),
    }
}

fn tenants(tenancy: &Tenancy) -> Vec<TenantNumbers> {
    let holds = |(name, it): (String, TenantHoldings)| TenantNumbers {
        name,
        counts: it.counts,
        refused: it.refused,
        quotas: it.quotas,
    };
    tenancy.holdings().into_iter().map(holds).collect()
}

fn admission(report: &NodeReport) -> AdmissionStatus {
    let it = &report.admission;
    AdmissionStatus {
        refused: report.shell.refused.by_reason().collect(),
        bans: it.bans,
        bans_added: BanOrigin::ALL.iter().map(|origin| origin.label()).zip(it.bans_added).collect(),
        addresses: it.addresses,
        addresses_forgotten: it.addresses_forgotten,
        users: it.users,
        loop_lag_ms: report.lag_ms,
        overloaded: it.overloaded,
        events_recorded: report.flight.recorded,
        events_suppressed: report.flight.suppressed,
    }
}

fn logins(authentication: &Authentication) -> Logins {
    let counted = authentication.counters();
    Logins {
        allowed: counted.allowed,
        refused: counted.refused,
        unavailable: counted.unavailable,
        cache_hits: counted.cache_hits,
        coalesced: counted.coalesced,
        overflowed: counted.overflowed,
        late: counted.late,
        waiting: counted.waiting,
        remembered: counted.remembered,
    }
}

fn shell(report: &NodeReport, lists: RevocationLists) -> Shell {
    let shell = &report.shell;
    Shell {
        turns: shell.turns,
        reads: shell.reads,
        writes: shell.writes,
        writes_blocked: shell.writes_blocked,
        accepted: shell.accepted,
        refused_full: shell.refused_full,
        refused_by_engine: shell.refused_by_engine,
        accept_exhausted: shell.accept_exhausted,
        accept_failed: shell.accept_failed,
        handed_over: shell.handed_over,
        tls_handshakes: shell.tls_handshakes,
        crls: lists.lists,
        crls_outdated: lists.outdated,
        crl_next_update: lists.next_update,
        tls_resumed: shell.tls_resumed,
        tls_failed: shell.tls_failed,
        tls_refused_full: shell.tls_refused_full,
        relayed: shell.relayed,
        relays_ended: shell.relays_ended,
        relays_failed: shell.relays_failed,
        proxy_refused: shell.proxy_refused,
        websocket_refused: shell.websocket_refused,
        websocket_violations: shell.websocket_violations,
        quic: QuicCounters {
            begun: shell.quic_begun,
            failed: shell.quic_failed,
            retries: shell.quic_retries,
            deferred: shell.quic_deferred,
            moved: shell.quic_moved,
            datagrams_in: shell.quic_datagrams_in,
            sends: shell.quic_sends,
            sends_blocked: shell.quic_sends_blocked,
            passed_on: shell.quic_passed_on,
            dropped: shell.quic_dropped,
        },
        closed_unflushed: shell.closed_unflushed,
        memory_trims: shell.memory_trims,
    }
}
