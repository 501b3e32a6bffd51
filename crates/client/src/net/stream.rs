//! Sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tidegate_pipe::PipeEnd;

use super::quic::QuicStream;
use super::tls::TlsStream;
use super::{Address, Announce, Announced, ConnectError, SocketName, SocketOptions, TlsConnector, TlsOptions};

/// A socket that does not block.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
    Tls(Box<TlsStream>),
    Quic(Box<QuicStream>),
    Pipe(PipeEnd),
}

impl Stream {
    /// Connects, and blocks for that. The announcement of the socket, if it has one, is to end with it.
    pub(super) fn connect(
        address: &Address,
        options: &SocketOptions,
    ) -> Result<(Self, Option<Announced>), ConnectError> {
        match address {
            Address::Tcp { host, port } | Address::WebSocket { host, port, .. } => {
                let (stream, announced) = connect_tcp(host, *port, options)?;
                Ok((Self::Tcp(mio::net::TcpStream::from_std(stream)), announced))
            }
            Address::Tls { host, port } | Address::WebSocketTls { host, port, .. } => {
                let websocket = matches!(address, Address::WebSocketTls { .. });
                let config = match &options.tls {
                    Some(tls) => tls.config(websocket),
                    None => TlsConnector::new(&TlsOptions::default())?.config(websocket),
                };
                let (stream, announced) = connect_tcp(host, *port, options)?;
                let tls = TlsStream::connect(stream, host, config, options.connect_timeout)
                    .map_err(|source| ConnectError::tls(address, source))?;
                Ok((Self::Tls(Box::new(tls)), announced))
            }
            Address::Quic { host, port } => {
                let stream = connect_quic(address, host, *port, options)?;
                Ok((Self::Quic(Box::new(stream)), None))
            }
            Address::Unix { path } => {
                let connected = connect_unix(path, options.announce.as_ref());
                let (stream, announced) =
                    connected.map_err(|source| ConnectError::Connect { address: address.to_string(), source })?;
                Ok((Self::Unix(mio::net::UnixStream::from_std(stream)), announced))
            }
            Address::Pipe { listener } => {
                let pipes = options.pipes.as_ref().ok_or(io::Error::from(io::ErrorKind::Unsupported));
                let opened = pipes.and_then(|pipes| pipes.open(*listener));
                let end = opened.map_err(|source| ConnectError::Connect { address: address.to_string(), source })?;
                Ok((Self::Pipe(end), None))
            }
        }
    }

    /// The socket, unless it is one of UDP.
    fn source(&mut self) -> Result<&mut dyn Source, &QuicStream> {
        match self {
            Self::Tcp(stream) => Ok(stream),
            Self::Unix(stream) => Ok(stream),
            Self::Tls(tls) => Ok(tls.socket_mut()),
            Self::Quic(quic) => Err(quic),
            Self::Pipe(end) => Ok(end),
        }
    }

    /// The QUIC connection, if it is one.
    pub(super) fn quic(&mut self) -> Option<&mut QuicStream> {
        match self {
            Self::Quic(quic) => Some(quic),
            _ => None,
        }
    }

    /// The pipe to a server in this process, if it is one.
    pub(super) fn pipe(&mut self) -> Option<&mut PipeEnd> {
        match self {
            Self::Pipe(end) => Some(end),
            _ => None,
        }
    }

    /// Whether bytes that were taken wait for the socket.
    pub(super) fn is_waiting(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Pipe(_) => false,
            Self::Tls(tls) => tls.is_waiting(),
            Self::Quic(quic) => quic.is_waiting(),
        }
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self.source() {
            Ok(source) => registry.register(source, token, Interest::READABLE | Interest::WRITABLE),
            Err(quic) => quic.register(registry, token),
        }
    }

    /// Ends the sending side.
    pub(super) fn shutdown_write(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(tls) => tls.shutdown_write(),
            Self::Quic(quic) => quic.shutdown_write(),
            Self::Pipe(end) => {
                end.shutdown_write();
                Ok(())
            }
        }
    }

    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self.source() {
            Ok(source) => registry.deregister(source),
            Err(quic) => quic.deregister(registry),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
            Self::Quic(quic) => quic.read(buffer),
            Self::Pipe(end) => end.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
            Self::Tls(tls) => tls.write(buffer),
            Self::Quic(quic) => quic.write(buffer),
            Self::Pipe(end) => end.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Pipe(_) => Ok(()),
            Self::Tls(tls) => tls.flush(),
            Self::Quic(quic) => quic.flush(),
        }
    }
}

