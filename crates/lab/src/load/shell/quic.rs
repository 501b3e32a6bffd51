//! MQTT over QUIC: one stream of one connection, on a UDP socket of its own, as a client on a machine of its own has
//! it.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use mio::{Registry, Token};
use tidegate_client::net::{QuicSettings, QuicStream};

use super::connection::Brought;
use super::tls;
use crate::load::core::Output;
use crate::load::error::LoadError;
use crate::load::plan::{LoadPlan, Transport};

/// The name of MQTT in the handshake.
const ALPN: &[u8] = b"mqtt";
/// Bytes that a connection may have under way to the broker.
const SEND_WINDOW: u64 = 1024 * 1024;
/// Room that a read has at least, beside the rest of an incomplete packet, in bytes.
const ROOM: usize = 64 * 1024;

/// Settings of all connections of a run.
pub(super) struct Connections {
    quic: QuicSettings,
    name: String,
}

impl Connections {
    /// The settings of a plan; `None` for TCP.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub(super) fn of(plan: &LoadPlan) -> Result<Option<Self>, LoadError> {
        let target = &plan.target;
        if target.transport != Transport::Quic {
            return Ok(None);
        }
        let quic = QuicSettings::new(tls::config(target, Some(ALPN))?, SEND_WINDOW)
            .map_err(|error| LoadError::System { part: "QUIC", error })?;
        let name = target.server_name.clone().unwrap_or_else(|| target.host.clone());
        Ok(Some(Self { quic, name }))
    }
}

/// A connection.
pub(super) struct Quic {
    stream: QuicStream,
    /// True if the core knows that MQTT may begin.
    is_reported: bool,
    is_blocked: bool,
    /// The received part of an incomplete packet.
    partial: Vec<u8>,
    /// For when a timer is set already.
    pub(super) armed_ns: u64,
}

impl Quic {
    /// Begins a connection.
    ///
    /// # Errors
    /// When the system refuses it at once.
    pub(super) fn dial(settings: &Connections, remote: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let local = source.map(|source| SocketAddr::new(source, 0));
        let stream = QuicStream::dial(&settings.quic, local, remote, &settings.name)?;
        Ok(Self { stream, is_reported: false, is_blocked: false, partial: Vec::new(), armed_ns: u64::MAX })
    }

    pub(super) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.register(registry, token)
    }

    pub(super) fn deregister(&self, registry: &Registry) {
        // A descriptor that is about to be closed leaves the poll automatically, too.
        let _ = self.stream.deregister(registry);
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.stream.is_connected()
    }

    /// Continues the handshake; returns whether it is over.
    pub(super) fn connect(&mut self) -> io::Result<bool> {
        self.stream.proceed()
    }

    /// Whether MQTT may begin; true once.
    pub(super) fn has_opened(&mut self) -> bool {
        self.is_connected() && !std::mem::replace(&mut self.is_reported, true)
    }

    /// Time of the next work without input.
    pub(super) fn deadline(&mut self) -> Option<Instant> {
        self.stream.next_deadline()
    }

    /// Acts on its timers: sends lost packets again, for example.
    pub(super) fn on_time(&mut self) {
        self.stream.handle_deadline(Instant::now());
    }

    /// Reads behind the incomplete packet, at most `limit` bytes.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) -> io::Result<Brought> {
        let before = self.partial.len();
        if buffer.len() < before + ROOM {
            buffer.resize(before + 4 * ROOM, 0);
        }
        buffer[..before].copy_from_slice(&self.partial);
        let end = buffer.len().min(before.saturating_add(limit));
        let is_more = self.stream.receive()?;
        let mut brought = Brought { len: before, is_full: is_more, is_closed: false };
        while brought.len < end {
            match self.stream.arrived(&mut buffer[brought.len..end])? {
                Some(0) => {
                    brought.is_closed = true;
                    break;
                }
                Some(count) => brought.len += count,
                None => break,
            }
        }
        brought.is_full |= brought.len == end;
        self.stream.flush()?;
        Ok(brought)
    }

    /// Keeps the incomplete packet.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        self.partial.clear();
        self.partial.extend_from_slice(rest);
    }

    /// Writes as much as the connection takes.
    pub(super) fn flush(&mut self, output: &mut Output, keep: bool) -> io::Result<()> {
        self.is_blocked = false;
        while self.is_connected() && output.len() > 0 {
            match self.stream.write(output.rest()) {
                Ok(count) => output.wrote(count, keep),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.stream.flush()
    }

    /// Whether output waits that the last packet may have made room for.
    pub(super) const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Writes the connection's own output.
    pub(super) fn flush_own(&mut self) -> io::Result<()> {
        self.stream.flush()
    }

    /// Writes the last bytes, and ends the output.
    pub(super) fn say_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_connected() {
            return Err(ErrorKind::NotConnected.into());
        }
        self.stream.write_all(bytes)?;
        self.stream.shutdown_write()
    }
}

#[cfg(test)]
mod tests;
