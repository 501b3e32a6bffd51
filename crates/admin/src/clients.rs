//! `GET /api/v1/clients`: clients that are connected, and sessions of clients that are away.

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidRequest;
use crate::request::{Method, Request, with_query};

/// Clients in an answer unless another number is asked for.
pub const DEFAULT_CLIENTS: u32 = 100;
/// Most clients in an answer.
pub const MAX_CLIENTS: u32 = 1000;
/// Most subscriptions of each client that are named.
pub const MAX_FILTERS: u32 = 100;

/// The requested clients, in the order of tenants and client ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsRequest {
    /// Text that their client ids contain; empty for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub containing: String,
    /// Only those behind this client id, where the answer before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The tenant of that client id; the empty name is the default tenant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after_tenant: String,
    /// How many at most, 1 to [`MAX_CLIENTS`].
    #[serde(default = "default_limit")]
    pub limit: u32,
    /// How many subscriptions of each are named, 0 to [`MAX_FILTERS`].
    #[serde(default)]
    pub filters: u32,
}

fn default_limit() -> u32 {
    DEFAULT_CLIENTS
}

impl Default for ClientsRequest {
    fn default() -> Self {
        Self { containing: String::new(), after: None, after_tenant: String::new(), limit: DEFAULT_CLIENTS, filters: 0 }
    }
}

impl Request for ClientsRequest {
    type Answer = Clients;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/clients";

    fn path(&self) -> String {
        with_query(Self::ROUTE, self)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        crate::in_range("limit", &self.limit, &(1..=MAX_CLIENTS))?;
        crate::in_range("filters", &self.filters, &(0..=MAX_FILTERS))
    }
}

/// A page of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// The clients, in the order of tenants and client ids.
    pub clients: Vec<ClientEntry>,
    /// Whether there are more behind the last one.
    #[serde(default)]
    pub more: bool,
    /// Nodes of the cluster that answered, or the single broker.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Nodes of the cluster that did not answer.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

/// A client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientEntry {
    /// The client id.
    pub client: String,
    /// The node of the cluster, or the single broker.
    #[serde(default)]
    pub node: String,
    /// The name of its tenant; empty for the default one.
    #[serde(default)]
    pub tenant: String,
    /// Whether it is connected.
    #[serde(default)]
    pub connected: bool,
    /// The address from which it is connected.
    #[serde(default)]
    pub address: Option<String>,
    /// The version of MQTT that it speaks, such as `5.0`.
    #[serde(default)]
    pub version: Option<String>,
    /// Its keep alive, seconds.
    #[serde(default)]
    pub keep_alive: Option<u16>,
    /// Its user name.
    #[serde(default)]
    pub user: Option<String>,
    /// How long its session lasts without a connection, seconds.
    #[serde(default)]
    pub session_expiry: u32,
    /// Its subscriptions.
    #[serde(default)]
    pub subscriptions: u64,
    /// Filters of its subscriptions, as many as were asked for.
    #[serde(default)]
    pub filters: Vec<String>,
    /// Messages sent to it that it has not acknowledged.
    #[serde(default)]
    pub inflight_messages: u64,
    /// Messages that wait for it.
    #[serde(default)]
    pub queued_messages: u64,
    /// Bytes of the messages that wait for it.
    #[serde(default)]
    pub queued_bytes: u64,
}
