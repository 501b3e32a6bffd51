//! `/api/v1/bans`: clients, users and addresses that may not connect.

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidRequest;
use crate::request::{Body, Method, Request, with_query};

/// Longest ban that ends, seconds: a hundred years.
pub const MAX_BAN_SECONDS: u64 = 100 * 365 * 24 * 3600;

const ROUTE: &str = "/api/v1/bans";

/// The banned client, user or address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BanTarget {
    /// An address or network.
    Address(String),
    /// A client id.
    Client(String),
    /// A user name.
    User(String),
}

impl BanTarget {
    /// `address`, `client` or `user`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Client(_) => "client",
            Self::User(_) => "user",
        }
    }

    /// The address or network, the client id, or the user name.
    pub fn name(&self) -> &str {
        match self {
            Self::Address(name) | Self::Client(name) | Self::User(name) => name,
        }
    }
}

/// `GET /api/v1/bans`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListBans {}

impl Request for ListBans {
    type Answer = BanList;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = ROUTE;
}

/// `POST /api/v1/bans`: bans, and closes the connections of who is banned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BanFields", into = "BanFields")]
pub struct BanRequest {
    /// The banned client, user or address.
    pub target: BanTarget,
    /// The tenant of the client or user, by name; empty is the default one.
    pub tenant: String,
    /// Why; may be empty.
    pub reason: String,
    /// How long, seconds, 1 to [`MAX_BAN_SECONDS`]; `None` is until the ban is removed.
    pub for_seconds: Option<u64>,
}

/// [`BanRequest`] as it is sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BanFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    for_seconds: Option<u64>,
}

impl TryFrom<BanFields> for BanRequest {
    type Error = InvalidRequest;

    fn try_from(fields: BanFields) -> Result<Self, InvalidRequest> {
        let BanFields { address, client, user, tenant, reason, for_seconds } = fields;
        Ok(Self { target: only_target(address, client, user)?, tenant, reason, for_seconds })
    }
}

impl From<BanRequest> for BanFields {
    fn from(request: BanRequest) -> Self {
        let BanRequest { target, tenant, reason, for_seconds } = request;
        let (address, client, user) = fields_of(target);
        Self { address, client, user, tenant, reason, for_seconds }
    }
}

impl Request for BanRequest {
    type Answer = Banned;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = ROUTE;

    fn body(&self) -> Body<'_> {
        Body::json(self)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        // The broker gives an id to a client that sends none.
        if self.target == BanTarget::Client(String::new()) {
            return Err(InvalidRequest::new("`client` must not be empty"));
        }
        match &self.for_seconds {
            Some(seconds) => crate::in_range("for_seconds", seconds, &(1..=MAX_BAN_SECONDS)),
            None => Ok(()),
        }
    }
}

/// `DELETE /api/v1/bans`: ends a ban.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TargetFields", into = "TargetFields")]
pub struct UnbanRequest {
    /// The banned client, user or address.
    pub target: BanTarget,
    /// The tenant of the client or user, by name; empty is the default one.
    pub tenant: String,
}

/// The subject of a ban, as it is sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tenant: String,
}

impl TargetFields {
    pub(crate) fn of(target: BanTarget, tenant: String) -> Self {
        let (address, client, user) = fields_of(target);
        Self { address, client, user, tenant }
    }

    /// The target and its tenant.
    pub(crate) fn target(self) -> Result<(BanTarget, String), InvalidRequest> {
        Ok((only_target(self.address, self.client, self.user)?, self.tenant))
    }
}

impl TryFrom<TargetFields> for UnbanRequest {
    type Error = InvalidRequest;

    fn try_from(fields: TargetFields) -> Result<Self, InvalidRequest> {
        let (target, tenant) = fields.target()?;
        Ok(Self { target, tenant })
    }
}

impl From<UnbanRequest> for TargetFields {
    fn from(request: UnbanRequest) -> Self {
        Self::of(request.target, request.tenant)
    }
}

impl Request for UnbanRequest {
    type Answer = Unbanned;
    const METHOD: Method = Method::Delete;
    const ROUTE: &'static str = ROUTE;

    fn path(&self) -> String {
        with_query(ROUTE, self)
    }
}

fn only_target(
    address: Option<String>,
    client: Option<String>,
    user: Option<String>,
) -> Result<BanTarget, InvalidRequest> {
    let targets = [address.map(BanTarget::Address), client.map(BanTarget::Client), user.map(BanTarget::User)];
    let mut named = targets.into_iter().flatten();
    match (named.next(), named.next()) {
        (Some(target), None) => Ok(target),
        _ => Err(InvalidRequest::new("name one of `address`, `client` and `user`")),
    }
}

