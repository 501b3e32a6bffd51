//! The settings of an engine, from the configuration.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use tidegate_engine as engine;
use tidegate_mqtt::QoS;
use tidegate_store::RealDisk;

use crate::hub::is_hub_listener;
use crate::orchestrator::RELAY_LISTENER;
use tidegate_process::physical_memory;

use super::sections::cluster::Cluster;
use super::sections::mirror::Mirror;
use super::sections::tenant::Tenant;
use super::sections::{Limits, Listener, Node, Retained, Store, StoreDurability};
use super::value::Lifetime;
use super::{Config, waiting_settings};
use tidegate_units::size::MIB;

/// Shards that a broker has at most.
const MAX_SHARDS: usize = engine::MAX_SHARDS as usize;

/// Bytes that each of the two uses of memory by the store gets at least and at most where nothing is configured.
const LEAST_STORE_MEMORY: u64 = 16 * MIB;
const MOST_STORE_MEMORY: u64 = 256 * MIB;

/// Bytes that wait for one session in the store at most where nothing is configured, and the part of its disk.
const MOST_STORED_QUEUE: u64 = 1024 * MIB;
const STORED_QUEUE_PART: u64 = 8;
/// Bytes that the queue of one session may take in memory at least where nothing is configured.
const LEAST_QUEUE: u64 = MIB / 4;
/// Bytes that a store may take on the bus where nothing is configured and the bus has room for them.
const DEFAULT_MIRROR_BYTES: u64 = 4096 * MIB;

impl Config {
    /// `NAME` in `$SYS/brokers/NAME/`: of the node in its cluster, or of the broker.
    fn sys_name(&self) -> &str {
        if self.cluster.name.is_empty() { &self.node.name } else { &self.cluster.name }
    }

    /// The settings of each of `shards` engines. Bounds for the whole broker are divided, rounded up.
    /// Tenants are left out: these are shared by all shards.
    pub fn engine_settings(&self, shards: u16) -> engine::Settings {
        #[cfg(feature = "pipelines")]
        let (hub_rules, hub_filters): (Vec<_>, _) = (
            crate::hub::overflow_rules(&self.pipelines).collect(),
            crate::hub::filters(&self.pipelines, &self.tenants),
        );
        #[cfg(not(feature = "pipelines"))]
        let (hub_rules, hub_filters) = (Vec::new(), Vec::new());
        engine::Settings {
            node_name: self.sys_name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            listeners: self.listeners.iter().map(|listener| listener_settings(listener, shards)).collect(),
            limits: engine_limits(&self.limits, self.shard_memory(), shards),
            queue: self.queue_settings(),
            overflow_rules: hub_rules.into_iter().chain(waiting_settings::overflow_rules(&self.overflow)).collect(),
            hub_filters,
            hub_relays: self.hub.relays.0.clone(),
            priority: waiting_settings::priority_rules(&self.priority),
            dead_letter: self.dead_letter.settings(shards),
            retained: engine::RetainedSettings {
                available: self.retained.available,
                max_messages: share(self.retained.max_messages, shards),
                max_bytes: share(self.retained.bytes(), shards),
                step: self.retained.step,
            },
            shared: engine::SharedSettings { available: self.shared.available, strategy: self.shared.strategy },
            sys_interval_seconds: seconds(self.sys.interval),
            sys_events: self.sys.events,
            authentication: if self.needs_authentication() {
                engine::Authentication::External
            } else {
                engine::Authentication::Open
            },
            wills_on_shutdown: self.shutdown.publish_wills,
            durability: self.store.engine_durability(),
            addresses: self.address_settings(shards),
            tenants: None,
            tenant_ledger: None,
            broker_links: self.orchestrator.broker_link_settings(),
            tenant_quotas: BTreeMap::new(),
            usage_by_user: self.hub.usage_by_user,
        }
    }

