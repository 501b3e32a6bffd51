//! The broker's own connections: sockets that bridges and pipelines of this process open to its listeners.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::lock;

/// The local address of one of the broker's own sockets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OwnAddress {
    /// An IP address and a TCP port.
    Tcp(SocketAddr),
    /// The abstract name of a Unix socket of this process.
    Unix(Box<[u8]>),
}

/// The local addresses of the broker's own sockets. Its bridges and pipelines are as many as the configuration has.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnSockets(Arc<Mutex<HashSet<OwnAddress>>>);

/// One of these sockets. It counts as the broker's own until this is dropped.
#[derive(Debug)]
pub struct OwnSocket {
    all: OwnSockets,
    address: OwnAddress,
}

impl OwnSockets {
    pub(super) fn add(&self, address: OwnAddress) -> OwnSocket {
        let address = plain(address);
        lock(&self.0).insert(address.clone());
        OwnSocket { all: self.clone(), address }
    }

    pub(super) fn has(&self, address: OwnAddress) -> bool {
        lock(&self.0).contains(&plain(address))
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.address);
    }
}

/// An address as both ends of a connection see it: a listener for both families has IPv4 clients at mapped addresses.
fn plain(address: OwnAddress) -> OwnAddress {
    match address {
        OwnAddress::Tcp(at) => OwnAddress::Tcp(SocketAddr::new(at.ip().to_canonical(), at.port())),
        OwnAddress::Unix(name) => OwnAddress::Unix(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_own_until_it_is_closed() {
        let own = OwnSockets::default();
        let at = |address: &str| OwnAddress::Tcp(address.parse().unwrap());
        let named = |name: &[u8]| OwnAddress::Unix(name.into());
        let sockets = (own.add(at("127.0.0.1:4711")), own.add(named(b"4711")));
        assert!(own.has(at("[::ffff:127.0.0.1]:4711")) && own.has(named(b"4711")));
        assert!(!own.has(at("127.0.0.1:4712")) && !own.has(named(b"4712")), "another socket");
        drop(sockets);
        assert!(!own.has(at("127.0.0.1:4711")) && !own.has(named(b"4711")));
    }
}
