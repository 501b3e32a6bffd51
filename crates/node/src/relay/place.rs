//! The table of homes for a node.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_engine::Homes;

/// The partitions served here, and the addresses of the homes of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHomes {
    /// The table for the engines.
    pub table: Arc<Homes>,
    /// The address of each place for relayed clients; `None` if it is unknown.
    pub relays: Arc<[Option<SocketAddr>]>,
}
