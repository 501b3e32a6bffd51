//! A UDP socket for QUIC.

use std::io;
use std::net::SocketAddr;

use mio::net::UdpSocket;
use quinn_udp::UdpSocketState;
use socket2::{Domain, Socket, Type};

use super::limits::SOCKET_BUFFER_BYTES;

/// A bound socket, and the offload features of the system for it.
pub(crate) struct BoundSocket {
    pub socket: UdpSocket,
    pub state: UdpSocketState,
}

impl std::fmt::Debug for BoundSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BoundSocket").field(&self.socket).finish()
    }
}

/// Binds a socket. The address is not shared: a second broker on the same port fails to start.
pub(crate) fn bind(address: SocketAddr) -> io::Result<(BoundSocket, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), None)?;
    socket.bind(&address.into())?;
    let socket = UdpSocket::from_std(socket.into());
    let state = UdpSocketState::new((&socket).into())?;
    // The kernel gives less where it allows less.
    let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER_BYTES);
    let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER_BYTES);
    let local = socket.local_addr()?;
    Ok((BoundSocket { socket, state }, local))
}
