//! A socket of UDP that looks like a connection: each datagram has its length before it, in two bytes.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};

use crate::load::core::Output;
use crate::load::shell::Brought;

/// The largest datagram that is taken, in bytes.
const DATAGRAM_MAX: usize = 64 * 1024;
/// Number of datagrams that are taken in one turn.
const AT_ONCE: usize = 64;
/// The size of the length before a datagram, in bytes.
const LENGTH: usize = 2;

/// A socket that is connected to one address.
pub(super) struct Datagrams {
    socket: UdpSocket,
}

impl Datagrams {
    /// A socket to a place, registered with the poll.
    ///
    /// # Errors
    /// When the system refuses a socket.
    pub(super) fn to(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Self> {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = StdSocket::bind(any)?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        let mut socket = UdpSocket::from_std(socket);
        registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { socket })
    }

    /// Receives datagrams.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Brought> {
        let mut brought = Brought { len: 0, is_full: true, is_closed: false };
        for _ in 0..AT_ONCE {
            let from = brought.len + LENGTH;
            if buffer.len() < from + DATAGRAM_MAX {
                buffer.resize(from + DATAGRAM_MAX, 0);
            }
            match self.socket.recv(&mut buffer[from..]) {
                Ok(len) => {
                    buffer[brought.len..from].copy_from_slice(&(len as u16).to_be_bytes());
                    brought.len = from + len;
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    brought.is_full = false;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(brought)
    }

    /// Sends whole datagrams, as many as the system takes.
    pub(super) fn flush(&mut self, output: &mut Output, keep: bool) -> io::Result<()> {
        while let Some((length, rest)) = output.rest().split_first_chunk::<LENGTH>() {
            let len = usize::from(u16::from_be_bytes(*length));
            match self.socket.send(&rest[..len.min(rest.len())]) {
                Ok(_) => output.wrote(LENGTH + len, keep),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
