//! The header that informs a home of its client's address and tenant: version 2 of the PROXY protocol.

use std::net::{IpAddr, SocketAddr};

use crate::observer::Peer;
use crate::proxy_protocol::{RelayedTenant, write_v2};

/// The header for a client. Without an address (a local or vanished client) the relay speaks for itself.
pub(super) fn of(peer: Peer, tenant: Option<RelayedTenant>) -> Vec<u8> {
    match peer {
        Peer::Address(source) => write_v2(Some((source, unspecified(source))), tenant),
        Peer::Unix | Peer::Gone => write_v2(None, tenant),
    }
}

/// Where the client has connected to is of no interest to its home; the family has to be the same.
fn unspecified(like: SocketAddr) -> SocketAddr {
    let address: IpAddr = match like.ip() {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(address, 0)
}
