//! A network connection to the broker: TCP, or WebSocket over TCP.

use crate::outcome::Outcome;
use crate::tcp::{Reading, read_some, write_all};
use crate::websocket::WebSocket;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The connection under a client.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(TcpStream),
    WebSocket(WebSocket),
}

impl Transport {
    /// Writes all bytes; over WebSocket as one binary frame. `false` means that the broker has closed the connection.
    pub(crate) fn write(&mut self, bytes: &[u8], patience: Duration) -> Outcome<bool> {
        match self {
            Self::Tcp(stream) => write_all(stream, bytes, patience),
            Self::WebSocket(socket) => socket.write_binary(bytes, patience),
        }
    }

    /// Appends what arrives until the deadline, at least one byte unless it ends otherwise.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>, deadline: Instant) -> Outcome<Reading> {
        match self {
            Self::Tcp(stream) => read_some(stream, into, deadline),
            Self::WebSocket(socket) => socket.read_binary(into, deadline),
        }
    }

    /// Says that nothing more will be sent; the broker sees the end of the stream.
    pub(crate) fn finish_sending(&mut self) {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::WebSocket(socket) => socket.stream(),
        };
        // The broker may have closed its side already, which is as good.
        let _ = stream.shutdown(Shutdown::Write);
    }
}
