//! The broker's own connections: sockets that bridges and pipelines of this process open to its listeners.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::lock;

/// The local addresses of the broker's own sockets. Its bridges and pipelines are as many as the configuration has.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnSockets(Arc<Mutex<HashSet<SocketAddr>>>);

/// One of these sockets. It counts as the broker's own until this is dropped.
#[derive(Debug)]
pub struct OwnSocket {
    all: OwnSockets,
    address: SocketAddr,
}

impl OwnSockets {
    pub(super) fn add(&self, address: SocketAddr) -> OwnSocket {
        let address = plain(address);
        lock(&self.0).insert(address);
        OwnSocket { all: self.clone(), address }
    }

    pub(super) fn has(&self, address: SocketAddr) -> bool {
        lock(&self.0).contains(&plain(address))
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.address);
    }
}

/// An address as both ends of a connection see it: a listener for both families has IPv4 clients at mapped addresses.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_own_until_it_is_closed() {
        let own = OwnSockets::default();
        let socket = own.add("127.0.0.1:4711".parse().unwrap());
        assert!(own.has("[::ffff:127.0.0.1]:4711".parse().unwrap()));
        assert!(!own.has("127.0.0.1:4712".parse().unwrap()), "another port of the same address");
        drop(socket);
        assert!(!own.has("127.0.0.1:4711".parse().unwrap()));
    }
}
