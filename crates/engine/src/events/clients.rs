//! The clients of a shard, for operators.

use crate::ids::{ConnectionKey, TenantId};
use tidegate_mqtt::Version;

/// The requested clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientQuery {
    /// Part of their client ids.
    pub containing: String,
    /// Only those behind this client in the order of tenants and client ids, where an earlier answer ended.
    pub after: Option<(TenantId, String)>,
    /// How many at most.
    pub limit: usize,
    /// How many subscriptions of each are named.
    pub filters: usize,
}

/// A client with a session, connected or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSummary {
    /// The tenant of the client.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: String,
    /// Its connection.
    pub connection: Option<ConnectionKey>,
    /// Its protocol version, while it is connected.
    pub version: Option<Version>,
    /// The keep-alive in force, seconds, while it is connected.
    pub keep_alive: Option<u16>,
    /// The user name that it has proven.
    pub user_name: Option<String>,
    /// How long its session lasts without it, seconds; `u32::MAX` is for ever.
    pub expiry_seconds: u32,
    /// How many subscriptions it has, memberships in shared groups included.
    pub subscriptions: u64,
    /// Some of them.
    pub filters: Vec<String>,
    /// Messages that wait for its acknowledgement.
    pub inflight_messages: u64,
    /// Messages that wait in its queue.
    pub queued_messages: u64,
    /// Bytes of the queued messages.
    pub queued_bytes: u64,
}
