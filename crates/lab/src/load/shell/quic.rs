//! MQTT over QUIC: one stream of one connection, on a UDP socket of its own, as a client on a machine of its own has
//! it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ReadError, StreamId, TransportConfig, VarInt, WriteError,
};

use super::connection::Brought;
use super::tls;
use crate::load::core::Output;
use crate::load::error::LoadError;
use crate::load::plan::{LoadPlan, Transport};

/// The name of MQTT in the handshake.
const ALPN: &[u8] = b"mqtt";
/// Room for a datagram, in bytes: more than the limit announced to the broker.
const DATAGRAM_BYTES: usize = 2048;
/// Number of datagrams that are taken in one turn.
const DATAGRAMS: usize = 256;
/// Bytes that a connection may have under way to the broker.
const SEND_WINDOW: u64 = 1024 * 1024;
/// Room that a read has at least, beside the rest of an incomplete packet, in bytes.
const ROOM: usize = 64 * 1024;
/// The code of a connection that has ended as it should.
const ENDED: VarInt = VarInt::from_u32(0);

/// Settings of all connections of a run.
pub(super) struct QuicSettings {
    client: ClientConfig,
    endpoint: Arc<EndpointConfig>,
    name: String,
}

impl QuicSettings {
    /// The layers of a plan; `None` for TCP.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub(super) fn of(plan: &LoadPlan) -> Result<Option<Self>, LoadError> {
        let target = &plan.target;
        if target.transport != Transport::Quic {
            return Ok(None);
        }
        let system = |problem: String| LoadError::System { part: "QUIC", error: io::Error::other(problem) };
        let crypto = QuicClientConfig::try_from(tls::config(target, Some(ALPN))?);
        let crypto = crypto.map_err(|error| system(error.to_string()))?;
        let mut transport = TransportConfig::default();
        // The broker says how long a connection may be silent.
        transport.max_idle_timeout(None).send_window(SEND_WINDOW).datagram_receive_buffer_size(None);
        let mut client = ClientConfig::new(Arc::new(crypto));
        client.transport_config(Arc::new(transport));
        let name = target.server_name.clone().unwrap_or_else(|| target.host.clone());
        Ok(Some(Self { client, endpoint: Arc::new(EndpointConfig::default()), name }))
    }
}

/// A connection.
pub(super) struct Quic {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    /// Connected to the broker, so that the system reports a missing listener.
    socket: UdpSocket,
    remote: SocketAddr,
    /// There once the handshake is over.
    stream: Option<StreamId>,
    /// True if the core knows that MQTT may begin.
    is_reported: bool,
    lost: Option<ConnectionError>,
    is_blocked: bool,
    /// A datagram that the socket has not taken.
    unsent: Option<Vec<u8>>,
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
    pub(super) fn dial(settings: &QuicSettings, remote: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let any: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = StdSocket::bind(SocketAddr::new(source.unwrap_or(any), 0))?;
        socket.connect(remote)?;
        socket.set_nonblocking(true)?;
        // Larger datagrams are not probed for: this socket does not forbid that they are cut.
        let mut endpoint = Endpoint::new(Arc::clone(&settings.endpoint), None, false, None);
        let (handle, connection) = endpoint
            .connect(Instant::now(), settings.client.clone(), remote, &settings.name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Self {
            endpoint,
            handle,
            connection,
            socket: UdpSocket::from_std(socket),
            remote,
            stream: None,
            is_reported: false,
            lost: None,
            is_blocked: false,
            unsent: None,
            partial: Vec::new(),
            armed_ns: u64::MAX,
        })
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE | Interest::WRITABLE)
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        // A descriptor that is about to be closed leaves the poll automatically, too.
        let _ = registry.deregister(&mut self.socket);
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Continues the handshake; returns whether it is over.
    pub(super) fn connect(&mut self) -> io::Result<bool> {
        self.take_in()?;
        self.transmit()?;
        if self.stream.is_none() && !self.connection.is_handshaking() {
            self.stream = self.connection.streams().open(Dir::Bi);
        }
        match &self.lost {
            Some(lost) => Err(io::Error::new(io::ErrorKind::ConnectionReset, lost.clone())),
            None => Ok(self.is_connected()),
        }
    }

    /// Whether MQTT may begin; true once.
    pub(super) fn has_opened(&mut self) -> bool {
        self.is_connected() && !std::mem::replace(&mut self.is_reported, true)
    }

    /// Time of the next work without input.
    pub(super) fn deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Acts on its timers: sends lost packets again, for example.
    pub(super) fn on_time(&mut self) -> io::Result<()> {
        self.connection.handle_timeout(Instant::now());
        self.note();
        self.transmit()
    }

