//! Settings of an engine at start: limits with names and units, and the policy of each.

mod address;
pub(crate) mod overflow;
mod policy;
pub(crate) mod priority;

pub(crate) mod broker_links;
pub(crate) mod fleet_topics;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::broker_links::BrokerLinkSettings;

use crate::ids::{ListenerId, TenantId};
use tidegate_mqtt::QoS;

pub use address::{AddressSettings, ReportCheck};
pub use policy::{DeadLetter, HubFilter, OverflowRule, PayloadCheck, PriorityRule, PrioritySource};

/// Everything an engine needs to know. Built and checked by the caller; the engine reads it and never changes it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this node in `$SYS/brokers/NAME/...`.
    pub node_name: String,
    /// Version text for `$SYS/broker/version`.
    pub version: String,
    /// The listeners that connections may come from, indexed by [`ListenerId`](crate::ListenerId).
    pub listeners: Vec<ListenerSettings>,
    /// Limits of connections, sessions and memory.
    pub limits: Limits,
    /// Queues of sessions.
    pub queue: QueueSettings,
    /// Rules for the queues of some clients or for some topics; the first rule that applies decides.
    pub overflow_rules: Vec<OverflowRule>,
    /// Topics of the hub's pipelines: its sessions receive the publisher of each matching message.
    pub hub_filters: Vec<HubFilter>,
    /// Client ids (`*` is any text) of sinks of pipelines elsewhere: their number of passed pipelines is believed.
    pub hub_relays: Vec<String>,
    /// Rules for messages that go before others in queues. Without rules none do.
    pub priority: Vec<PriorityRule>,
    /// The topics for dropped messages; `None` publishes none.
    pub dead_letter: Option<DeadLetter>,
    /// Retained messages.
    pub retained: RetainedSettings,
    /// Shared subscriptions.
    pub shared: SharedSettings,
    /// Seconds between two rounds of `$SYS` values while someone is subscribed; 0 switches `$SYS` off.
    pub sys_interval_seconds: u32,
    /// Whether connects and disconnects are published below `$SYS/brokers/NAME/clients/`.
    pub sys_events: bool,
    /// The party that decides about CONNECT packets.
    pub authentication: Authentication,
    /// True if wills are published when the server stops.
    pub wills_on_shutdown: bool,
    /// The state that outlives the process.
    pub durability: Durability,
    /// Finds the tenant of a client, unless [`ListenerSettings::tenant`] sets it.
    pub tenants: Option<Arc<dyn Tenants>>,
    /// Counts the usage of tenants on all shards, against its quotas; `None` counts this shard's by `tenant_quotas`.
    pub tenant_ledger: Option<Arc<dyn TenantLedger>>,
    /// Makes it an orchestrator in front of other brokers; `None` is a broker.
    pub broker_links: Option<BrokerLinkSettings>,
    /// Addresses of mobile nodes; `None` knows none, and no client is a node.
    pub addresses: Option<AddressSettings>,
    /// Quotas of tenants, used without a `tenant_ledger`. A tenant without an entry has only the limits of the broker.
    pub tenant_quotas: BTreeMap<TenantId, TenantQuota>,
    /// Whether the usage of each user is counted beside that of its tenant.
    pub usage_by_user: bool,
}

/// Knows which tenant a user belongs to. Asked on a shard's thread, before anyone has proven anything: answers come at
/// once, from memory.
pub trait Tenants: std::fmt::Debug + Send + Sync {
    /// The tenant of an otherwise unknown client of a listener; `None` uses the tenant of the listener's settings.
    fn of_listener(&self, _listener: ListenerId) -> Option<TenantId> {
        None
    }

    /// The tenant of a user of a listener whose clients belong to `listener`; `None` keeps that tenant.
    fn of_user(&self, listener: TenantId, user_name: &str) -> Option<TenantId>;

    /// The level below which a tenant has its topics at the brokers of a fleet: the same for all orchestrators, without
    /// `/`, `+` and `#`. `None` for an unknown tenant: its messages stay in this process. Asked for each message of a
    /// tenant to a fleet.
    fn topic_level_of(&self, _tenant: TenantId) -> Option<&str> {
        None
    }

    /// The tenant of this topic level.
    fn of_topic_level(&self, _level: &str) -> Option<TenantId> {
        None
    }
}

/// Something that a tenant's quota limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Clients connected.
    Connections,
    /// Sessions, connected or not.
    Sessions,
    /// Subscriptions, ordinary or shared.
    Subscriptions,
    /// Retained messages.
    Retained,
}

impl Holding {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Connections, Self::Sessions, Self::Subscriptions, Self::Retained];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Sessions => "sessions",
            Self::Subscriptions => "subscriptions",
            Self::Retained => "retained",
        }
    }
}

