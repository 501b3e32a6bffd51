//! Connections are begun.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use mio::net::TcpStream;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::load::error::LoadError;

/// The address of a broker; one of version 4 when there are several, since the sources of a plan usually are.
///
/// # Errors
/// When the name has none.
pub(crate) fn resolve(host: &str, port: u16) -> Result<SocketAddr, LoadError> {
    let wrong = |error| LoadError::Address { host: host.to_owned(), error };
    let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(wrong)?.collect();
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    address.copied().ok_or_else(|| wrong(io::ErrorKind::NotFound.into()))
}

/// Begins a connection.
///
/// # Errors
/// When the system refuses it at once.
pub(crate) fn dial(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
    }
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}
