//! A connection's socket and the layers between its bytes and MQTT.

mod outbound;
#[cfg(target_os = "linux")]
mod process;
mod proxied;
mod proxies;
mod rtt;
mod socket;
mod stream;
mod tls;
mod websocket;

use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::{ClientConnection, ServerConfig};
use tidegate_engine::{Output, Reason};
use tidegate_pipe::PipeEnd;

use self::outbound::Outbound;
use self::proxied::Proxied;
pub(crate) use self::proxies::Proxies;
use self::socket::{read, write_output};
use self::stream::Stream;
use self::tls::Tls;
pub(crate) use self::tls::TlsFailure;
use self::websocket::WebSocket;
use crate::peer::Peer;
use crate::proxy_protocol::{ProxyError, RelayedConnection, RelayedTenant};
use crate::quic::{Quic, QuicFailure};
pub(crate) use crate::socket_io::Wrote;
use crate::tls::{ConnectionFacts, HandshakeSlot, TlsFacts, TlsSettings};
use crate::websocket::Site;

/// A transport. State that few connections need is boxed, so that a TCP connection stays at 16 bytes.
pub(crate) enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Tls>),
    WebSocket(Box<WebSocket>),
    Proxied(Box<Proxied>),
    Outbound(Box<Outbound>),
    #[cfg_attr(not(feature = "quic"), expect(dead_code, reason = "there are no QUIC connections without the feature"))]
    Quic(Box<Quic>),
    /// To another thread of this process.
    Pipe(Box<PipeEnd>),
}

/// Why a transport ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Ended {
    /// The WebSocket was refused or closed.
    #[error(transparent)]
    WebSocket(crate::websocket::Ended),
    /// The TLS session failed.
    #[error(transparent)]
    Tls(TlsFailure),
    /// The header of the PROXY protocol is invalid, missing, or from an untrusted sender.
    #[error(transparent)]
    Proxy(ProxyError),
    /// The QUIC connection failed.
    #[error(transparent)]
    Quic(QuicFailure),
}

/// The result of one read of a transport.
pub(crate) type Input = crate::socket_io::Input<Ended>;

impl Transport {
    /// TLS that waits for its `ClientHello`.
    pub(crate) fn tls(stream: TcpStream, config: Arc<ServerConfig>, slot: HandshakeSlot) -> io::Result<Self> {
        Ok(Self::Tls(Box::new(Tls::new(stream, config, slot)?)))
    }

    /// TLS to a broker whose handshake is done.
    pub(crate) fn outbound(stream: TcpStream, session: ClientConnection) -> Self {
        Self::Outbound(Box::new(Outbound::new(stream, session)))
    }

    /// Puts a WebSocket on top of this transport, before its handshake, for a listener that serves `site`.
    #[must_use]
    pub(crate) fn upgrade(self, site: Arc<Site>) -> Self {
        let stream = match self {
            Self::Tcp(stream) => Stream::Tcp(stream),
            Self::Tls(tls) => Stream::Tls(tls),
            other => return other,
        };
        Self::WebSocket(Box::new(WebSocket::new(stream, site)))
    }

