//! The socket on which other nodes are waited for.

use std::io;
use std::net::SocketAddr;

use mio::net::TcpListener;

use super::ClusterSettings;

/// Other nodes cannot be waited for.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen for other nodes of the cluster on {address}: {source}; is the port taken, or the address another machine's?"
)]
pub struct LinkBindError {
    /// Where it was tried.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// A socket that other nodes can reach, and its address.
pub(crate) fn bind_links(settings: &ClusterSettings) -> Result<(TcpListener, SocketAddr), LinkBindError> {
    let address = settings.listen;
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr().map(|at| (listener, at)));
    bound.map_err(|source| LinkBindError { address, source })
}
