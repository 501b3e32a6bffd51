//! Messages between the services (`CTX-62`), as JSON. Readers ignore unknown fields, so that later versions can add
//! some.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::latency::ConnectionStatistics;

/// Most bytes of the name of a gateway, a definer or a group.
pub const MAX_NAME_BYTES: usize = 64;

/// Why a payload was not understood.
#[derive(Debug, thiserror::Error)]
#[error("{kind} is not the JSON of docs/context.md: {why}")]
pub struct PayloadError {
    kind: &'static str,
    why: String,
}

/// Longest part of a JSON error that is reported: it may quote a text of any length.
const SHOWN_CHARACTERS: usize = 160;

/// A payload with a name, as the register has it.
pub trait Payload: Serialize + DeserializeOwned {
    /// Its name in the register of topics.
    const NAME: &'static str;

    /// Reads one.
    ///
    /// # Errors
    /// When the payload is invalid.
    fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let shown = |error: serde_json::Error| error.to_string().chars().take(SHOWN_CHARACTERS).collect();
        serde_json::from_slice(bytes).map_err(|error| PayloadError { kind: Self::NAME, why: shown(error) })
    }

    /// Its bytes.
    fn write(&self) -> Vec<u8> {
        // These structures of texts and numbers always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

macro_rules! payloads {
    ($($name:ident),* $(,)?) => { $(impl Payload for $name { const NAME: &'static str = stringify!($name); })* };
}

payloads!(HelloPoA, PingConfig, LoadReport, ConnectionReport, GWList, Handover, GroupAdvertisement);

/// A gateway has come (`CTX-35`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloPoA {
    /// The name of the gateway.
    pub gateway: String,
    /// Where nodes reach it: `host:port`, as it is put into a server reference.
    pub address: String,
    /// The number of this life of the gateway: microseconds since 1970 at its start.
    pub life: u64,
}

impl HelloPoA {
    /// True if another gateway than the one with the hello `own` sent this one, with the same name. Two gateways can
    /// be given one number of life, so that the address counts as well.
    pub(crate) fn is_namesake_of(&self, own: &Self) -> bool {
        self.gateway == own.gateway && self != own
    }
}

/// How a gateway is to ping (`CTX-23`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingConfig {
    /// The gateway that it is for.
    pub gateway: String,
    /// Milliseconds from one round of pings to the next; 0 for no pings.
    pub interval_ms: u64,
    /// Milliseconds within which a pong counts.
    pub window_ms: u64,
}

/// The load of a gateway (`CTX-45`), at a fixed period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The name of the gateway.
    pub gateway: String,
    /// Where nodes reach it.
    pub address: String,
    /// Which life of the gateway.
    pub life: u64,
    /// Counts the reports of a life.
    pub number: u64,
    /// Milliseconds between two reports.
    pub period_ms: u64,
    /// Share of the machine's processors that is busy, 0 to 1.
    pub cpu: f64,
    /// Memory of the machine, bytes.
    pub memory_total: u64,
    /// Of that free for use, bytes.
    pub memory_available: u64,
    /// Length of the mean turn of the slowest event loop, milliseconds.
    pub loop_lag_ms: u64,
    /// Threads that work connections, in place of the study's pool.
    pub shards: u64,
    /// Connections now.
    pub connections: u64,
    /// Most connections it takes; 0 for no limit.
    pub max_connections: u64,
    /// Bytes that wait in queues.
    pub queue_bytes: u64,
    /// Whether it is about to leave: it gets no nodes, and its nodes are moved.
    #[serde(default)]
    pub draining: bool,
    /// Whether it is a node of a cluster. There the client id determines the node that has a session, so no client is
    /// handed over to or from it.
    #[serde(default)]
    pub clustered: bool,
}

/// A node of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLink {
    /// Its client id.
    pub id: String,
    /// The time of its pong in the last round, microseconds; left out when none came in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pong_us: Option<u64>,
    /// Round trip of its transport (TCP, QUIC), microseconds; left out when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport_us: Option<u64>,
}

