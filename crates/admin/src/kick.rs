//! `POST /api/v1/kick`: closes connections.

use serde::{Deserialize, Serialize};

use crate::bans::{BanTarget, Closed, TargetFields};
use crate::invalid::InvalidRequest;
use crate::request::{Body, Method, Request};

/// Closes the connections of a client, a user or an address. They may connect again at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TargetFields", into = "TargetFields")]
pub struct KickRequest {
    /// The clients whose connections are closed.
    pub target: BanTarget,
    /// The tenant of the client or user, by name; empty is the default one.
    pub tenant: String,
}

impl TryFrom<TargetFields> for KickRequest {
    type Error = InvalidRequest;

    fn try_from(fields: TargetFields) -> Result<Self, InvalidRequest> {
        let (target, tenant) = fields.target()?;
        Ok(Self { target, tenant })
    }
}

impl From<KickRequest> for TargetFields {
    fn from(request: KickRequest) -> Self {
        Self::of(request.target, request.tenant)
    }
}

impl Request for KickRequest {
    type Answer = Kicked;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/kick";

    fn body(&self) -> Body<'_> {
        Body::json(self)
    }
}

/// Connections were closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kicked {
    /// Connections that were closed, on all nodes.
    pub closed: u64,
    /// Connections that were closed, by node.
    #[serde(default)]
    pub nodes: Vec<Closed>,
    /// Nodes that did not answer.
    #[serde(default)]
    pub unreachable: Vec<String>,
}
