//! The header that informs a home of its client's address and tenant: version 2 of the PROXY protocol.

use std::net::{IpAddr, SocketAddr};

use crate::peer::Peer;
use crate::proxy_protocol::{RelayedTenant, write_v2};
use crate::secret::Secret;

/// The header for a client. Without an address (a local or vanished client) the relay speaks for itself. In a cluster
/// its secret proves the tenant.
pub(crate) fn of(peer: Peer, tenant: Option<RelayedTenant>, secret: Option<&Secret>) -> Vec<u8> {
    let source = match peer {
        Peer::Address(source) => Some(source),
        Peer::Unix | Peer::Gone => None,
    };
    let proof = tenant.zip(secret).map(|(tenant, secret)| secret.prove_tenant(source, tenant));
    write_v2(source.map(|source| (source, unspecified(source))), tenant, proof, secret.is_some())
}

/// Where the client has connected to is of no interest to its home; the family has to be the same.
fn unspecified(like: SocketAddr) -> SocketAddr {
    let address: IpAddr = match like.ip() {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(address, 0)
}
