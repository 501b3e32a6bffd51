//! The status of a broker, for the console.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use tidegate_bus::{Address, Bus};
use tidegate_config::Config;
use tidegate_console::{AdmissionStatus, Phase, Status, StatusSource, TenantMeter, TenantNumbers, Unavailable};
use tidegate_engine::{TenantId, Usage};
use tidegate_identity::access::Tenancy;
use tidegate_node::{BanOrigin, NodeHandle, NodeReport, TenantHoldings};

use crate::brokers::broker_status;
use crate::drain::Drain;
use crate::metering::{Meter, tenant_name};
use crate::part::Parts;

/// The broker as the console sees it, before, while and after its node runs.
pub struct BrokerStatus {
    phase: AtomicU8,
    node: OnceLock<NodeHandle>,
    tenancy: OnceLock<Tenancy>,
    meter: OnceLock<Arc<Meter>>,
    parts: Parts,
    drain: Drain,
    started: SystemTime,
    version: &'static str,
    /// The reason for which a start waits.
    awaited: Mutex<Option<Awaited>>,
}

impl std::fmt::Debug for BrokerStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerStatus").field("phase", &self.phase()).finish_non_exhaustive()
    }
}

/// The reason for which a start waits.
#[derive(Clone, Debug)]
enum Awaited {
    Bus(AwaitedBus),
    Other(String),
}

impl Awaited {
    /// The reason, in one line.
    fn why(&self) -> String {
        match self {
            Self::Bus(bus) => bus.why(),
            Self::Other(why) => why.clone(),
        }
    }
}

/// A bus without which the start does not continue.
#[derive(Clone)]
struct AwaitedBus {
    address: String,
    bus: Bus,
    since: Instant,
}

impl AwaitedBus {
    /// The cause for which the start waits, in one line.
    fn why(&self) -> String {
        let (bus, seconds) = (&self.address, self.since.elapsed().as_secs());
        match (self.bus.connection().is_connected(), self.bus.failure()) {
            (true, _) => format!("it waits for answers of the bus {bus}, for {seconds} s so far"),
            (false, None) => format!("it waits for the bus {bus}, for {seconds} s so far"),
            (false, Some(why)) => format!("it waits for the bus {bus}, for {seconds} s so far: {why}"),
        }
    }
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
    pub fn starting() -> Self {
        Self {
            phase: AtomicU8::new(STARTING),
            node: OnceLock::new(),
            tenancy: OnceLock::new(),
            meter: OnceLock::new(),
            parts: Parts::default(),
            drain: Drain::default(),
            started: SystemTime::now(),
            version: env!("CARGO_PKG_VERSION"),
            awaited: Mutex::default(),
        }
    }

    /// The registered parts.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Sets the tenants. Called once, before the node accepts clients.
    pub fn set_tenancy(&self, tenancy: Tenancy) {
        let _ = self.tenancy.set(tenancy);
    }

    /// The tenants, once they are known.
    pub fn tenancy(&self) -> Option<&Tenancy> {
        self.tenancy.get()
    }

    /// Sets the books of usage. Called once, before the broker is ready.
    pub fn set_meter(&self, meter: Arc<Meter>) {
        let _ = self.meter.set(meter);
    }

    /// The books of usage, once they are open.
    pub(crate) fn meter(&self) -> Option<&Arc<Meter>> {
        self.meter.get()
    }

    /// The configuration of an orchestrator, if this is one.
    pub(crate) fn fleet_config(&self) -> Option<&Config> {
        self.parts.fleet()
    }

    /// The start needs this bus, and waits for it until [`Self::has_bus`].
    pub fn waits_for(&self, address: &Address, bus: &Bus) {
        let awaited = AwaitedBus { address: address.to_string(), bus: bus.clone(), since: Instant::now() };
        *self.awaited() = Some(Awaited::Bus(awaited));
    }

    /// The start waits for this reason until [`Self::has_bus`].
    pub fn waits_because(&self, why: String) {
        *self.awaited() = Some(Awaited::Other(why));
    }

    /// The start no longer waits for the bus, or for another reason.
    pub fn has_bus(&self) {
        *self.awaited() = None;
    }

    fn awaited(&self) -> MutexGuard<'_, Option<Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The drain of clients.
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// The node runs: questions and orders come to it, also while the broker starts. Called once.
    pub fn set_node(&self, node: NodeHandle) {
        let _ = self.node.set(node);
    }

    /// The node serves its clients, or all services of a process without a node work.
    pub fn ready(&self) {
        self.phase.store(READY, Ordering::Release);
    }

    /// The node, once it runs.
    pub fn handle(&self) -> Option<&NodeHandle> {
        self.node.get()
    }

    /// The broker was asked to stop.
    pub fn stopping(&self) {
        self.phase.store(STOPPING, Ordering::Release);
    }

    /// The brokers of an orchestrator that answers.
    fn fleet_brokers(&self) -> Vec<tidegate_admin::BrokerStatus> {
        let fleet = self.parts.fleet().and_then(|_| self.node.get()?.fleet().report().ok());
        fleet.map_or_else(Vec::new, |fleet| fleet.brokers.iter().map(broker_status).collect())
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

    fn block_reason(&self) -> Option<String> {
        if tidegate_panics::is_ending() {
            return Some("a thread has panicked, and the process ends".to_owned());
        }
        if let Some(block_reason) = self.parts.services().and_then(|services| services.block_reason()) {
            return Some(block_reason);
        }
        if self.phase() == Phase::Starting {
            let pipelines = || self.parts.pipelines().and_then(|pipelines| pipelines.start_waits_for());
            let awaited = self.awaited().clone().map(|awaited| awaited.why());
            return awaited.or_else(pipelines);
        }
        if self.drain.is_running() {
            return Some("its clients are sent elsewhere".to_owned());
        }
        self.parts.block_reason()
    }

    fn status(&self) -> Result<Status, Unavailable> {
        let mut status = Status::new(self.started, self.version);
        if let Some(services) = self.parts.services() {
            services.add_to(&mut status);
            return Ok(status);
        }
        let report = self.node.get().and_then(|node| node.report().ok()).ok_or(Unavailable)?;
        status.shards = u16::try_from(report.shards.len()).unwrap_or(u16::MAX);
        status.shell = report.shell;
        status.revocation = self.node.get().map(NodeHandle::revocation_lists).unwrap_or_default();
        status.admission = admission(&report);
        status.fleet = self.fleet_brokers();
        status.tenants = self.tenancy.get().map(tenants).unwrap_or_default();
        status.meters = self.tenancy.get().map(|tenancy| meters(tenancy, &report)).unwrap_or_default();
        status.counters = report.counters;
        status.gauges = report.gauges;
        status.slow_sessions = report.slow_sessions;
        self.parts.add_to(&mut status);
        Ok(status)
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

fn meters(tenancy: &Tenancy, report: &NodeReport) -> Vec<TenantMeter> {
    let meter =
        |(tenant, usage): (&TenantId, &Usage)| TenantMeter { name: tenant_name(tenancy, *tenant), usage: *usage };
    report.usage.iter().map(meter).collect()
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
