//! One transport: a socket, with WebSocket over it or without.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

use mio::{Registry, Token};
use tidegate_pipe::PipeEnd;

use super::stream::Stream;
use super::websocket::WebSocket;
use super::{Address, Announced, ConnectError, SocketOptions, TransportError};
use crate::Client;

/// Bytes passed to a WebSocket at once; it copies them, so this bounds its memory.
const WEBSOCKET_CHUNK: usize = 64 << 10;

/// Bytes read from a pipe at once. A read is no system call, and the messages of a small one are in the processor's cache
/// when they are handled.
const PIPE_READ_SIZE: usize = 8 << 10;

/// A connected transport, and whether it may be readable and writable. Readiness is reported once, and holds until the
/// socket would block.
#[derive(Debug)]
pub(super) struct Link {
    // Dropped before the socket: another program may have the port as soon as the socket is closed.
    #[expect(dead_code, reason = "the announcement of the socket ends with it")]
    announced: Option<Announced>,
    stream: Stream,
    websocket: Option<WebSocket>,
    readable: bool,
    writable: bool,
    /// Whether the server was informed of the end of the output.
    farewell_said: bool,
}

/// How an attempt to read or to write ended.
#[derive(Debug)]
pub(super) enum Progress {
    Some,
    Blocked,
    /// The transport has ended.
    Ended(TransportError),
}

