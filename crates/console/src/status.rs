//! The status of a broker that the console shows.

use std::time::SystemTime;

use tidegate_admin::BrokerStatus;
use tidegate_engine::{Counters, Gauges, Reason, Usage};

use crate::protocols::{CoapNumbers, HttpNumbers};

/// Where a broker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its listeners are not open yet.
    Starting,
    /// It takes clients in.
    Ready,
    /// It is stopping; new clients are better sent elsewhere.
    Stopping,
}

/// Counters of a broker's event loops and listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shell {
    /// Turns of event loops.
    pub turns: u64,
    /// Reads from sockets.
    pub reads: u64,
    /// Writes to sockets.
    pub writes: u64,
    /// Writes that the socket did not take completely.
    pub writes_blocked: u64,
    /// Connections accepted by listeners.
    pub accepted: u64,
    /// Connections refused because of the broker's limit.
    pub refused_full: u64,
    /// Connections that the engine refused before their first byte.
    pub refused_by_engine: u64,
    /// Times that a connection could not be accepted for lack of files or memory.
    pub accept_exhausted: u64,
    /// Times that the next connection could not be accepted.
    pub accept_failed: u64,
    /// Connections handed to the home shard of their client.
    pub handed_over: u64,
    /// TLS handshakes completed, those by a ticket included.
    pub tls_handshakes: u64,
    /// Lists of revoked certificates in use.
    pub crls: u64,
    /// Of these, lists older than their own next update.
    pub crls_outdated: u64,
    /// When the first of them is outdated, seconds since 1970; 0 without any.
    pub crl_next_update: u64,
    /// TLS handshakes completed by the ticket of an earlier one.
    pub tls_resumed: u64,
    /// TLS handshakes that failed, and sessions in which the client broke the protocol.
    pub tls_failed: u64,
    /// Connections closed at once because too many TLS handshakes were under way.
    pub tls_refused_full: u64,
    /// Clients relayed to their home, an orchestrator elsewhere.
    pub relayed: u64,
    /// Of these, the ended ones.
    pub relays_ended: u64,
    /// Clients refused because their home could not be reached.
    pub relays_failed: u64,
    /// Connections that have left this node for the new home of their client.
    pub moved: u64,
    /// Connections that have come from another node and continue here.
    pub continued: u64,
    /// Connections that have come from another node and were refused.
    pub not_continued: u64,
    /// Connections closed because of their header of the PROXY protocol, or for want of one.
    pub proxy_refused: u64,
    /// WebSocket handshakes refused.
    pub websocket_refused: u64,
    /// WebSocket connections closed because the client broke that protocol.
    pub websocket_violations: u64,
    /// QUIC handshakes and datagrams.
    pub quic: QuicCounters,
    /// Connections closed with output unwritten, because the time for it was over.
    pub closed_unflushed: u64,
    /// Times that memory was given back after a peak.
    pub memory_trims: u64,
}

/// Counters of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicCounters {
    /// Connections begun, those whose handshake failed included.
    pub begun: u64,
    /// Handshakes that failed, and connections in which the client broke the protocol.
    pub failed: u64,
    /// Clients that were asked to prove their address first.
    pub retries: u64,
    /// Requests dropped because too many handshakes were under way; clients repeat them.
    pub deferred: u64,
    /// Times that a client went on from another address or port.
    pub moved: u64,
    /// Datagrams received.
    pub datagrams_in: u64,
    /// System calls that sent datagrams.
    pub sends: u64,
    /// Of these, writes that the socket did not take at once.
    pub sends_blocked: u64,
    /// Datagrams handed to the shard of their connection.
    pub passed_on: u64,
    /// Datagrams dropped because too many waited for that shard.
    pub dropped: u64,
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

/// Outcomes of clients that were asked who they are. All zero where no client is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logins {
    /// Let in.
    pub allowed: u64,
    /// Refused.
    pub refused: u64,
    /// Refused because no provider answered in time.
    pub unavailable: u64,
    /// Answered from memory.
    pub cache_hits: u64,
    /// Answered together with another that was the same.
    pub coalesced: u64,
    /// Found no room to wait.
    pub overflowed: u64,
    /// Waited too long.
    pub late: u64,
    /// Waiting now.
    pub waiting: u64,
    /// Remembered now.
    pub remembered: u64,
}

/// Upper bounds of the histogram of sync times, microseconds; the last bucket has none.
pub const SYNC_BOUNDS_MICROSECONDS: [u64; 11] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000];

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

/// Counters of a gateway of mobile nodes and the services beside it; each is described with its metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreNumbers {
    /// Active gateways in the last list of the manager of points of access.
    pub gateways: u64,
    /// Load reports sent by this gateway.
    pub load_reports: u64,
    /// Connection reports sent by this gateway.
    pub connection_reports: u64,
    /// Contexts of nodes sent by this gateway.
    pub context_reports: u64,
    /// Nodes that were pinged, in rounds that are over.
    pub pings: u64,
    /// Pongs that came within the window.
    pub pongs: u64,
    /// Pongs that came after the window, and were discarded.
    pub late_pongs: u64,
    /// Nodes that this gateway was asked to send elsewhere.
    pub handovers: u64,
    /// Handovers that the manager of points of access in this process has decided.
    pub handovers_decided: u64,
    /// Changes of the groups of nodes that this gateway has made.
    pub group_changes: u64,
    /// Contexts that group definers in this process have looked at.
    pub contexts_evaluated: u64,
    /// Changes of groups that they have advertised.
    pub advertisements: u64,
    /// Messages for applications that were put on the bus.
    pub records_out: u64,
    /// Messages for applications that the bus did not take; an alarm should watch it.
    pub records_refused: u64,
    /// Appends of such messages that were tried once more.
    pub records_retried: u64,
    /// Messages for applications that wait for the bus now.
    pub records_waiting: u64,
    /// Records of applications that were given to the broker, for nodes.
    pub records_in: u64,
    /// Records of applications that were no messages, and were put into `RejectedRecords`; an alarm should watch it.
    pub records_rejected: u64,
    /// Records of applications whose time was over when they were read.
    pub records_expired: u64,
    /// Contexts, advertisements and records that this process could not use, by cause.
    pub left_out: [(&'static str, u64); 9],
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
    /// Messages that it has taken.
    pub taken: u64,
    /// Messages that all its sinks have.
    pub delivered: u64,
    /// Messages that a step has left out.
    pub filtered: u64,
    /// Messages that were not delivered.
    pub failed: u64,
    /// The failed messages that became dead letters.
    pub dead_letters: u64,
    /// The failed messages that had passed as many pipelines as they may.
    pub looped: u64,
    /// Windows that ended before their time, as there was no room for more messages.
    pub ended_early: u64,
    /// Batches that sinks have answered.
    pub batches: u64,
    /// The time that these took, milliseconds.
    pub batch_ms: u64,
    /// Batches that were tried once more.
    pub retried: u64,
    /// Messages of QoS 0 for which it had no room, and messages that a bus has removed by age before they were taken.
    pub dropped: u64,
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
    pub shell: Shell,
    /// Figures of the admission of connections.
    pub admission: AdmissionStatus,
    /// Outcomes of clients that were asked who they are.
    pub logins: Logins,
    /// Its place in its cluster, where it is a node of one.
    pub cluster: Option<ClusterNumbers>,
    /// Its core for mobile nodes, where it is a gateway.
    pub core: Option<CoreNumbers>,
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
            shell: Shell::default(),
            admission: AdmissionStatus::default(),
            logins: Logins::default(),
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
    /// Where the broker is in its life. Never waits.
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
