//! `GET /api/v1/slow`: clients that read slowly or do not acknowledge.

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidRequest;
use crate::request::{Method, Request, with_query};

/// Clients in an answer unless another number is asked for.
pub const DEFAULT_SLOW: u32 = 20;
/// Most clients in an answer.
pub const MAX_SLOW: u32 = 1000;

/// The requested slow clients: the worst ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowRequest {
    /// How many at most, 1 to [`MAX_SLOW`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

fn default_limit() -> u32 {
    DEFAULT_SLOW
}

impl Request for SlowRequest {
    type Answer = SlowClients;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/slow";

    fn path(&self) -> String {
        with_query(Self::ROUTE, self)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        crate::in_range("limit", &self.limit, &(1..=MAX_SLOW))
    }
}

/// Slow clients, the worst first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowClients {
    /// The clients.
    pub clients: Vec<SlowClient>,
    /// Nodes of the cluster that answered, or the single broker.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Nodes of the cluster that did not answer.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

/// A slow client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowClient {
    /// The client id.
    pub client: String,
    /// The node of the cluster, or the single broker.
    #[serde(default)]
    pub node: String,
    /// The name of its tenant; empty for the default one.
    #[serde(default)]
    pub tenant_name: String,
    /// The number of its tenant; 0 is the default one.
    #[serde(default)]
    pub tenant: u16,
    /// Whether it is connected.
    #[serde(default)]
    pub connected: bool,
    /// The packet id of the oldest message that it has not acknowledged.
    #[serde(default)]
    pub unacknowledged_packet_id: Option<u16>,
    /// Messages sent to it that it has not acknowledged.
    #[serde(default)]
    pub inflight_messages: u64,
    /// How long it has acknowledged nothing, milliseconds.
    #[serde(default)]
    pub waiting_ms: u64,
    /// Messages that wait for it.
    #[serde(default)]
    pub queued_messages: u64,
    /// Bytes of the messages that wait for it.
    #[serde(default)]
    pub queued_bytes: u64,
    /// Publishers that wait until its queue has room.
    #[serde(default)]
    pub blocked_publishers: u64,
}