    /// Reads once into `buffer`.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        match self {
            Self::Tcp(stream) => read(stream, buffer),
            Self::Unix(stream) => read(stream, buffer),
            Self::Tls(tls) => tls.read(buffer),
            Self::WebSocket(web) => web.read(buffer),
            Self::Proxied(proxied) => proxied.read(buffer),
            Self::Outbound(tls) => tls.read(buffer),
            Self::Quic(quic) => Ok(quic.read(buffer).map_end(Ended::Quic)),
            Self::Pipe(end) => socket::read_pipe(end, buffer),
        }
    }

    /// The TCP socket below everything.
    fn tcp(&mut self) -> Option<&mut TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Unix(_) | Self::Quic(_) | Self::Pipe(_) => None,
            Self::Tls(tls) => Some(tls.stream_mut()),
            Self::WebSocket(web) => Some(web.stream_mut().socket_mut()),
            Self::Proxied(proxied) => proxied.inner.tcp(),
            Self::Outbound(tls) => Some(tls.stream_mut()),
        }
    }

    /// The smoothed round trip of the transport, microseconds, where it is known.
    pub(crate) fn rtt_us(&mut self) -> Option<u64> {
        match self {
            Self::Quic(quic) => quic.rtt_us(),
            _ => self.tcp().and_then(|stream| rtt::of_tcp(stream)),
        }
    }

    /// Copies the bytes in the socket without consuming them.
    fn peek(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.tcp().map_or(Err(io::ErrorKind::Unsupported.into()), |stream| stream.peek(room))
    }

    /// Reads once, and drops the bytes.
    fn discard(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        let Some(stream) = self.tcp() else { return Ok(Input::Closed) };
        Ok(match read(stream, buffer)? {
            Input::Bytes { full, .. } => Input::Bytes { payload: 0..0, full },
            other => other,
        })
    }

    /// Takes bytes out of the socket that are known to be there.
    fn take(&mut self, room: &mut [u8]) -> io::Result<()> {
        self.tcp().map_or(Err(io::ErrorKind::Unsupported.into()), |stream| stream.read_exact(room))
    }

    /// Writes once: as much of `output` and of the transport's own bytes as the socket takes. `scratch` is room to work
    /// in, as large as the buffer for reading.
    pub(crate) fn write(&mut self, output: Option<&mut Output>, scratch: &mut [u8]) -> io::Result<Wrote> {
        match (self, output) {
            (Self::Tcp(stream), Some(output)) => write_output(stream, output),
            (Self::Unix(stream), Some(output)) => write_output(stream, output),
            (Self::Pipe(end), Some(output)) => write_output(end, output),
            (Self::Tcp(_) | Self::Unix(_) | Self::Pipe(_), None) => Ok(Wrote::All),
            (Self::Tls(tls), output) => tls.write(output, scratch),
            (Self::WebSocket(web), output) => web.write(output, scratch),
            (Self::Proxied(proxied), output) => proxied.inner.write(output, scratch),
            (Self::Outbound(tls), output) => tls.write(output),
            (Self::Quic(quic), output) => quic.write(output),
        }
    }

    /// The TLS session of a client, if there is one.
    fn session(&self) -> Option<&Tls> {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Outbound(_) | Self::Quic(_) | Self::Pipe(_) => None,
            Self::Tls(tls) => Some(tls),
            Self::WebSocket(web) => web.stream().tls(),
            Self::Proxied(proxied) => proxied.inner.session(),
        }
    }

    /// Puts the PROXY protocol below everything, for a connection from `peer`.
    #[must_use]
    pub(crate) fn proxied(self, peer: IpAddr, proxies: &Proxies) -> Self {
        Self::Proxied(Box::new(Proxied::new(self, peer, proxies)))
    }

    /// A socket from within the process, for a client elsewhere.
    pub(crate) fn inside(stream: UnixStream, client: SocketAddr, tls: Option<Arc<TlsFacts>>) -> Self {
        Self::Proxied(Box::new(Proxied::introduced(Self::Unix(stream), client, tls)))
    }

    /// The TLS session of a client that another part of the process serves, if it has one.
    fn tls_of_inside(&self) -> Option<&Arc<TlsFacts>> {
        match self {
            Self::Proxied(proxied) => proxied.tls(),
            _ => None,
        }
    }

    /// Whether more is known of a client of a socket from within the process than its listener.
    pub(crate) fn has_facts_inside(&self) -> bool {
        self.tls_of_inside().is_some()
    }

    /// Whether the client's address is known; a connection through a proxy has to send it first.
    pub(crate) fn is_introduced(&self) -> bool {
        match self {
            Self::Proxied(proxied) => proxied.is_introduced(),
            _ => true,
        }
    }

    /// The QUIC connection, if it is one.
    pub(crate) fn quic(&mut self) -> Option<&mut Quic> {
        match self {
            Self::Quic(quic) => Some(quic),
            _ => None,
        }
    }

    /// Whether it takes output again. Its last read may have removed the sign of that: a pipe reports room as something
    /// to read.
    pub(crate) fn has_room(&mut self) -> bool {
        match self {
            Self::Pipe(end) => end.has_room(),
            _ => false,
        }
    }

    /// Whether TLS is spoken.
    pub(crate) fn is_secure(&self) -> bool {
        matches!(self, Self::Quic(_)) || self.session().is_some() || self.has_facts_inside()
    }

    /// Whether a TLS handshake is in progress; a read continues it, which costs far more than reading bytes.
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Quic(quic) => quic.is_handshaking(),
            _ => self.session().is_some_and(Tls::is_handshaking),
        }
    }

    /// Whether the TLS session was established with a ticket of an earlier one.
    pub(crate) fn is_resumed(&self) -> bool {
        self.session().is_some_and(Tls::is_resumed)
    }

    /// The certificates that the client has shown in TLS, its own one first, DER.
    pub(crate) fn client_chain(&self) -> Vec<Box<[u8]>> {
        match self {
            Self::Quic(quic) => quic.client_chain(),
            _ => self.session().map_or_else(Vec::new, Tls::client_chain),
        }
    }

    /// Whether another part of the process has found out who the client is from its TLS session.
    pub(crate) fn has_identity_inside(&self) -> bool {
        self.tls_of_inside().is_some_and(|tls| tls.client.is_some() || tls.identity.is_some())
    }

    /// The facts about the connection. `settings` are of its TLS listener.
    pub(crate) fn facts(&self, settings: Option<&TlsSettings>) -> ConnectionFacts {
        let peer = match self.peer() {
            Peer::Address(address) => Some(address),
            Peer::Unix | Peer::Gone => None,
        };
        let tls = settings.and_then(|settings| match self {
            Self::Quic(quic) => quic.facts(settings),
            _ => self.session().and_then(|tls| tls.facts(settings)),
        });
        let tls = tls.map(Arc::new).or_else(|| self.tls_of_inside().cloned());
        ConnectionFacts { peer, tls, relayed_tenant: self.relayed_tenant() }
    }

    /// The tenant that another node has found for the client, if it relays the client.
    pub(crate) fn relayed_tenant(&self) -> Option<RelayedTenant> {
        match self {
            Self::Proxied(proxied) => proxied.tenant(),
            _ => None,
        }
    }

    /// Whether another node relays the client.
    pub(crate) fn relayed(&self) -> RelayedConnection {
        match self {
            Self::Proxied(proxied) => proxied.relayed(),
            _ => RelayedConnection::Not,
        }
    }

    /// The home that another node asks to carry the client to.
    pub(crate) fn carry_to(&self) -> Option<SocketAddr> {
        match self {
            Self::Proxied(proxied) => proxied.carry_to(),
            _ => None,
        }
    }

    /// Whether bytes of the transport itself wait to be written.
    pub(crate) fn is_waiting(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Quic(_) | Self::Pipe(_) => false,
            Self::Tls(tls) => tls.is_waiting(),
            Self::WebSocket(web) => web.is_waiting(),
            Self::Proxied(proxied) => proxied.inner.is_waiting(),
            Self::Outbound(tls) => tls.is_waiting(),
        }
    }

    /// Whether the transport itself has ended, so that no more MQTT bytes arrive.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Pipe(_) => false,
            Self::Quic(quic) => quic.has_ended(),
            Self::Tls(tls) => tls.has_ended(),
            Self::WebSocket(web) => web.has_ended(),
            Self::Proxied(proxied) => proxied.inner.has_ended(),
            Self::Outbound(tls) => tls.has_ended(),
        }
    }

    /// Says goodbye in the transport's own terms, behind all output.
    pub(crate) fn close(&mut self, reason: Reason) {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Pipe(_) => {}
            Self::Tls(tls) => tls.close(),
            Self::WebSocket(web) => web.close(reason),
            Self::Proxied(proxied) => proxied.inner.close(reason),
            Self::Outbound(tls) => tls.close(),
            Self::Quic(quic) => quic.close(reason),
        }
    }

    /// Ends the output.
    pub(crate) fn shutdown_write(&mut self) {
        // It fails for a peer that has disconnected, which makes no difference.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(tls) => tls.stream().shutdown(Shutdown::Write),
            Self::WebSocket(web) => web.stream().socket().shutdown(Shutdown::Write),
            Self::Proxied(proxied) => return proxied.inner.shutdown_write(),
            Self::Outbound(tls) => tls.stream().shutdown(Shutdown::Write),
            Self::Quic(quic) => return quic.finish(),
            Self::Pipe(end) => return end.shutdown_write(),
        };
    }

    /// The events to request for the socket.
    ///
    /// A TCP socket reports that it is writable again only after it refused output, so requesting both from the start
    /// costs nothing. A Unix socket reports it whenever its peer reads; there writability is requested while needed.
    pub(crate) fn interest(&self, blocked: bool) -> Interest {
        match self {
            Self::Unix(_) if !blocked => Interest::READABLE,
            // Room is something to read there.
            Self::Pipe(_) => Interest::READABLE,
            _ => Interest::READABLE | Interest::WRITABLE,
        }
    }

    /// The socket, unless many connections share it.
    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
            Self::Tls(tls) => tls.stream_mut(),
            Self::WebSocket(web) => web.stream_mut().socket_mut(),
            Self::Proxied(proxied) => return proxied.inner.source(),
            Self::Outbound(tls) => tls.stream_mut(),
            Self::Quic(_) => return None,
            Self::Pipe(end) => &mut **end,
        })
    }

    /// Asks the poller to report the socket.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = self.interest(false);
        self.source().map_or(Ok(()), |source| source.register(registry, token, interest))
    }

    /// Adapts the poller's interest after output was blocked or is no longer.
    pub(crate) fn set_blocked(&mut self, registry: &Registry, token: Token, blocked: bool) -> io::Result<()> {
        if self.interest(true) == self.interest(false) {
            return Ok(());
        }
        let interest = self.interest(blocked);
        self.source().map_or(Ok(()), |source| source.reregister(registry, token, interest))
    }

    /// Takes the socket from the poller before another shard gets it.
    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().map_or(Ok(()), |source| source.deregister(registry))
    }

    /// The abstract name of a Unix socket's other end, if this process has connected it. On Linux alone. Another process
    /// may have a socket with the same name in another network namespace.
    pub(crate) fn own_abstract_name(&self) -> Option<Box<[u8]>> {
        #[cfg(target_os = "linux")]
        if let Self::Unix(stream) = self {
            use std::os::linux::net::SocketAddrExt;
            let name = stream.peer_addr().ok()?.as_abstract_name().map(Box::from)?;
            return process::is_own(stream).then_some(name);
        }
        None
    }

    /// The client's address, from its proxy if there is one.
    pub(crate) fn peer(&self) -> Peer {
        let address = match self {
            Self::Unix(_) | Self::Pipe(_) => return Peer::Unix,
            Self::Quic(quic) => return Peer::Address(quic.peer()),
            Self::Tcp(stream) => stream.peer_addr(),
            Self::Tls(tls) => tls.stream().peer_addr(),
            Self::WebSocket(web) => web.stream().socket().peer_addr(),
            Self::Outbound(tls) => tls.stream().peer_addr(),
            Self::Proxied(proxied) => {
                return proxied.source().map_or_else(|| proxied.inner.peer(), Peer::Address);
            }
        };
        address.map_or(Peer::Gone, Peer::Address)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Tcp(_) => "Tcp",
            Self::Unix(_) => "Unix",
            Self::Tls(_) => "Tls",
            Self::WebSocket(_) => "WebSocket",
            Self::Proxied(_) => "Proxied",
            Self::Outbound(_) => "Outbound",
            Self::Quic(_) => "Quic",
            Self::Pipe(_) => "Pipe",
        };
        f.write_str(name)
    }
}
