//! The stream below a WebSocket: TCP, with or without TLS.

use std::io::{self, IoSlice};

use mio::net::TcpStream;

use super::Input;
use super::socket::{read, write_slices};
use super::tls::{Sent, Tls};

/// A stream of bytes over TCP.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<Tls>),
}

impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(tls) => tls.stream(),
        }
    }

    pub(super) fn socket_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(tls) => tls.stream_mut(),
        }
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Tcp(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    pub(super) fn tls_mut(&mut self) -> Option<&mut Tls> {
        match self {
            Self::Tcp(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// Reads once into `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        match self {
            Self::Tcp(stream) => read(stream, buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }

    /// Writes once. TLS accepts a bounded part, so that bytes may remain although the socket is not blocked.
    pub(super) fn send(&mut self, slices: &[IoSlice<'_>], scratch: &mut [u8]) -> io::Result<Sent> {
        match self {
            Self::Tcp(stream) => {
                let offered: usize = slices.iter().map(|slice| slice.len()).sum();
                let bytes = write_slices(stream, slices)?;
                Ok(Sent { bytes, blocked: bytes < offered })
            }
            Self::Tls(tls) => tls.send(slices, scratch),
        }
    }
}
