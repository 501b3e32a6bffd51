//! Connections of the broker to its own listeners.

use tidegate_client::net::{Announce, SocketName};
use tidegate_node::{NodeHandle, OwnAddress};

/// Announces sockets to this node, whose bans of addresses and limits do not hold for them then.
pub fn announce_to(node: NodeHandle) -> Announce {
    Announce::to(move |name| {
        node.admission().expect_own(match name {
            SocketName::Tcp(address) => OwnAddress::Tcp(address),
            SocketName::Unix(name) => OwnAddress::Unix(name),
        })
    })
}
