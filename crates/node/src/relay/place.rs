//! The table of homes for a node.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_engine::Homes;

/// Which partitions are served here, and how the homes of the others are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHomes {
    /// The table for the engines.
    pub table: Arc<Homes>,
    /// Where each place takes relayed clients; `None` where that is not known.
    pub relays: Arc<[Option<SocketAddr>]>,
}
