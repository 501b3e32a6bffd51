//! The status of a broker that the console shows.

use std::time::SystemTime;

use tidegate_admin::{BrokerStatus, PipelineCounts};
use tidegate_context::service::CoreFigures;
use tidegate_engine::{Counters, Gauges, Reason, Usage};
use tidegate_node::{RevocationLists, ShellCounters};
use tidegate_store::SYNC_BOUNDS_MICROSECONDS;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreCondition {
    /// Everything.
    #[default]
    Ok,
    /// There is no room for more.
    Full,
    /// The disk refuses to write.
    Failing,
}

impl StoreCondition {
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

/// Figures of the store. All bytes are bytes of files unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreNumbers {
    /// Its condition.
    pub condition: StoreCondition,
    /// Bytes of the journal that are in use.
    pub journal_bytes: u64,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Free space of the file system when it was last asked, bytes.
    pub free_bytes: u64,
    /// Bytes handed in and not yet committed.
    pub pending_bytes: u64,
    /// Files of the journal.
    pub segments: u64,
    /// Entries in the table when it was last written.
    pub table_entries: u64,
    /// Batches committed.
    pub batches: u64,
    /// Operations committed.
    pub operations: u64,
    /// Groups of batches written.
    pub groups: u64,
    /// Bytes written into the journal.
    pub written_bytes: u64,
    /// Syncs of the journal.
    pub syncs: u64,
    /// Time spent in those, nanoseconds.
    pub sync_nanoseconds: u64,
    /// How many of those took at most [`SYNC_BOUNDS_MICROSECONDS`] (the last: longer), each counted once.
    pub sync_histogram: [u64; SYNC_BOUNDS_MICROSECONDS.len() + 1],
    /// Parts of queues that were read back.
    pub loads: u64,
    /// Memory of the index of the journal that these use, bytes.
    pub index_bytes: u64,
    /// Merges of the journal into the table.
    pub merges: u64,
    /// Merges that failed and are tried again.
    pub merge_failures: u64,
    /// Groups that were written later so that merges keep up.
    pub slowed_groups: u64,
    /// Writes and syncs that the disk refused.
    pub failures: u64,
}

/// The state of a node in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterNumbers {
    /// Whether it is a member now.
    pub member: bool,
    /// True if it decides which node serves which partition.
    pub leads: bool,
    /// Whether the bus is reached.
    pub bus_connected: bool,
    /// Epoch of the newest table that it knows.
    pub epoch: u64,
    /// Nodes of that table.
    pub nodes: u64,
    /// The size of its share in relation to others.
    pub weight: u64,
    /// Partitions that it serves.
    pub served: u64,
    /// Partitions that went to others.
    pub moved_out: u64,
    /// Partitions that came from others.
    pub moved_in: u64,
    /// Moves that it could not do its part of.
    pub failed: u64,
    /// Moves refused because other numbers were owed after them than before.
    pub mismatches: u64,
    /// Partitions begun with nothing although others had served them.
    pub taken_anew: u64,
    /// Memberships lost.
    pub lapses: u64,
    /// Partitions that it should serve and does not, or serves and should not, for longer than a move takes.
    pub astray: u64,
    /// Links to other nodes that go through a third one at present.
    pub indirect_links: u64,
    /// Links that were begun through a third node.
    pub indirect_links_begun: u64,
    /// Bytes that this node has carried between others.
    pub carried_bytes: u64,
    /// Partitions of dead nodes that are being fetched.
    pub restoring: u64,
    /// Partitions of dead nodes that were fetched.
    pub restored: u64,
    /// Shares of dead nodes that were taken over.
    pub failovers: u64,
    /// How long the last of them took, milliseconds.
    pub failover_ms: u64,
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
    /// Whether it is connected to its own broker.
    pub local_connected: bool,
    /// Whether it is connected to the other one.
    pub remote_connected: bool,
    /// Messages that the other broker has taken.
    pub carried_out: u64,
    /// Messages that its own broker has taken.
    pub carried_in: u64,
    /// Messages that the other broker has refused, or of QoS 0 while it was away.
    pub dropped_out: u64,
    /// The same for its own broker.
    pub dropped_in: u64,
    /// Messages that were not carried to the other broker, because a loop of bridges had brought them back.
    pub looped_out: u64,
    /// The same for its own broker.
    pub looped_in: u64,
    /// Messages that its own broker has sent beyond the window.
    pub beyond_window_local: u64,
    /// The same of the other broker.
    pub beyond_window_remote: u64,
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
    /// Figures of the store, if there is one.
    pub store: Option<StoreNumbers>,
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