/// Counts the holdings of each tenant on all shards together. Called on a shard's thread: answers come at once, without
/// waiting.
pub trait TenantLedger: std::fmt::Debug + Send + Sync {
    /// Counts one more, unless the tenant has reached its quota. Returns true if it was counted.
    fn claim(&self, tenant: TenantId, holding: Holding) -> bool;

    /// Raises the count, even beyond the quota.
    fn add(&self, tenant: TenantId, holding: Holding, count: u64);

    /// Lowers the count.
    fn release(&self, tenant: TenantId, holding: Holding, count: u64);

    /// Whether any tenant has a rate limit. Called for all input.
    fn limits_rates(&self) -> bool;

    /// Takes a message from a tenant's quota, at a time in nanoseconds of the monotonic clock. Returns the missing time
    /// in nanoseconds, or `None` without a limit.
    fn take_message(&self, tenant: TenantId, now: u64) -> Option<u64>;
}

/// How much a tenant may have. 0 is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantQuota {
    /// Clients connected at once; beyond it CONNECT is refused.
    pub max_connections: u32,
    /// Sessions, connected or not; beyond it a CONNECT that needs a new one is refused.
    pub max_sessions: u32,
    /// Retained messages; beyond it new topics are refused.
    pub max_retained: u32,
    /// Subscriptions of all its clients; beyond it new ones are refused.
    pub max_subscriptions: u32,
    /// PUBLISH packets per second of all its clients together, as many at once after they were quiet; beyond it they
    /// wait.
    pub max_message_rate: u32,
}

/// The sessions and retained messages that outlive the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing does.
    #[default]
    Memory,
    /// Everything that the store had time to write; no packet waits for it.
    Relaxed,
    /// Everything promised: a packet that promises something leaves after its commit.
    Commit,
}

/// The party that decides about a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// Every client is admitted.
    Open,
    /// Each CONNECT becomes an [`Event::Authenticate`](crate::Event::Authenticate) and waits for its outcome.
    External,
}

/// The prefix of client ids of queues of HTTP listeners. No other client has such an id.
pub const QUEUE_CLIENT_PREFIX: &str = "http-queue/";

/// Settings of the connections of one listener.
#[expect(clippy::struct_excessive_bools, reason = "each flag is a key")]
#[derive(Clone, Debug)]
pub struct ListenerSettings {
    /// Name in logs and metrics.
    pub name: String,
    /// Tenant of its clients.
    pub tenant: TenantId,
    /// Longest packet taken from a client, bytes, 1..=268,435,455 plus header is the protocol's bound.
    pub max_packet_size: u32,
    /// Unacknowledged QoS 1 and 2 messages that a client may have under way to the server, 1..=65,535.
    pub receive_maximum: u16,
    /// Whether exceeding it is counted and tolerated (for old firmware) or answered by DISCONNECT 0x93.
    pub receive_maximum_lenient: bool,
    /// Highest topic alias a client may set, 0..=65,535.
    pub topic_alias_maximum: u16,
    /// Highest topic alias that the broker sets towards a client that allows it, 0 switches it off.
    pub topic_alias_maximum_out: u16,
    /// Highest QoS offered.
    pub maximum_qos: QoS,
    /// Keep-alive imposed on clients that ask for more or none, seconds; 0 imposes none.
    pub keep_alive_maximum: u16,
    /// True if MQTT 3 clients that ask for a longer keep-alive, or for 0, are refused: MQTT 3 has no Server Keep Alive.
    pub keep_alive_refuse: bool,
    /// Whether payloads with the UTF-8 indicator are checked.
    pub check_payload_format: bool,
    /// Whether an empty client id is given a name by the server.
    pub allow_empty_client_id: bool,
    /// Longest client id, bytes.
    pub max_client_id_len: u16,
    /// Connections at once through this listener and shard; 0 is no limit.
    pub max_connections: u32,
    /// PUBLISH packets per second that a client may send; beyond it they wait. 0 is no limit.
    pub max_message_rate: u32,
    /// PUBLISH packets that a client may send at once after it was quiet; 0 is as many as in a second.
    pub message_burst: u32,
    /// Bytes of PUBLISH packets per second that a client may send; beyond it they wait. 0 is no limit.
    pub max_byte_rate: u64,
    /// Bytes of PUBLISH packets that a client may send at once after it was quiet; 0 is as many as in a second.
    pub byte_burst: u64,
    /// PUBLISH packets per second of all its clients of this shard, and as many at once after they were quiet; beyond
    /// it those wait who send more. 0 is no limit.
    pub max_total_message_rate: u32,
    /// Bytes of PUBLISH packets per second of all its clients of this shard, and as many at once after they were quiet;
    /// beyond it those wait who send more. 0 is no limit.
    pub max_total_byte_rate: u64,
    /// Response Information given to clients that request it; `None` gives none.
    pub response_information: Option<String>,
    /// Server Reference sent with 0x9C and 0x9D and on shutdown; `None` sends none.
    pub server_reference: Option<String>,
    /// Whether its clients are mobile nodes, which are reached by address, where there are addresses and they bring a
    /// client id of their own.
    pub mobile_nodes: bool,
    /// True if other orchestrators relay clients to it: clients of other homes are refused, not relayed again.
    pub relayed: bool,
    /// True if only pipelines of the hub may connect: each CONNECT waits for the hub's decision.
    pub for_hub: bool,
    /// Whether it is for clients of HTTP. Only they have client ids of queues.
    pub for_http: bool,
    /// Whether it is for clients of CoAP.
    pub for_coap: bool,
}

