//! Sockets that a program announces to a server in the same process.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Told the local address of each TCP socket, and on Linux of each Unix socket, before it connects, so that a server in
/// the same process can tell it from the sockets of others.
#[derive(Clone)]
pub struct Announce(Arc<dyn Fn(SocketName) -> Announced + Send + Sync>);

/// The local address of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketName {
    /// An IP address and a TCP port.
    Tcp(SocketAddr),
    /// The abstract name of a Unix socket, as the system has chosen it.
    Unix(Box<[u8]>),
}

/// The announcement of one socket. It ends when this is dropped, together with the socket.
pub struct Announced(#[expect(dead_code, reason = "it is dropped with the socket")] Box<dyn Any + Send>);

impl Announce {
    /// Calls `tell` with each local address. The result of `tell` is dropped when the socket is closed.
    pub fn to<G: Send + 'static>(tell: impl Fn(SocketName) -> G + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |name| Announced(Box::new(tell(name)))))
    }

    pub(super) fn tell(&self, name: SocketName) -> Announced {
        (self.0)(name)
    }
}

impl PartialEq for Announce {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Announce {}

impl fmt::Debug for Announce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Announce")
    }
}

impl fmt::Debug for Announced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Announced")
    }
}
