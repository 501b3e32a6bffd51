//! A node of a cluster: carries the tables of `tidegate-cluster` over the bus, and carries out their steps on the node.

mod driver;

pub use driver::{ClusterApi, ClusterNode, Joining, NodeError, NotJoined, StoreOnBus, bus_settings, join};