impl ListenerSettings {
    /// Whether its clients speak MQTT themselves. Otherwise the listener makes up their client ids and bounds their
    /// sessions, so these are neither mobile nodes nor counted as sessions.
    pub(crate) const fn speaks_mqtt(&self) -> bool {
        !self.for_http && !self.for_coap
    }
}

impl Default for ListenerSettings {
    fn default() -> Self {
        Self {
            name: "default".into(),
            tenant: TenantId::DEFAULT,
            max_packet_size: 2 * 1024 * 1024,
            receive_maximum: 1024,
            receive_maximum_lenient: false,
            topic_alias_maximum: 32,
            topic_alias_maximum_out: 16,
            maximum_qos: QoS::ExactlyOnce,
            keep_alive_maximum: 0,
            keep_alive_refuse: false,
            check_payload_format: false,
            allow_empty_client_id: true,
            max_client_id_len: 1024,
            max_connections: 0,
            max_message_rate: 0,
            message_burst: 0,
            max_byte_rate: 0,
            byte_burst: 0,
            max_total_message_rate: 0,
            max_total_byte_rate: 0,
            response_information: None,
            server_reference: None,
            mobile_nodes: true,
            relayed: false,
            for_hub: false,
            for_http: false,
            for_coap: false,
        }
    }
}

/// Limits of one shard.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Milliseconds within which a complete CONNECT must arrive.
    pub connect_timeout_ms: u64,
    /// Bytes that a client may send behind its CONNECT before it is answered.
    pub pipelined_bytes: u32,
    /// Sessions (connected or not) of one shard; 0 is no limit.
    pub max_sessions: u32,
    /// Longest session expiry granted, seconds; `u32::MAX` grants sessions without end.
    pub max_session_expiry_seconds: u32,
    /// Subscriptions of one client.
    pub max_subscriptions_per_client: u32,
    /// Levels of a topic name or filter.
    pub max_topic_levels: u16,
    /// Longest payload that is forwarded, bytes; a longer one is acknowledged with an error and dropped.
    pub max_payload: usize,
    /// Bytes of a topic name or filter, 1..=65,535.
    pub max_topic_bytes: u16,
    /// Levels of a filter that are `+`; 0 is no limit.
    pub max_filter_wildcards: u16,
    /// Milliseconds without an acknowledgement after which a connected client counts as slow.
    pub slow_after_ms: u64,
    /// Unacknowledged messages that the server sends to a client, 1..=65,535; a client may name fewer.
    pub max_inflight: u16,
    /// Bytes of encoded output per connection that are written ahead; beyond it messages wait in the session's queue.
    pub output_high_water: u32,
    /// Bytes of unfinished packets, output and queues in one shard above which new work is refused; 0 is no limit.
    pub memory_ceiling: u64,
    /// Bytes under way from one shard to another before publishers are parked.
    pub shard_link_bytes: u64,
    /// Bytes of messages kept by the shared groups of one shard: messages dealt to other nodes and not confirmed, and
    /// messages that wait for members of dead nodes. Beyond it, a message is dealt without being kept, or refused if it
    /// would wait, and counted.
    pub kept_deal_bytes: u64,
    /// Bytes of PUBLISH packets parked per connection before its socket is no longer read.
    pub parked_bytes: u32,
    /// Milliseconds that a publisher may be parked before its message is dropped with a reason.
    pub block_timeout_ms: u64,
    /// Load that a publisher may cause on a shard per second, in bytes sent on, before it is held because the shard's
    /// turns take too long. Each delivery counts its bytes and 256 more.
    pub lag_exempt_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 10_000,
            pipelined_bytes: 64 * 1024,
            max_sessions: 1_000_000,
            max_session_expiry_seconds: u32::MAX,
            max_subscriptions_per_client: 10_000,
            max_topic_levels: 128,
            max_payload: usize::MAX,
            max_topic_bytes: u16::MAX,
            max_filter_wildcards: 0,
            slow_after_ms: 30_000,
            max_inflight: 1024,
            output_high_water: 256 * 1024,
            memory_ceiling: 0,
            shard_link_bytes: 8 * 1024 * 1024,
            kept_deal_bytes: 64 * 1024 * 1024,
            parked_bytes: 256 * 1024,
            block_timeout_ms: 30_000,
            lag_exempt_bytes: 16 * 1024,
        }
    }
}