impl Link {
    pub(super) fn connect(address: &Address, options: &SocketOptions) -> Result<Self, ConnectError> {
        let websocket = match address {
            Address::WebSocket { host, port, path } | Address::WebSocketTls { host, port, path } => {
                Some(WebSocket::new(host, *port, path))
            }
            Address::Tcp { .. }
            | Address::Tls { .. }
            | Address::Quic { .. }
            | Address::Unix { .. }
            | Address::Pipe { .. } => None,
        };
        let (stream, announced) = Stream::connect(address, options)?;
        Ok(Self { announced, stream, websocket, readable: true, writable: true, farewell_said: false })
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.register(registry, token)
    }

    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.stream.deregister(registry)
    }

    pub(super) fn ready(&mut self, readable: bool, writable: bool) {
        self.readable |= readable;
        self.writable |= writable;
        self.finds_room();
    }

    /// Whether the server is in this process.
    pub(super) fn is_pipe(&mut self) -> bool {
        self.stream.pipe().is_some()
    }

    /// Whether the transport may be readable.
    pub(super) fn is_readable(&self) -> bool {
        self.readable
    }

    /// The next deadline of the transport itself.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        self.stream.quic()?.next_deadline()
    }

    /// Handles a deadline of the transport itself.
    pub(super) fn handle_deadline(&mut self, now: Instant) {
        if let Some(quic) = self.stream.quic() {
            quic.handle_deadline(now);
        }
    }

    /// Continues from another port.
    pub(super) fn rebind(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let Some(quic) = self.stream.quic() else {
            return Err(io::Error::new(ErrorKind::Unsupported, "only a QUIC connection outlives a change of the port"));
        };
        quic.deregister(registry)?;
        quic.rebind()?;
        quic.register(registry, token)
    }

    /// Whether to retry although a socket would block. Over QUIC, other datagrams and timers matter, too, which
    /// readiness does not show.
    fn holds(&mut self, error: &io::Error) -> bool {
        error.kind() != ErrorKind::WouldBlock || self.stream.quic().is_some()
    }

    /// Whether all output was written.
    fn is_flushed(&self, client: &Client) -> bool {
        let websocket = self.websocket.as_ref();
        !self.stream.is_waiting()
            && client.output().is_empty()
            && websocket.is_none_or(|websocket| websocket.output().is_empty())
    }

    /// Writes the client's output, as far as the socket accepts it.
    pub(super) fn write(&mut self, client: &mut Client, now: Instant) -> Progress {
        if !self.writable {
            return Progress::Blocked;
        }
        if self.stream.is_waiting()
            && let Err(error) = self.stream.flush()
        {
            self.writable = self.holds(&error);
            return failed(error);
        }
        let Some(websocket) = &mut self.websocket else {
            let output = client.output();
            if output.is_empty() {
                return Progress::Blocked;
            }
            let written = self.stream.write(output);
            return self.written(written, |count| client.advance_output(now, count));
        };
        if websocket.is_open() && websocket.output().is_empty() {
            let count = client.output().len().min(WEBSOCKET_CHUNK);
            websocket.wrap(client.output().get(..count).unwrap_or(&[]));
            client.advance_output(now, count);
        }
        if websocket.output().is_empty() {
            return Progress::Blocked;
        }
        let written = self.stream.write(websocket.output());
        let count = written.as_ref().map_or(0, |count| *count);
        websocket.advance_output(count);
        self.written(written, |_| {})
    }

    fn written(&mut self, result: io::Result<usize>, advance: impl FnOnce(usize)) -> Progress {
        match result {
            Ok(0) => Progress::Ended(TransportError::EndOfStream),
            Ok(count) => {
                advance(count);
                Progress::Some
            }
            Err(error) => {
                self.writable = self.holds(&error);
                failed(error)
            }
        }
    }

    /// Ends the output below MQTT once everything is written; true when that is complete.
    pub(super) fn say_farewell(&mut self, client: &Client) -> bool {
        if !self.is_flushed(client) {
            return false;
        }
        if !self.farewell_said {
            self.farewell_said = true;
            if let Some(websocket) = &mut self.websocket {
                websocket.close();
                return false;
            }
        }
        // A socket that fails now is about to be closed anyway.
        let _ = self.stream.shutdown_write();
        true
    }

    /// Reads once and drops the bytes. Closing a socket with unread bytes resets the connection, which may cost the
    /// server the last output.
    pub(super) fn discard(&mut self, scratch: &mut [u8]) -> Progress {
        if !self.readable {
            return Progress::Blocked;
        }
        match self.stream.read(scratch) {
            Ok(0) => Progress::Ended(TransportError::EndOfStream),
            Ok(_) => Progress::Some,
            Err(error) => {
                self.readable = self.holds(&error);
                failed(error)
            }
        }
    }

    /// Reads once, and passes the bytes to the client.
    pub(super) fn read(&mut self, client: &mut Client, now: Instant, scratch: &mut [u8]) -> Progress {
        if !self.readable {
            return Progress::Blocked;
        }
        let size = if self.is_pipe() { PIPE_READ_SIZE.min(scratch.len()) } else { scratch.len() };
        let room = scratch.get_mut(..size).unwrap_or_default();
        let result = self.stream.read(room);
        let has_room = self.finds_room();
        match result {
            Ok(0) => Progress::Ended(TransportError::EndOfStream),
            Ok(count) => {
                let bytes = room.get(..count).unwrap_or(&[]);
                let Some(websocket) = &mut self.websocket else {
                    client.handle_input(now, bytes);
                    return Progress::Some;
                };
                let mut payload = Vec::with_capacity(count);
                let result = websocket.handle_input(bytes, &mut payload);
                client.handle_input(now, &payload);
                match result {
                    Ok(()) => Progress::Some,
                    Err(error) => Progress::Ended(error.into()),
                }
            }
            Err(error) => {
                self.readable = self.holds(&error);
                if has_room { Progress::Some } else { failed(error) }
            }
        }
    }

    /// Whether a pipe that took no more output takes some again. It reports room as something to read.
    fn finds_room(&mut self) -> bool {
        let finds = !self.writable && self.stream.pipe().is_some_and(PipeEnd::has_room);
        self.writable |= finds;
        finds
    }
}

fn failed(error: io::Error) -> Progress {
    match error.kind() {
        ErrorKind::WouldBlock => Progress::Blocked,
        ErrorKind::Interrupted => Progress::Some,
        _ => Progress::Ended(error.into()),
    }
}
