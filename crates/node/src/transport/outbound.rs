//! TLS on an outgoing connection, to a broker. There are few of them and none is idle, so the session keeps its own
//! buffers.

use std::io::{self, ErrorKind, IoSlice, Write};

use mio::net::TcpStream;
use rustls::ClientConnection;
use tidegate_engine::Output;

use super::socket::read;
use super::{Ended, Input, TlsFailure, Wrote};
use crate::limits::SLICES_PER_WRITE;

/// TLS over TCP, from the client's side, its handshake done.
pub(crate) struct Outbound {
    stream: TcpStream,
    session: ClientConnection,
    /// Whether the session has failed; further input is dropped.
    failed: bool,
}

impl Outbound {
    pub(super) fn new(stream: TcpStream, session: ClientConnection) -> Self {
        Self { stream, session, failed: false }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Whether encrypted bytes wait to be written.
    pub(super) fn is_waiting(&self) -> bool {
        self.session.wants_write()
    }

    /// Whether no more input can arrive.
    pub(super) fn has_ended(&self) -> bool {
        self.failed
    }

    /// Sends the closing alert of TLS after all output.
    pub(super) fn close(&mut self) {
        self.session.send_close_notify();
    }

    /// Reads until there are MQTT bytes, or the socket has no more.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        if self.failed {
            let Input::Bytes { full, .. } = read(&mut self.stream, buffer)? else { return Ok(Input::Closed) };
            return Ok(Input::Bytes { payload: 0..0, full });
        }
        loop {
            match io::Read::read(&mut self.session.reader(), buffer) {
                Ok(0) => return Ok(Input::Closed),
                // The session may have more bytes, which the socket does not report.
                Ok(length) => return Ok(Input::Bytes { payload: 0..length, full: true }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Without TLS's close_notify; MQTT packets have their own length.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Input::Closed),
                Err(error) => return Err(error),
            }
            match self.session.read_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Input::Blocked),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Err(error) = self.session.process_new_packets() {
                self.failed = true;
                return Ok(Input::Last { payload: 0..0, ended: Ended::Tls(TlsFailure::Broker(error)) });
            }
        }
    }

    /// Writes encrypted bytes. False when the socket does not accept all of them.
    fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Encrypts a part of `output`, after the pending bytes, and writes it.
    pub(super) fn write(&mut self, output: Option<&mut Output>) -> io::Result<Wrote> {
        if !self.flush()? {
            return Ok(Wrote::Blocked);
        }
        let Some(output) = output.filter(|output| output.is_writable()) else { return Ok(Wrote::All) };
        let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
        let filled = output.slices(&mut slices);
        let taken = self.session.writer().write_vectored(slices.get(..filled).unwrap_or_default())?;
        output.advance(taken);
        Ok(match self.flush()? {
            false => Wrote::Blocked,
            true if output.is_writable() => Wrote::Some,
            true => Wrote::All,
        })
    }
}
