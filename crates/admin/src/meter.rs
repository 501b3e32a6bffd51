//! `GET /api/v1/meter`: what tenants have used.

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidRequest;
use crate::request::{Method, Request, with_query};

/// The subject of the requested usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeterBy {
    /// Each tenant's.
    #[default]
    Tenant,
    /// Each user's.
    User,
}

impl MeterBy {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_tenant(&self) -> bool {
        *self == Self::Tenant
    }
}

/// The requested periods. A period counts when it begins within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeterRequest {
    /// From this time on, milliseconds since 1970.
    #[serde(default)]
    pub from_ms: u64,
    /// Before this time, milliseconds since 1970.
    #[serde(default = "end_of_time")]
    pub to_ms: u64,
    /// The subject of the usage. The default is left out, because nodes of earlier versions refuse the field.
    #[serde(default, skip_serializing_if = "MeterBy::is_tenant")]
    pub by: MeterBy,
}

fn end_of_time() -> u64 {
    u64::MAX
}

impl Default for MeterRequest {
    fn default() -> Self {
        Self { from_ms: 0, to_ms: end_of_time(), by: MeterBy::Tenant }
    }
}

impl Request for MeterRequest {
    type Answer = Metered;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/meter";

    fn path(&self) -> String {
        with_query(Self::ROUTE, self)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        if self.from_ms < self.to_ms {
            return Ok(());
        }
        Err(InvalidRequest::new("`to_ms` must be later than `from_ms`".to_owned()))
    }
}

/// The usage of tenants, or of users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    /// By the name of the tenant, then of the user; the default tenant is `default`.
    pub tenants: Vec<TenantUsage>,
    /// Nodes whose books are in memory only, because they have no data directory: these begin with the start of the
    /// process.
    #[serde(default)]
    pub in_memory: Vec<String>,
    /// Nodes of the cluster that answered, or the single broker.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Nodes of the cluster that did not answer.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

/// The usage of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantUsage {
    /// The name of the tenant.
    pub tenant: String,
    /// The user name, if usage by user was asked for. It is empty for clients without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Messages received from its clients.
    #[serde(default)]
    pub messages_in: u64,
    /// Messages sent to its clients.
    #[serde(default)]
    pub messages_out: u64,
    /// Bytes received from its clients.
    #[serde(default)]
    pub bytes_in: u64,
    /// Bytes sent to its clients.
    #[serde(default)]
    pub bytes_out: u64,
    /// Connection time, milliseconds, added up over connections.
    #[serde(default)]
    pub connection_ms: u64,
    /// Messages that sinks have confirmed, each counted for each sink.
    #[serde(default)]
    pub sink_deliveries: u64,
    /// Time of sessions, milliseconds, added up over sessions.
    #[serde(default)]
    pub session_ms: u64,
    /// Bytes of retained messages times seconds.
    #[serde(default)]
    pub retained_byte_seconds: u64,
    /// Bytes of messages that wait for sessions times seconds.
    #[serde(default)]
    pub stored_byte_seconds: u64,
}

impl TenantUsage {
    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.messages_in, other.messages_in),
            (&mut self.messages_out, other.messages_out),
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.bytes_out, other.bytes_out),
            (&mut self.connection_ms, other.connection_ms),
            (&mut self.sink_deliveries, other.sink_deliveries),
            (&mut self.session_ms, other.session_ms),
            (&mut self.retained_byte_seconds, other.retained_byte_seconds),
            (&mut self.stored_byte_seconds, other.stored_byte_seconds),
        ];
        for (mine, theirs) in pairs {
            *mine = mine.saturating_add(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_limits_asks_for_all() {
        let request: MeterRequest = crate::read_query(None).unwrap();
        assert_eq!(request, MeterRequest::default());
        assert!(crate::read_query::<MeterRequest>(Some("from_ms=5&to_ms=5")).is_err());
    }
}
