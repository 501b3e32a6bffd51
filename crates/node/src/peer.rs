//! The origin of a connection.

use std::fmt;
use std::net::SocketAddr;

/// The origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An address.
    Address(SocketAddr),
    /// A process of this machine.
    Unix,
    /// The socket is closed.
    Gone,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
            Self::Gone => f.write_str("unknown"),
        }
    }
}
