//! Listening sockets, and failures of accept.

mod bind;
pub(crate) mod preset;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Interest, Registry, Token};
use tidegate_engine::ListenerId;

pub use bind::BindError;
pub(crate) use bind::{SocketFile, bind, bind_quic};

use crate::address::LocalAddress;
use crate::peer::Peer;
use crate::tls::TlsListener;
use crate::transport::{Proxies, Transport};
use crate::websocket::Site;

/// A listening socket.
#[derive(Debug)]
pub(crate) enum ListenSocket {
    Tcp(TcpListener, Layers),
    Unix(UnixListener, #[expect(dead_code, reason = "dropping it removes the file")] SocketFile),
}

/// The layers between TCP and MQTT.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    tls: Option<Arc<TlsListener>>,
    /// Its WebSockets.
    site: Option<Arc<Site>>,
    /// Trusted proxies, which send the addresses of clients.
    proxies: Option<Proxies>,
}

impl Layers {
    /// The address of a socket under these layers.
    fn address(&self, at: SocketAddr) -> LocalAddress {
        match (&self.tls, &self.site) {
            (None, None) => LocalAddress::Tcp(at),
            (Some(_), None) => LocalAddress::Tls(at),
            (None, Some(site)) => LocalAddress::WebSocket(at, site.path().to_owned()),
            (Some(_), Some(site)) => LocalAddress::WebSocketTls(at, site.path().to_owned()),
        }
    }

    /// Puts them over a socket.
    fn put_over(&self, (stream, peer): (TcpStream, SocketAddr)) -> io::Result<Accepted> {
        let transport = match &self.tls {
            None => Transport::Tcp(stream),
            Some(tls) => match tls.begin() {
                Some((config, slot)) => Transport::tls(stream, config, slot)?,
                None => return Ok(Accepted::TooManyHandshakes(peer.ip())),
            },
        };
        let transport = match &self.site {
            None => transport,
            Some(site) => transport.upgrade(Arc::clone(site)),
        };
        let transport = match &self.proxies {
            None => transport,
            Some(proxies) => transport.proxied(peer.ip(), proxies),
        };
        Ok(Accepted::Connection(transport, Peer::Address(peer)))
    }
}

/// The result of an accept.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A connection with its peer address, which the system no longer has for a reset socket.
    Connection(Transport, Peer),
    /// The socket of this peer is closed again: as many TLS handshakes are under way as the listener works on at once.
    TooManyHandshakes(IpAddr),
}

/// A listening socket on its shard.
#[derive(Debug)]
pub(crate) struct Acceptor {
    id: ListenerId,
    socket: ListenSocket,
    address: LocalAddress,
    /// Names it to the poller; `None` until it is registered.
    token: Option<Token>,
    /// Connections may be waiting: the poller has reported some, and not all were accepted since.
    pub ready: bool,
    /// Other nodes hand over clients here.
    pub is_for_nodes: bool,
}

/// The meaning of a failed accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptFailure {
    /// No connection is pending.
    Empty,
    /// Only this connection failed.
    ThisOne,
    /// The process or the machine has no files or memory left for another.
    Exhausted,
}

impl AcceptFailure {
    /// Network errors that were pending on the new socket surface here and concern only it [accept(2)]; so whatever is
    /// not known to be a shortage passes with the connection.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            _ if error.kind() == io::ErrorKind::WouldBlock => Self::Empty,
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => Self::Exhausted,
            _ => Self::ThisOne,
        }
    }
}

impl Acceptor {
    pub(crate) fn new(id: ListenerId, socket: ListenSocket, address: LocalAddress) -> Self {
        Self { id, socket, address, token: None, ready: false, is_for_nodes: false }
    }

    /// The listener's number.
    pub(crate) fn id(&self) -> ListenerId {
        self.id
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> &LocalAddress {
        &self.address
    }

    #[cfg(test)]
    pub(crate) fn socket_mut(&mut self) -> &mut ListenSocket {
        &mut self.socket
    }

    /// Takes the next connection. One system call: the socket does not block and inherits its options.
    pub(crate) fn accept(&self) -> io::Result<Accepted> {
        match &self.socket {
            ListenSocket::Tcp(listener, layers) => layers.put_over(listener.accept()?),
            ListenSocket::Unix(listener, _) => {
                Ok(Accepted::Connection(Transport::Unix(listener.accept()?.0), Peer::Unix))
            }
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match &mut self.socket {
            ListenSocket::Tcp(listener, _) => listener,
            ListenSocket::Unix(listener, _) => listener,
        }
    }

    /// Asks the poller to report connections that wait.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.token = Some(token);
        self.source().register(registry, token, Interest::READABLE)
    }

    /// Whether the poller names it by this token.
    pub(crate) fn is_named(&self, token: Token) -> bool {
        self.token == Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_accept_is_understood() {
        let of = |code| AcceptFailure::of(&io::Error::from_raw_os_error(code));
        assert_eq!(of(libc::EAGAIN), AcceptFailure::Empty);
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            assert_eq!(of(code), AcceptFailure::Exhausted);
        }
        for code in [libc::ECONNABORTED, libc::EPROTO, libc::EHOSTUNREACH, libc::EINTR] {
            assert_eq!(of(code), AcceptFailure::ThisOne);
        }
    }
}
