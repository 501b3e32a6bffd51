//! A broker without the feature `cluster` is a member of no cluster: the configuration refuses one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::reload::Reloadable;
use tidegate_identity::tenant_numbers::Agree;
use tidegate_node::{ClusterSettings, Node, NodeHomes};
use tidegate_placement::Placement;
use tidegate_process::signals::BrokerSignals;

/// The state of a node of a cluster before it runs.
pub(crate) enum Joining {}

/// A node of a cluster.
pub(crate) enum ClusterNode {}

/// The store of a node, whose files are on a bus.
pub(crate) enum StoreOnBus {}

/// Why the node has not joined.
pub(crate) enum NotJoined {
    /// It got a signal to stop.
    #[expect(dead_code, reason = "without a cluster nothing is waited for")]
    Stopped,
    /// Something cannot be used.
    #[expect(dead_code, reason = "without a cluster nothing can fail")]
    Failed(Infallible),
}

/// Joins no cluster.
///
/// # Errors
/// None.
#[expect(clippy::unnecessary_wraps, reason = "the program with the feature may fail here")]
pub(crate) fn join(_: &Config, _: &BrokerStatus, _: &mut BrokerSignals) -> Result<Option<Joining>, NotJoined> {
    Ok(None)
}

/// Shows the node in the status of the broker.
pub(crate) fn register(cluster: &ClusterNode, _: &BrokerStatus) -> Placement {
    match *cluster {}
}

impl Joining {
    pub(crate) fn tenant_agreement(&self) -> Arc<Agree> {
        match *self {}
    }

    pub(crate) fn settings(&self) -> ClusterSettings {
        match *self {}
    }

    pub(crate) fn homes_at_start(&self) -> Arc<NodeHomes> {
        match *self {}
    }

    pub(crate) fn begin(
        self,
        _: &Config,
        _: &Node,
        _: Option<String>,
        _: Option<StoreOnBus>,
    ) -> Result<ClusterNode, Infallible> {
        match self {}
    }
}

impl ClusterNode {
    pub(crate) fn wait_until_ready(&self, _: &mut BrokerSignals) -> bool {
        match *self {}
    }

    pub(crate) fn sections(&self) -> Box<dyn Reloadable> {
        match *self {}
    }

    pub(crate) fn astray(&self) -> Option<&str> {
        match *self {}
    }

    pub(crate) fn leave(&self, _: Duration) {
        match *self {}
    }

    pub(crate) fn end(&self) {
        match *self {}
    }
}
