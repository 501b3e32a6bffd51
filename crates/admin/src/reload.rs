//! `POST /api/v1/reload`: the broker reads its configuration again.

use serde::{Deserialize, Serialize};

use crate::request::{Method, Request};

/// Asks for it. The answer has status 200 when the new configuration is in force, and 409 when it is wrong and the old
/// one stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReloadRequest;

impl Request for ReloadRequest {
    type Answer = Reloaded;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/reload";
    const COMMAND: Option<&'static str> = Some("reload");
}

/// The outcome of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Whether the new configuration is in force.
    pub applied: bool,
    /// The changes, or the reason why there are none, for a person; several lines.
    pub text: String,
    /// Differences within files, a line for each.
    #[serde(default)]
    pub files: Vec<String>,
    /// Keys whose values have changed.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// The outcome on each node of the cluster, or of the single broker.
    #[serde(default)]
    pub nodes: Vec<NodeReloaded>,
    /// Nodes of the cluster that did not answer.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

impl Reloaded {
    /// Nothing was changed, for this reason.
    pub fn refused(reason: &str) -> Self {
        Self { applied: false, text: format!("{reason}\n"), ..Self::default() }
    }
}

/// The outcome of a reload on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReloaded {
    /// Its name.
    pub node: String,
    /// Whether its new configuration is in force.
    pub applied: bool,
    /// The changes there, or the reason why there are none.
    pub text: String,
}

/// A key of the configuration whose value has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Its value before.
    pub old: String,
    /// Its value in the configuration now.
    pub new: String,
    /// Whether the new value is in force only after a restart.
    pub needs_restart: bool,
}