    /// Reads behind the incomplete packet, at most `limit` bytes.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, limit: usize) -> io::Result<Brought> {
        let before = self.partial.len();
        if buffer.len() < before + ROOM {
            buffer.resize(before + 4 * ROOM, 0);
        }
        buffer[..before].copy_from_slice(&self.partial);
        let end = buffer.len().min(before.saturating_add(limit));
        let is_more = self.take_in()?;
        let mut brought = Brought { len: before, is_full: is_more, is_closed: false };
        while brought.len < end {
            match self.arrived(&mut buffer[brought.len..end])? {
                Some(0) => {
                    brought.is_closed = true;
                    break;
                }
                Some(count) => brought.len += count,
                None => break,
            }
        }
        brought.is_full |= brought.len == end;
        self.transmit()?;
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
        while let (Some(stream), true) = (self.stream, output.len() > 0) {
            match self.connection.send_stream(stream).write(output.rest()) {
                Ok(count) => output.wrote(count, keep),
                Err(WriteError::Blocked) => {
                    self.is_blocked = true;
                    break;
                }
                Err(_) => return Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
        self.transmit()
    }

    /// Whether output waits that the last packet may have made room for.
    pub(super) const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Writes the connection's own output.
    pub(super) fn flush_own(&mut self) -> io::Result<()> {
        self.transmit()
    }

    /// Writes the last bytes, and ends the output.
    pub(super) fn say_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(stream) = self.stream else { return Err(io::ErrorKind::NotConnected.into()) };
        let reset = |_| io::Error::from(io::ErrorKind::ConnectionReset);
        let mut sending = self.connection.send_stream(stream);
        sending.write(bytes).map_err(reset)?;
        // A stream that has ended already needs no end.
        let _ = sending.finish();
        self.transmit()
    }

    /// Takes datagrams until there are none; whether there may be more.
    fn take_in(&mut self) -> io::Result<bool> {
        // Not each connection's own: there are many, and most of them are silent.
        let mut datagram = [0; DATAGRAM_BYTES];
        for _ in 0..DATAGRAMS {
            match self.socket.recv(&mut datagram) {
                Ok(len) => self.take(datagram.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes a datagram that was received.
    fn take(&mut self, datagram: &[u8]) {
        let bytes = BytesMut::from(datagram);
        let event = self.endpoint.handle(Instant::now(), self.remote, None, None, bytes, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        self.note();
    }

    fn note(&mut self) {
        while let Some(event) = self.connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                self.lost = Some(reason);
            }
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    /// Bytes that have arrived in order: their number, 0 at the end of the stream, `None` when there is nothing now.
    fn arrived(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(stream) = self.stream else { return Ok(None) };
        let mut receiving = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return Ok(Some(0)) };
        let outcome = chunks.next(buffer.len());
        // The frames that this queues leave with the next datagram.
        let _ = chunks.finalize();
        match outcome {
            Ok(Some(chunk)) => {
                buffer[..chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                Ok(Some(chunk.bytes.len()))
            }
            Ok(None) | Err(ReadError::Reset(_)) => Ok(Some(0)),
            Err(ReadError::Blocked) => match &self.lost {
                None => Ok(None),
                Some(ConnectionError::ApplicationClosed(close)) if close.error_code == ENDED => Ok(Some(0)),
                Some(lost) => Err(io::Error::new(io::ErrorKind::ConnectionReset, lost.clone())),
            },
        }
    }

    /// Sends all that may be sent now, as far as the socket takes it.
    fn transmit(&mut self) -> io::Result<()> {
        if let Some(datagram) = self.unsent.take() {
            self.send(datagram)?;
        }
        while self.unsent.is_none() {
            let mut room = Vec::new();
            let Some(transmit) = self.connection.poll_transmit(Instant::now(), 1, &mut room) else { break };
            room.truncate(transmit.size);
            self.send(room)?;
        }
        Ok(())
    }

    fn send(&mut self, datagram: Vec<u8>) -> io::Result<()> {
        match self.socket.send(&datagram) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.unsent = Some(datagram),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
            // Whatever else is wrong with a datagram is the network's: it is lost, and sent again.
            _ => {}
        }
        Ok(())
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        if !self.connection.is_closed() {
            self.connection.close(Instant::now(), ENDED, Bytes::new());
            // Without a notice the broker ends it by the keep-alive.
            let _ = self.transmit();
        }
    }
}

#[cfg(test)]
mod tests;
