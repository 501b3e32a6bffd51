//! The header that informs a home of its client's address and tenant: version 2 of the PROXY protocol.

use std::net::{IpAddr, SocketAddr};

use super::Way;
use crate::peer::Peer;
use crate::proxy_protocol::{HeaderFields, RelayedTenant, write_v2};
use crate::secret::Secret;

/// The header for a client on this way to its home, behind that for the node that carries it.
pub(crate) fn on(way: Way, peer: Peer, tenant: Option<RelayedTenant>, secret: Option<&Secret>) -> Vec<u8> {
    let mut header = match (way.through, secret) {
        (Some(_), Some(secret)) => to_carry(peer, way.home, secret),
        _ => Vec::new(),
    };
    header.extend(of(peer, tenant, secret));
    header
}

/// The header for a client. Without an address (a local or vanished client) the relay speaks for itself. In a cluster
/// its secret proves the tenant.
fn of(peer: Peer, tenant: Option<RelayedTenant>, secret: Option<&Secret>) -> Vec<u8> {
    let source = address_of(peer);
    let proof = tenant.zip(secret).map(|(tenant, secret)| secret.prove_tenant(source, tenant));
    let fields = HeaderFields { tenant, proof, continues: secret.is_some(), carry_to: None };
    write_v2(source.map(|source| (source, unspecified(source))), fields)
}

/// The header by which a node is asked to carry the bytes behind it to the home of a client.
fn to_carry(peer: Peer, home: SocketAddr, secret: &Secret) -> Vec<u8> {
    let source = address_of(peer);
    let proof = Some(secret.prove_carrying(source, home));
    let fields = HeaderFields { proof, carry_to: Some(home), ..HeaderFields::default() };
    write_v2(source.map(|source| (source, unspecified(source))), fields)
}

fn address_of(peer: Peer) -> Option<SocketAddr> {
    match peer {
        Peer::Address(source) => Some(source),
        Peer::Unix | Peer::Gone => None,
    }
}

/// The home does not use the address that the client connected to; only its family has to be the same.
fn unspecified(like: SocketAddr) -> SocketAddr {
    let address: IpAddr = match like.ip() {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(address, 0)
}