fn fields_of(target: BanTarget) -> (Option<String>, Option<String>, Option<String>) {
    match target {
        BanTarget::Address(name) => (Some(name), None, None),
        BanTarget::Client(name) => (None, Some(name), None),
        BanTarget::User(name) => (None, None, Some(name)),
    }
}

/// The bans in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanList {
    /// All bans, in the order of their targets.
    pub bans: Vec<BanEntry>,
    /// Nodes of the cluster that answered, or the single broker.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Nodes of the cluster that did not answer.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

/// A ban in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanEntry {
    /// `address`, `client` or `user`.
    pub kind: String,
    /// The address or network, the client id, or the user name.
    pub name: String,
    /// The tenant of the client or user, by name; empty is the default one.
    #[serde(default)]
    pub tenant: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// The origin of the ban, a word such as `operator`.
    #[serde(default)]
    pub origin: String,
    /// Since when, milliseconds since 1970.
    #[serde(default)]
    pub since_ms: u64,
    /// Until when, milliseconds since 1970; `None` is until the ban is removed.
    #[serde(default)]
    pub until_ms: Option<u64>,
    /// The first node of the cluster that has it, or the single broker.
    #[serde(default)]
    pub node: String,
    /// All nodes that have it.
    #[serde(default)]
    pub nodes: Vec<String>,
}

impl BanEntry {
    /// Whether both are one ban, perhaps of two nodes. Their ends may differ by the difference of two clocks.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let facts = |ban: &Self| {
            let ends = ban.until_ms.is_some();
            (ban.kind.clone(), ban.name.clone(), ban.tenant.clone(), ban.origin.clone(), ban.reason.clone(), ends)
        };
        // Bans of the configuration begin with their process.
        facts(self) == facts(other) && (self.since_ms == other.since_ms || self.origin == "configuration")
    }
}

/// A change of a ban of an operator, as the members of a cluster tell each other of it. Of two changes the one with
/// the later `changed_ms` holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanRecord {
    /// The subject of the ban, in force or ended.
    pub target: BanTarget,
    /// The tenant of the client or user, by name; empty is the default one.
    #[serde(default)]
    pub tenant: String,
    /// When it was changed, milliseconds since 1970.
    pub changed_ms: u64,
    /// The ban; `None` when it has ended.
    #[serde(default)]
    pub ban: Option<BanTerms>,
}

/// The reason of a ban, and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanTerms {
    /// Why; may be empty.
    #[serde(default)]
    pub reason: String,
    /// Until when, milliseconds since 1970; `None` is until the ban is removed.
    #[serde(default)]
    pub until_ms: Option<u64>,
}

/// Connections that one node has closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Its name.
    pub node: String,
    /// How many.
    pub closed: u64,
}

/// A ban is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Banned {
    /// Connections that were closed, on all nodes.
    pub closed: u64,
    /// Connections that were closed, by node.
    #[serde(default)]
    pub nodes: Vec<Closed>,
    /// Nodes of the cluster that did not answer. They take the ban in when they are linked again.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

/// A ban has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unbanned {
    /// Always true: where there is no such ban, the request is refused.
    pub removed: bool,
    /// Nodes of the cluster that did not answer. They take the end of the ban in when they are linked again.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read_body, read_query};

    #[test]
    fn a_ban_names_one_target_and_nothing_unknown() {
        let read = |text: &str| read_body::<BanRequest>(text.as_bytes());
        let request = read(r#"{"client": "c", "reason": "why", "for_seconds": 60}"#).unwrap();
        let target = BanTarget::Client("c".to_owned());
        let tenant = String::new();
        assert_eq!(request, BanRequest { target, tenant, reason: "why".to_owned(), for_seconds: Some(60) });
        assert_eq!(read(r#"{"user": "u", "for_seconds": null}"#).unwrap().for_seconds, None);
        assert_eq!(read(r#"{"tenant": "acme", "user": "u"}"#).unwrap().tenant, "acme");
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"client": 1}"#,
            r#"{"client": ""}"#,
            r#"{"client": "a", "user": "b"}"#,
            r#"{"client": "a", "for_seconds": 0}"#,
            r#"{"client": "a", "for_seconds": -1}"#,
            r#"{"client": "a", "for_seconds": 3153600001}"#,
            r#"{"client": "a", "tenant": 1}"#,
            r#"{"client": "a", "forever": true}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_end_of_a_ban_is_sent_as_it_is_read() {
        let read = |query: &str| read_query::<UnbanRequest>(Some(query));
        let request = read("user=u%26&tenant=t").unwrap();
        assert_eq!(request, UnbanRequest { target: BanTarget::User("u&".to_owned()), tenant: "t".to_owned() });
        assert_eq!(request.path(), "/api/v1/bans?user=u%26&tenant=t");
        for wrong in ["", "tenant=t", "user=u&client=c", "user=u&tenant=t&tenant=t", "user=u&x=y"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
