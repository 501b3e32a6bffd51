//! The status of a broker that the console shows.

use std::sync::Arc;
use std::time::SystemTime;

use tidegate_admin::{BrokerStatus, PipelineCounts};
use tidegate_context::service::CoreFigures;
use tidegate_engine::{Counters, Gauges, Reason, Usage};
use tidegate_node::{RevocationLists, ShellCounters};
use tidegate_store::State;

use crate::cluster::ClusterNumbers;
use crate::protocols::{CoapNumbers, HttpNumbers};

/// The phase of a broker's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its listeners are not open yet.
    Starting,
    /// It takes clients in.
    Ready,
    /// It is stopping; new clients are better sent elsewhere.
    Stopping,
}

/// Counters and tables of the admission of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionStatus {
    /// Connections closed as soon as they were accepted, by reason.
    pub refused: Vec<(Reason, u64)>,
    /// Bans that hold.
    pub bans: u64,
    /// Bans added since the start, by who banned.
    pub bans_added: Vec<(&'static str, u64)>,
    /// Addresses that are remembered for their limits.
    pub addresses: u64,
    /// Addresses that were forgotten to make room.
    pub addresses_forgotten: u64,
    /// User names whose connections are counted.
    pub users: u64,
    /// Mean length of the turns of the slowest shard, milliseconds.
    pub loop_lag_ms: u64,
    /// Whether new connections are refused for overload.
    pub overloaded: bool,
    /// Events that the flight recorders took.
    pub events_recorded: u64,
    /// Events that they only counted.
    pub events_suppressed: u64,
}

/// The operations that the store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreCondition {
    /// Everything.
    Ok,
    /// There is no room for more.
    Full,
    /// The disk refuses to write.
    Failing,
}

impl StoreCondition {
    /// The condition of a store.
    pub fn of(store: &tidegate_store::Status) -> Self {
        match store.state() {
            State::Failing(_) | State::Fenced(_) => Self::Failing,
            State::Full => Self::Full,
            State::Ok if store.is_full() => Self::Full,
            State::Ok => Self::Ok,
        }
    }

    /// Every condition.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Full, Self::Failing];

    /// The name in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Full => "full",
            Self::Failing => "failing",
        }
    }
}

/// The holdings of a tenant, by the numbers of [`Holding`](tidegate_engine::Holding).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantNumbers {
    /// Its name in the configuration.
    pub name: String,
    /// How many there are.
    pub counts: [u64; 4],
    /// How many were refused for the quota since the start.
    pub refused: [u64; 4],
    /// How many there may be; 0 is no limit.
    pub quotas: [u32; 4],
}

/// The usage of a tenant since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantMeter {
    /// Its name; `default` for the default one.
    pub name: String,
    /// The counters and gauges.
    pub usage: Usage,
}

/// A bridge to another broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeNumbers {
    /// Its name.
    pub name: String,
    /// Its end at its own broker.
    pub local: BridgeEnd,
    /// Its end at the other broker.
    pub remote: BridgeEnd,
}

/// One end of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeEnd {
    /// Whether the bridge is connected to this broker.
    pub connected: bool,
    /// Messages that this broker has taken.
    pub carried: u64,
    /// Messages that this broker has refused, or of QoS 0 while it was away.
    pub dropped: u64,
    /// Messages that were not carried to this broker, because a loop of bridges had brought them back.
    pub looped: u64,
    /// Messages that this broker has sent beyond the window.
    pub beyond_window: u64,
}

/// A pipeline of the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineNumbers {
    /// Its name.
    pub name: String,
    /// Its messages and batches.
    pub counts: PipelineCounts,
    /// The time that answers of sinks to batches took, milliseconds.
    pub batch_ms: u64,
    /// Messages that it works on.
    pub held: u64,
    /// Messages that wait in its log on the bus.
    pub waiting: u64,
    /// Age of the oldest message that it works on, milliseconds.
    pub lag_ms: u64,
}

/// A broker's numbers at one moment, added up over its shards.
#[derive(Clone, Debug)]
pub struct Status {
    /// Counters, which only grow.
    pub counters: Counters,
    /// Present values.
    pub gauges: Gauges,
    /// Clients that read slowly, do not acknowledge, or whose queue is full.
    pub slow_sessions: u64,
    /// Counters of event loops and listeners.
    pub shell: ShellCounters,
    /// The lists of revoked certificates that its listeners use.
    pub revocation: RevocationLists,
    /// Figures of the admission of connections.
    pub admission: AdmissionStatus,
    /// Outcomes of clients that were asked who they are. All zero where no client is.
    pub logins: tidegate_auth::Counters,
    /// Its place in its cluster, where it is a node of one.
    pub cluster: Option<ClusterNumbers>,
    /// Its core for mobile nodes, where it is a gateway.
    pub core: Option<CoreFigures>,
    /// The store, if there is one.
    pub store: Option<Arc<tidegate_store::Status>>,
    /// The brokers of an orchestrator.
    pub fleet: Vec<BrokerStatus>,
    /// Its tenants but the default one.
    pub tenants: Vec<TenantNumbers>,
    /// The usage of its tenants, the default one included.
    pub meters: Vec<TenantMeter>,
    /// Its bridges to other brokers.
    pub bridges: Vec<BridgeNumbers>,
    /// Its pipelines.
    pub pipelines: Vec<PipelineNumbers>,
    /// Its listeners for HTTP, where there are some.
    pub http: Option<HttpNumbers>,
    /// Its listeners for CoAP, where there are some.
    pub coap: Option<CoapNumbers>,
    /// Number of shards.
    pub shards: u16,
    /// When the broker was started.
    pub started: SystemTime,
    /// Its version.
    pub version: &'static str,
}

impl Status {
    /// A broker without numbers.
    pub fn new(started: SystemTime, version: &'static str) -> Self {
        Self {
            counters: Counters::default(),
            gauges: Gauges::default(),
            slow_sessions: 0,
            shell: ShellCounters::default(),
            revocation: RevocationLists::default(),
            admission: AdmissionStatus::default(),
            logins: tidegate_auth::Counters::default(),
            cluster: None,
            core: None,
            store: None,
            fleet: Vec::new(),
            tenants: Vec::new(),
            meters: Vec::new(),
            bridges: Vec::new(),
            pipelines: Vec::new(),
            http: None,
            coap: None,
            shards: 0,
            started,
            version,
        }
    }
}

/// The shards did not answer in time, or not at all any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker did not answer in time")]
pub struct Unavailable;

/// A source of the broker's state. The binary implements it over its node.
pub trait StatusSource: Send + Sync + 'static {
    /// The phase of the broker's life. Never waits.
    fn phase(&self) -> Phase;

    /// Why clients are better sent elsewhere although the broker is in [`Phase::Ready`], in one line. Never waits.
    fn block_reason(&self) -> Option<String> {
        None
    }

    /// The broker's numbers. Called on the console's own thread; may wait for the shards, but only for a bounded time.
    ///
    /// # Errors
    /// When they do not answer within it.
    fn status(&self) -> Result<Status, Unavailable>;
}