fn connect_unix(path: &Path, announce: Option<&Announce>) -> io::Result<(UnixStream, Option<Announced>)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let name = if announce.is_some() { name_unix(&socket)? } else { None };
    let announced = announce.zip(name).map(|(tell, name)| tell.tell(name));
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), announced))
}

/// Gives a Unix socket a name that no other has. Systems other than Linux choose none.
fn name_unix(socket: &Socket) -> io::Result<Option<SocketName>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    socket.bind(&SockAddr::unix("")?)?;
    let address = socket.local_addr()?;
    Ok(address.as_abstract_namespace().map(|name| SocketName::Unix(name.into())))
}

fn connect_tcp(host: &str, port: u16, options: &SocketOptions) -> Result<(TcpStream, Option<Announced>), ConnectError> {
    connect_any(host, port, options, |remote, from| connect_to(remote, from, options))
}

fn connect_quic(address: &Address, host: &str, port: u16, options: &SocketOptions) -> Result<QuicStream, ConnectError> {
    let config = match &options.tls {
        Some(tls) => tls.quic_config(),
        None => TlsConnector::new(&TlsOptions::default())?.quic_config(),
    };
    connect_any(host, port, options, |remote, from| {
        let stream = QuicStream::connect(from, remote, host, Arc::clone(&config), options.connect_timeout);
        stream.map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => ConnectError::tls(address, source),
            _ => ConnectError::Connect { address: address.to_string(), source },
        })
    })
}

/// Tries the addresses of a host one after the other, from a local address of the same family.
fn connect_any<S>(
    host: &str,
    port: u16,
    options: &SocketOptions,
    mut connect: impl FnMut(SocketAddr, Option<SocketAddr>) -> Result<S, ConnectError>,
) -> Result<S, ConnectError> {
    let local = match &options.bind {
        Some(bind) => resolve(bind, 0)?,
        None => Vec::new(),
    };
    let mut last = None;
    for remote in resolve(host, port)? {
        let same_family = |local: &&SocketAddr| local.is_ipv4() == remote.is_ipv4();
        let from = local.iter().find(same_family);
        if options.bind.is_some() && from.is_none() {
            continue;
        }
        match connect(remote, from.copied()) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| ConnectError::NoAddress { host: host.to_owned() }))
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
    match (host, port).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.collect()),
        Err(source) => Err(ConnectError::Resolve { host: host.to_owned(), source }),
    }
}

fn connect_to(
    remote: SocketAddr,
    local: Option<SocketAddr>,
    options: &SocketOptions,
) -> Result<(TcpStream, Option<Announced>), ConnectError> {
    let failed = |source| ConnectError::Connect { address: remote.to_string(), source };
    let domain = Domain::for_address(remote);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
    // A socket has its port before it connects only if it is bound.
    let own = options.announce.as_ref().map(|_| SocketAddr::new(remote.ip(), 0));
    if let Some(local) = local.or(own) {
        socket.bind(&local.into()).map_err(|source| ConnectError::Bind { bind: local.ip().to_string(), source })?;
    }
    let announce = |tell: &Announce| -> Result<Announced, ConnectError> {
        let address = socket.local_addr().map_err(failed)?.as_socket();
        let address = address.ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        Ok(tell.tell(SocketName::Tcp(address)))
    };
    let announced = options.announce.as_ref().map(announce).transpose()?;
    socket.connect_timeout(&remote.into(), options.connect_timeout).map_err(failed)?;
    // All pending output is written at once, so Nagle's algorithm only delays acknowledgements.
    socket.set_tcp_nodelay(true).map_err(failed)?;
    socket.set_keepalive(true).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok((socket.into(), announced))
}
