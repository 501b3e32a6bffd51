//! The PROXY protocol, versions 1 and 2: a proxy sends the address of its client before the connection's bytes
//! [haproxy.org, proxy-protocol.txt].
//!
//! A header is accepted only from a proxy that the listener names, and from it a header is required: any other sender
//! could forge an address.

mod network;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::net::SocketAddr;

use tidegate_engine::TenantId;

pub use network::{Network, NetworkError};

/// Longest accepted header, bytes. Version 1 ends at 107. Version 2 has 52 bytes and the proxy's own fields; the
/// specification limits both to 536.
pub const HEADER_MAX: usize = 4096;

/// How far a header has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// These bytes may begin one.
    Partial,
    /// It is complete.
    Complete(Header),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its length, bytes.
    pub length: usize,
    /// The client's address. `None` when the proxy speaks for itself, as in a health check, or does not know it.
    pub source: Option<SocketAddr>,
    /// Statements of a node of the cluster.
    pub fields: HeaderFields,
}

/// The fields of a header from a node of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFields {
    /// The tenant that another node has found for the client.
    pub tenant: Option<RelayedTenant>,
    /// The proof that a node of the cluster says so, or asks to carry.
    pub proof: Option<HeaderProof>,
    /// The sender is a node that continues the connection at another home when this one asks it to.
    pub continues: bool,
    /// The sender asks to carry all bytes behind the header to a node that takes relayed clients at this address.
    pub carry_to: Option<SocketAddr>,
}

/// Whether another node relays the client of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayedConnection {
    /// It has its socket here.
    Not,
    /// A node relays it that continues with another home.
    Continues,
    /// A node of an earlier version relays it, or a proxy.
    Ends,
}

/// The proof that a header comes from a node of the cluster: a message authentication code by its secret.
pub type HeaderProof = [u8; 32];

/// The tenant of a client that another node relays, as far as its listener and its TLS session determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayedTenant {
    /// The tenant.
    pub tenant: TenantId,
    /// Whether the user name cannot change it, as after a certificate that leads to a tenant.
    pub settled: bool,
    /// The mark of the tenant's name ([`tenant_mark`]): the receiver compares it, since processes that share no bus may
    /// have given the number to another tenant. 0 where the sender does not say, and for the default tenant.
    pub mark: u32,
}

/// A number of the name of a tenant; not 0.
pub fn tenant_mark(name: &str) -> u32 {
    // FNV-1a.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.max(1)
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// They begin with other bytes.
    #[error("it does not begin with a PROXY protocol header, which this listener requires from this network")]
    Missing,
    /// They begin a header that breaks the specification.
    #[error("its PROXY protocol header is malformed: {0}")]
    Malformed(&'static str),
    /// It is longer than any that is reasonable.
    #[error("its PROXY protocol header has more than {HEADER_MAX} bytes")]
    TooLong,
    /// It is complete, and its sender is not named.
    #[error("it sends a PROXY protocol header from a network that is not among `proxy_networks`")]
    Untrusted,
    /// It names a tenant or another node, and nothing proves that a node of the cluster has sent it.
    #[error(
        "it names a tenant or another node without the proof of a node of this cluster; do all nodes have the same release and secret?"
    )]
    Unproven,
}

/// Reads these bytes as a header, or as the beginning of one.
///
/// # Errors
/// With the fault. More bytes never change it.
pub fn parse(bytes: &[u8]) -> Result<Progress, ProxyError> {
    match Kind::of(bytes) {
        Kind::Unclear => Ok(Progress::Partial),
        Kind::Version1 => v1::parse(bytes),
        Kind::Version2 => v2::parse(bytes),
        Kind::None => Err(ProxyError::Missing),
    }
}

/// A header of version 2 for a client at the first address that has connected to the second, both of one family;
/// `None`, or two families, means that the proxy speaks for itself.
pub fn write_v2(addresses: Option<(SocketAddr, SocketAddr)>, fields: HeaderFields) -> Vec<u8> {
    v2::write(addresses, fields)
}

/// Whether these bytes begin a header; `None` as long as they are too few.
pub fn begins_header(bytes: &[u8]) -> Option<bool> {
    match Kind::of(bytes) {
        Kind::Unclear => None,
        Kind::Version1 | Kind::Version2 => Some(true),
        Kind::None => Some(false),
    }
}

/// The kind of a header, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unclear,
    Version1,
    Version2,
    None,
}

impl Kind {
    fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(v1::SIGNATURE) {
            Self::Version1
        } else if bytes.starts_with(&v2::SIGNATURE) {
            Self::Version2
        } else if v1::SIGNATURE.starts_with(bytes) || v2::SIGNATURE.starts_with(bytes) {
            Self::Unclear
        } else {
            Self::None
        }
    }
}
