//! `GET /api/v1/meter`: what tenants have used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidRequest;
use crate::members::Shares;
use crate::request::{Method, Request, with_query};

/// Which periods are asked for. A period counts when it begins within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeterRequest {
    /// From this time on, milliseconds since 1970.
    #[serde(default)]
    pub from_ms: u64,
    /// Before this time, milliseconds since 1970.
    #[serde(default = "end_of_time")]
    pub to_ms: u64,
}

fn end_of_time() -> u64 {
    u64::MAX
}

impl Default for MeterRequest {
    fn default() -> Self {
        Self { from_ms: 0, to_ms: end_of_time() }
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

/// What tenants have used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    /// By the name of the tenant; the default tenant is `default`.
    pub tenants: Vec<TenantUsage>,
    /// Nodes whose books are in memory only, because they have no data directory: these begin with the start of the
    /// process.
    #[serde(default)]
    pub in_memory: Vec<String>,
    /// Nodes of the cluster that answered, or the one broker.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Nodes of the cluster that did not answer.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

/// What a tenant has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantUsage {
    /// The name of the tenant.
    pub tenant: String,
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
    fn add(&mut self, other: &Self) {
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

impl Shares<Metered> {
    /// The sum over all members, in the order of the names of tenants.
    pub fn merge(self) -> Metered {
        let nodes = self.names();
        let (answered, unreachable) = self.sorted();
        let mut tenants: BTreeMap<String, TenantUsage> = BTreeMap::new();
        let mut in_memory = Vec::new();
        for (node, share) in answered {
            if !share.in_memory.is_empty() {
                in_memory.push(node);
            }
            for usage in share.tenants {
                let none = || TenantUsage { tenant: usage.tenant.clone(), ..TenantUsage::default() };
                tenants.entry(usage.tenant.clone()).or_insert_with(none).add(&usage);
            }
        }
        Metered { tenants: tenants.into_values().collect(), in_memory, nodes, unreachable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_all_members_is_added_up() {
        let share = |tenant: &str, messages_in, in_memory: &[&str]| Metered {
            tenants: vec![TenantUsage { tenant: tenant.to_owned(), messages_in, ..TenantUsage::default() }],
            in_memory: in_memory.iter().map(|name| (*name).to_owned()).collect(),
            ..Metered::default()
        };
        let answered = vec![
            ("b".to_owned(), share("acme", 2, &["b"])),
            ("a".to_owned(), share("acme", 40, &[])),
            ("c".to_owned(), share("default", 1, &[])),
        ];
        let all = Shares { answered, unreachable: vec!["d".to_owned()] }.merge();
        let sums: Vec<_> = all.tenants.iter().map(|usage| (usage.tenant.as_str(), usage.messages_in)).collect();
        assert_eq!(sums, [("acme", 42), ("default", 1)]);
        assert_eq!((all.in_memory, all.unreachable), (vec!["b".to_owned()], vec!["d".to_owned()]));
        assert_eq!(all.nodes, ["a", "b", "c"]);
    }

    #[test]
    fn a_request_without_limits_asks_for_all() {
        let request: MeterRequest = crate::read_query(None).unwrap();
        assert_eq!(request, MeterRequest::default());
        assert!(crate::read_query::<MeterRequest>(Some("from_ms=5&to_ms=5")).is_err());
    }
}