/// The policy for a message to a session whose queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// The new message is dropped.
    DropNewest,
    /// The oldest waiting message makes room.
    DropOldest,
    /// The slow reader is disconnected; its session keeps its queue within the limits.
    Disconnect,
    /// The publisher waits.
    Block,
    /// The newest message of a topic replaces the waiting older one of the same topic, also where there is room; a
    /// queue that is full of other topics gives up its oldest message.
    KeepLast,
    /// No subscriber gets the message: room is reserved at all subscribers above QoS 0 with this policy before any of
    /// them receives. An MQTT 5 publisher gets reason code 0x97. The acknowledgement of another publisher is withheld
    /// until there is room, or its link closed after [`Limits::block_timeout_ms`]. Messages without an acknowledgement
    /// are dropped.
    Reject,
}

/// The queue of a session: messages that wait because the client is away, reads slowly or has its window full.
#[derive(Clone, Debug)]
pub struct QueueSettings {
    /// Messages waiting per session.
    pub max_messages: u32,
    /// Bytes waiting per session, and as many again kept in flight.
    pub max_bytes: u64,
    /// Messages waiting per session whose queue is in a store, where that is another number.
    pub stored_max_messages: Option<u32>,
    /// The same for bytes. Messages that must stay in memory (priorities, shared groups, `keep-last`) are bounded by
    /// `max_bytes`.
    pub stored_max_bytes: Option<u64>,
    /// Bytes of them in memory where a store holds the rest.
    pub memory_bytes: u64,
    /// The policy beyond these bounds.
    pub overflow: OverflowPolicy,
    /// Whether QoS 0 messages are kept for clients that are away.
    pub keep_qos0_offline: bool,
    /// While higher priorities wait, one message of this number is taken from a lower one, 1..; 0 gives lower
    /// ones no share, so that they wait until nothing higher does.
    pub lower_priority_share: u16,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            max_messages: 10_000,
            max_bytes: 16 * 1024 * 1024,
            stored_max_messages: None,
            stored_max_bytes: None,
            memory_bytes: 256 * 1024,
            overflow: OverflowPolicy::DropNewest,
            keep_qos0_offline: false,
            lower_priority_share: 10,
        }
    }
}

/// Retained messages of one shard.
#[derive(Clone, Debug)]
pub struct RetainedSettings {
    /// Whether the server keeps retained messages at all.
    pub available: bool,
    /// How many; 0 is no limit. Beyond it, new topics are refused; retained messages may still be replaced.
    pub max_messages: u64,
    /// How many bytes of topics and payloads; 0 is no limit.
    pub max_bytes: u64,
    /// Retained messages looked at in one step before other work gets its turn.
    pub step: u32,
}

impl Default for RetainedSettings {
    fn default() -> Self {
        Self { available: true, max_messages: 0, max_bytes: 0, step: 512 }
    }
}

/// The strategy that selects the member of a shared group for the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedStrategy {
    /// Each member in turn.
    RoundRobin,
    /// The same member as long as it takes messages.
    Sticky,
    /// By the publisher's client id.
    HashClient,
    /// By the topic.
    HashTopic,
}

/// Shared subscriptions.
#[derive(Clone, Debug)]
pub struct SharedSettings {
    /// Whether `$share/...` is served.
    pub available: bool,
    /// How messages are dealt.
    pub strategy: SharedStrategy,
}

impl Default for SharedSettings {
    fn default() -> Self {
        Self { available: true, strategy: SharedStrategy::RoundRobin }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_name: "tidegate".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            listeners: vec![ListenerSettings::default()],
            limits: Limits::default(),
            queue: QueueSettings::default(),
            overflow_rules: Vec::new(),
            hub_filters: Vec::new(),
            hub_relays: Vec::new(),
            priority: Vec::new(),
            dead_letter: None,
            retained: RetainedSettings::default(),
            shared: SharedSettings::default(),
            sys_interval_seconds: 10,
            sys_events: true,
            authentication: Authentication::Open,
            wills_on_shutdown: true,
            durability: Durability::Memory,
            tenants: None,
            broker_links: None,
            addresses: None,
            tenant_quotas: BTreeMap::new(),
            usage_by_user: false,
            tenant_ledger: None,
        }
    }
}

impl Settings {
    /// The settings of a connection's listener.
    pub(crate) fn listener(&self, listener: ListenerId) -> Option<&ListenerSettings> {
        self.listeners.get(usize::from(listener.0))
    }
}
