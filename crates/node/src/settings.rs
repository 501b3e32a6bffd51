//! The settings of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::Settings;

use crate::access::AccessFactory;
use crate::address::ListenAddress;
use crate::admission::AdmissionSettings;
use crate::broker_link::Brokers;
use crate::cluster::ClusterSettings;
use crate::flight::FlightSettings;
use crate::inner::InnerNodes;
use crate::listener::preset::Presets;
use crate::observer::{Observer, TracingObserver};
use crate::proxy_protocol::Network;
use crate::relay::NodeHomes;
use crate::tls::TlsSettings;

/// The settings of a node.
#[derive(Clone)]
pub struct NodeSettings {
    /// Number of shards, each a thread with its own engine: 1..=[`MAX_SHARDS`](tidegate_engine::MAX_SHARDS).
    pub shards: u16,
    /// The addresses to listen on, one for each entry of [`Settings::listeners`], in the same order.
    pub listeners: Vec<ListenAddress>,
    /// The settings of TLS listeners, by the position of their address in `listeners`.
    pub tls: BTreeMap<usize, TlsSettings>,
    /// Listeners with the PROXY protocol, by the position of their address in `listeners`, with the networks of their
    /// proxies. Each connection from these begins with a header, any other one without. Not for Unix sockets.
    pub proxies: BTreeMap<usize, Vec<Network>>,
    /// Unix sockets that only the user of the process, and root, may open, by the position of their address in
    /// `listeners`.
    pub owner_only: BTreeSet<usize>,
    /// The origins of pages that may connect to a WebSocket listener, by the position of its address in `listeners`. Its
    /// own origin may always; without a list all may.
    pub allowed_origins: BTreeMap<usize, Vec<String>>,
    /// Time between two looks at the files of TLS listeners, which are read again when one has changed; zero is never.
    pub tls_check: Duration,
    /// The settings of every engine.
    pub engine: Settings,
    /// Makes the access rules that are in force from the first connection on; without it everybody may do everything.
    pub access: Option<AccessFactory>,
    /// Determines facts about a client by its TLS session before its CONNECT; optional.
    pub presets: Option<Presets>,
    /// Connections at once over all listeners and shards; further ones are closed as soon as they are accepted. 0 is no
    /// limit but that of open files.
    pub max_connections: u32,
    /// Bytes that clients may make the node hold, without retained messages (`limits.memory_ceiling`); 0 is no limit. A
    /// start with a store leaves as much of each limit of the process on its memory, a quarter of the limit at most.
    pub memory_ceiling: u64,
    /// The partitions served here from the first connection on; without it all are.
    pub homes: Option<Arc<NodeHomes>>,
    /// Limits and bans for clients that connect.
    pub admission: AdmissionSettings,
    /// The size of the flight recorder.
    pub flight: FlightSettings,
    /// Makes the client ids that the server assigns differ between runs; `None` takes a random number.
    pub seed: Option<u64>,
    /// The users whose own credentials brokers are shown, where they are.
    pub identities: Option<InnerNodes>,
    /// The brokers of its fleet, as far as others have to know them.
    pub brokers: Brokers,
    /// The links to the other nodes of its cluster, where it is in one.
    pub cluster: Option<ClusterSettings>,
    /// The observer of events.
    pub observer: Arc<dyn Observer>,
}

impl NodeSettings {
    /// Settings for one listener, one shard, and defaults otherwise.
    pub fn new(listener: ListenAddress) -> Self {
        Self {
            shards: 1,
            listeners: vec![listener],
            tls: BTreeMap::new(),
            proxies: BTreeMap::new(),
            owner_only: BTreeSet::new(),
            allowed_origins: BTreeMap::new(),
            tls_check: Duration::ZERO,
            engine: Settings::default(),
            access: None,
            presets: None,
            max_connections: 0,
            memory_ceiling: 0,
            homes: None,
            admission: AdmissionSettings::default(),
            flight: FlightSettings::default(),
            seed: None,
            identities: None,
            brokers: Brokers::default(),
            cluster: None,
            observer: Arc::new(TracingObserver),
        }
    }
}

impl fmt::Debug for NodeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeSettings")
            .field("shards", &self.shards)
            .field("listeners", &self.listeners)
            .field("tls", &self.tls)
            .field("engine", &self.engine)
            .field("max_connections", &self.max_connections)
            .field("memory_ceiling", &self.memory_ceiling)
            .field("admission", &self.admission)
            .field("flight", &self.flight)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
