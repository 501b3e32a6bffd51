//! The membership of the broker in its cluster.

use std::sync::Arc;

use tidegate_administration::BrokerStatus;
pub(crate) use tidegate_cluster_node::{ClusterNode, Joining, NotJoined, StoreOnBus, join};
use tidegate_placement::Placement;

/// Shows the node in the status of the broker. Returns which work the node does for the cluster.
pub(crate) fn register(cluster: &ClusterNode, status: &BrokerStatus) -> Placement {
    status.parts().register_cluster(Arc::new(cluster.api()));
    cluster.api().placement()
}