    /// How long queues may be. Where nothing is configured, messages in the store are bounded by their bytes alone.
    fn queue_settings(&self) -> engine::QueueSettings {
        let default = engine::QueueSettings::default();
        let (messages, bytes) = (self.queue.max_messages, self.queue.max_bytes.0);
        let in_memory = queue_bytes_in_memory(self.limits.ceiling());
        let has_store = self.store.engine_durability() != engine::Durability::Memory;
        engine::QueueSettings {
            max_messages: if messages == 0 { default.max_messages } else { messages },
            max_bytes: if bytes == 0 { in_memory } else { bytes },
            stored_max_messages: (has_store && messages == 0).then_some(u32::MAX),
            stored_max_bytes: (has_store && bytes == 0)
                .then(|| stored_queue_bytes(&self.store, &self.mirror, &self.cluster).max(in_memory)),
            memory_bytes: self.queue.memory_size.0,
            overflow: self.queue.overflow,
            keep_qos0_offline: self.queue.keep_qos0_offline,
            lower_priority_share: self.queue.lower_priority_share,
        }
    }
}

/// Bytes that the queue of one session may take in memory, where nothing is configured: 16 MiB, and no more than a
/// sixteenth of the ceiling, so that a few clients that are away do not fill it. With a ceiling of 0 it is 16 MiB.
fn queue_bytes_in_memory(ceiling: u64) -> u64 {
    let most = engine::QueueSettings::default().max_bytes;
    if ceiling == 0 { most } else { most.min((ceiling / 16).max(LEAST_QUEUE)) }
}

impl Node {
    /// Number of shards: the configured one, or one for every two cores. A shard has work for little more than half a
    /// core before the kernel's part of the same traffic fills the other half, and a message that crosses shards costs
    /// more than a client that does not.
    pub fn shards(&self) -> u16 {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        match self.shards {
            0 => u16::try_from(cores().div_ceil(2).min(MAX_SHARDS)).unwrap_or(1),
            shards => shards,
        }
    }
}

impl Retained {
    /// Bytes that retained messages may hold: the configured number, or a quarter of the memory.
    fn bytes(&self) -> u64 {
        self.bytes_within(physical_memory::available())
    }

    /// The same where so much memory is available, bytes; `None` where the system does not tell.
    pub(crate) fn bytes_within(&self, available: Option<u64>) -> u64 {
        match self.max_bytes.0 {
            0 => available.map_or(0, |bytes| bytes / 4),
            configured => configured,
        }
    }
}

impl Store {
    /// Bytes that a merge of the store sorts in memory, and bytes that may wait to be written: the configured numbers,
    /// or a sixteenth each of the memory that there is, up to 256 MiB. With half of it for clients and a quarter for
    /// retained messages, an eighth is left for all else.
    pub fn memory(&self, available: Option<u64>) -> (u64, u64) {
        let share =
            available.map_or(MOST_STORE_MEMORY, |bytes| (bytes / 16).clamp(LEAST_STORE_MEMORY, MOST_STORE_MEMORY));
        let or_share = |configured: u64| if configured == 0 { share } else { configured };
        (or_share(self.merge_memory.0), or_share(self.pending_memory.0))
    }

    /// Bytes at which a file of the journal is closed. A merge and a start hold a whole file in memory, with the places of
    /// its operations, so that it is no more than half of the memory of a merge.
    pub fn file_bytes(&self, merge_memory: u64) -> u64 {
        self.segment_size.0.min(merge_memory / 2)
    }

    /// The durability of the engine's state: none without a directory.
    pub fn engine_durability(&self) -> engine::Durability {
        match self.durability {
            _ if self.directory.is_none() => engine::Durability::Memory,
            StoreDurability::Memory => engine::Durability::Memory,
            StoreDurability::Relaxed => engine::Durability::Relaxed,
            StoreDurability::Commit => engine::Durability::Commit,
        }
    }
}

/// How much each tenant may have, by its number.
pub fn tenant_quotas(tenants: &[Tenant]) -> BTreeMap<engine::TenantId, engine::TenantQuota> {
    let quotas = tenants.iter().map(|tenant| engine::TenantQuota {
        max_connections: tenant.max_connections,
        max_sessions: tenant.max_sessions,
        max_retained: tenant.max_retained,
        max_subscriptions: tenant.max_subscriptions,
        max_message_rate: tenant.max_message_rate,
    });
    (1..).map(engine::TenantId).zip(quotas).collect()
}

