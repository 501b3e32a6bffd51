//! `/api/v1/cluster`: the state of a node in its cluster.

use serde::{Deserialize, Serialize};

use crate::request::{Body, Done, Method, Request};

/// `GET /api/v1/cluster`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetCluster;

impl Request for GetCluster {
    type Answer = ClusterStatus;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/cluster";
}

/// The part of the answer to [`GetCluster`] that a manager of a fleet needs. docs/cluster.md has the other members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The name of the node.
    pub name: String,
    /// Whether it is a member, with a lease.
    #[serde(default)]
    pub member: bool,
    /// Whether it leads: it decides which node works which partition.
    #[serde(default)]
    pub leads: bool,
    /// Whether it takes no partitions, and hands over its own.
    #[serde(default)]
    pub leaving: bool,
    /// The epoch of the table that it knows.
    #[serde(default)]
    pub epoch: u64,
    /// Moves from here whose later messages it still forwards.
    #[serde(default)]
    pub passing: u64,
    /// The nodes of the table.
    #[serde(default)]
    pub nodes: Vec<ClusterMember>,
    /// Moves of partitions that are under way.
    #[serde(default)]
    pub moves: Vec<ClusterMove>,
}

/// A node of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMember {
    /// Its name.
    pub name: String,
    /// How many partitions it works.
    #[serde(default)]
    pub partitions: usize,
    /// Whether it takes no partitions.
    #[serde(default)]
    pub leaving: bool,
}

/// A move of partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMove {
    /// The node that has them.
    pub from: String,
    /// The node that gets them.
    pub to: String,
}

/// `PUT /api/v1/cluster/share`: has a node take a share of the partitions, or hand over all that it has. A request with
/// the value that is in force changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetShare {
    /// Whether it takes one.
    pub wanted: bool,
}

impl Request for SetShare {
    type Answer = Done;
    const METHOD: Method = Method::Put;
    const ROUTE: &'static str = "/api/v1/cluster/share";
    const COMMAND: Option<&'static str> = Some("fleet");

    fn body(&self) -> Body<'_> {
        Body::json(self)
    }
}
