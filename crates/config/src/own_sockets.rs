//! Connections of the broker to its own listeners.

use tidegate_client::net::Announce;
use tidegate_node::NodeHandle;

/// Announces sockets to this node, whose bans of addresses and limits do not hold for them then.
pub fn announce_to(node: NodeHandle) -> Announce {
    Announce::to(move |address| node.admission().expect_own(address))
}