/// Bytes that wait for a session in the store where nothing is configured: a part of the store's limit.
fn stored_queue_bytes(store: &Store, mirror: &Mirror, cluster: &Cluster) -> u64 {
    let disk = store.directory.as_ref().and_then(|it| RealDisk::file_system_size(Path::new(it)).ok());
    let limit = Some(store.max_bytes.0).filter(|bytes| *bytes != 0);
    let on_bus = mirror.bus.is_some() || cluster.bus.is_some();
    let mirrored = on_bus.then_some(match mirror.max_bytes.0 {
        0 => DEFAULT_MIRROR_BYTES,
        bytes => bytes,
    });
    let room = [disk, limit, mirrored].into_iter().flatten().min().unwrap_or(u64::MAX);
    (room / STORED_QUEUE_PART).min(MOST_STORED_QUEUE)
}

fn engine_limits(limits: &Limits, memory: u64, shards: u16) -> engine::Limits {
    engine::Limits {
        connect_timeout_ms: millis(limits.connect_timeout),
        pipelined_bytes: limits.pipelined_bytes.narrow(),
        max_sessions: share_narrow(limits.max_sessions, shards),
        max_session_expiry_seconds: match limits.max_session_expiry {
            Lifetime::Unlimited => u32::MAX,
            Lifetime::For(length) => seconds(length),
        },
        max_subscriptions_per_client: limits.max_subscriptions_per_client,
        max_topic_levels: limits.max_topic_levels,
        max_payload: match limits.max_payload.0 {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        },
        max_topic_bytes: limits.max_topic_bytes,
        max_filter_wildcards: limits.max_filter_wildcards,
        slow_after_ms: millis(limits.slow_after),
        max_inflight: limits.max_inflight,
        output_high_water: limits.output_high_water.narrow(),
        memory_ceiling: share(memory, shards),
        shard_link_bytes: limits.shard_link_bytes.0,
        kept_deal_bytes: limits.kept_deal_bytes.0,
        parked_bytes: limits.parked_bytes.narrow(),
        block_timeout_ms: millis(limits.block_timeout),
        // Some thirty short messages to one receiver each do not make a turn long.
        lag_exempt_bytes: engine::Limits::default().lag_exempt_bytes,
    }
}

fn listener_settings(listener: &Listener, shards: u16) -> engine::ListenerSettings {
    engine::ListenerSettings {
        name: listener.name.clone(),
        tenant: engine::TenantId::DEFAULT,
        max_packet_size: listener.max_packet_size.narrow(),
        receive_maximum: listener.receive_maximum,
        receive_maximum_lenient: listener.receive_maximum_lenient,
        topic_alias_maximum: listener.topic_alias_maximum,
        topic_alias_maximum_out: listener.topic_alias_maximum_out,
        max_message_rate: listener.max_message_rate,
        message_burst: listener.message_burst,
        max_byte_rate: listener.max_byte_rate.0,
        byte_burst: listener.byte_burst.0,
        max_total_message_rate: share_narrow(listener.max_total_message_rate, shards),
        max_total_byte_rate: share(listener.max_total_byte_rate.0, shards),
        maximum_qos: match listener.maximum_qos {
            0 => QoS::AtMostOnce,
            1 => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        },
        keep_alive_maximum: u16::try_from(seconds(listener.keep_alive_maximum)).unwrap_or(u16::MAX),
        keep_alive_refuse: listener.keep_alive_refuse,
        check_payload_format: listener.check_payload_format,
        allow_empty_client_id: listener.allow_empty_client_id,
        max_client_id_len: listener.max_client_id_len,
        max_connections: share_narrow(listener.max_connections, shards),
        response_information: listener.response_information.clone(),
        server_reference: listener.server_reference.clone(),
        mobile_nodes: listener.mobile_nodes,
        relayed: listener.name == RELAY_LISTENER,
        for_hub: is_hub_listener(&listener.name),
        for_http: listener.address.is_http(),
        for_coap: listener.address.is_coap(),
    }
}

/// A shard's part of the broker's whole number; 0, no limit, stays 0.
fn share(whole: u64, shards: u16) -> u64 {
    whole.div_ceil(u64::from(shards.max(1)))
}

fn share_narrow(whole: u32, shards: u16) -> u32 {
    whole.div_ceil(u32::from(shards.max(1)))
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn seconds(length: Duration) -> u32 {
    u32::try_from(length.as_secs()).unwrap_or(u32::MAX)
}