/// The nodes connected to a gateway, and how fast they answer (`CTX-49`). A long one comes in several parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// The name of the gateway.
    pub gateway: String,
    /// Counts the reports; parts of one have the same number.
    pub number: u64,
    /// Which part, from 0.
    pub part: u32,
    /// How many parts there are.
    pub parts: u32,
    /// When pings were sent, milliseconds since 1970; 0 when no round has ended yet.
    pub pinged_at_ms: u64,
    /// How long pongs counted, milliseconds.
    pub window_ms: u64,
    /// Nodes that were pinged.
    pub pinged: u64,
    /// Pongs that came too late.
    pub late: u64,
    /// The nodes.
    pub nodes: Vec<NodeLink>,
}

/// A gateway in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedGateway {
    /// Its name.
    pub name: String,
    /// Where nodes reach it.
    pub address: String,
    /// Its score: higher is lighter.
    pub score: f64,
    /// How many nodes it has.
    pub nodes: u64,
    /// How many it should have.
    pub ideal: u64,
    /// The statistics of its pongs.
    pub statistics: ConnectionStatistics,
}

/// The active gateways, sorted by availability: the first one has the most room (`CTX-8`, `CTX-48`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GWList {
    /// Counts the lists of a manager.
    pub number: u64,
    /// The gateways.
    pub gateways: Vec<ListedGateway>,
}

/// A node is to go to another gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Its client id.
    pub node: String,
    /// The gateway that it is at.
    pub from: String,
    /// The gateway that it is to go to.
    pub to: String,
    /// Where that one is.
    pub address: String,
    /// When this was decided, milliseconds since 1970.
    pub at_ms: u64,
}

/// The groups of nodes, by one definer (`CTX-59`). An advertisement for a single node has `node` and `groups`. One with
/// `members` has the whole state of the definer, and replaces its earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAdvertisement {
    /// The sender.
    pub definer: String,
    /// The node that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// All groups of this definer that the node is in now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// All nodes that are in a group of this definer, with their groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<BTreeMap<String, Vec<String>>>,
    /// The position of the context that this was worked out from; older ones are left out of account.
    #[serde(default)]
    pub context: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_of_one_name_and_one_start_are_namesakes() {
        let own = HelloPoA { gateway: "same".into(), address: "a:1".into(), life: 7 };
        assert!(!own.clone().is_namesake_of(&own));
        assert!(HelloPoA { address: "b:1".into(), ..own.clone() }.is_namesake_of(&own));
        assert!(HelloPoA { life: 8, ..own.clone() }.is_namesake_of(&own));
        assert!(!HelloPoA { gateway: "other".into(), ..own.clone() }.is_namesake_of(&own));
    }

    #[test]
    fn payloads_are_read_back_and_unknown_fields_ignored() {
        let config = PingConfig { gateway: "gw-1".into(), interval_ms: 10_000, window_ms: 2_000 };
        assert_eq!(PingConfig::read(&config.write()).unwrap(), config);
        let later = br#"{"gateway":"gw-1","interval_ms":1,"window_ms":2,"since":"later"}"#;
        assert_eq!(PingConfig::read(later).unwrap().window_ms, 2);
        let error = PingConfig::read(b"{}").unwrap_err().to_string();
        assert!(error.starts_with("PingConfig is not the JSON"), "{error}");
        let long = PingConfig::read(format!("\"{}\"", "z".repeat(100_000)).as_bytes()).unwrap_err().to_string();
        assert!(long.contains("zzz") && long.len() < 300, "{} bytes", long.len());
    }

    #[test]
    fn an_advertisement_takes_both_forms() {
        let one = GroupAdvertisement::read(br#"{"definer":"gd","node":"n1","groups":["a"]}"#).unwrap();
        assert_eq!((one.node.as_deref(), one.members), (Some("n1"), None));
        let all = GroupAdvertisement::read(br#"{"definer":"gd","members":{"n1":["a","b"]}}"#).unwrap();
        assert_eq!(all.members.unwrap()["n1"], ["a", "b"]);
    }
}
