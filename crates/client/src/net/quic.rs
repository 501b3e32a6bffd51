//! MQTT over QUIC: one stream of one connection, on a UDP socket of its own [MQTT over QUIC, single stream mode].

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ReadError, StreamId, TransportConfig, VarInt, WriteError,
};

/// Bytes that may be under way to the server, so that its answers are looked at between.
const SEND_WINDOW: u64 = 256 << 10;

/// Room for a datagram, in bytes: more than the limit announced to the server.
const DATAGRAM_BYTES: usize = 2048;

/// Number of datagrams that are taken in one turn.
const DATAGRAMS: usize = 256;

/// The code of a connection that has ended as it should.
const ENDED: VarInt = VarInt::from_u32(0);

/// Settings that connections share.
#[derive(Clone, Debug)]
pub struct QuicSettings {
    client: ClientConfig,
    endpoint: Arc<EndpointConfig>,
}

impl QuicSettings {
    /// Settings with `send_window` bytes that a connection may have under way to the server.
    ///
    /// # Errors
    /// When the TLS configuration does not allow TLS 1.3.
    pub fn new(tls: Arc<rustls::ClientConfig>, send_window: u64) -> io::Result<Self> {
        let crypto = QuicClientConfig::try_from(tls)
            .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "QUIC needs TLS 1.3: allow that version"))?;
        let mut transport = TransportConfig::default();
        // The server limits the idle time, and MQTT's Keep Alive finds a dead link.
        transport.max_idle_timeout(None).send_window(send_window).datagram_receive_buffer_size(None);
        let mut client = ClientConfig::new(Arc::new(crypto));
        client.transport_config(Arc::new(transport));
        Ok(Self { client, endpoint: Arc::new(EndpointConfig::default()) })
    }
}

/// A connection, its stream and its socket.
pub struct QuicStream {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    /// Connected to the server, so that the system reports a closed port.
    socket: UdpSocket,
    /// The local address, without a port.
    local: Option<SocketAddr>,
    remote: SocketAddr,
    /// There once the handshake is over.
    stream: Option<StreamId>,
    lost: Option<ConnectionError>,
    /// A datagram that the socket has not taken.
    unsent: Option<Vec<u8>>,
    room: Vec<u8>,
}

impl fmt::Debug for QuicStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicStream").field("remote", &self.remote).field("lost", &self.lost).finish_non_exhaustive()
    }
}

/// A socket that reaches a server, from some port.
fn connected(local: Option<SocketAddr>, remote: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match (local, remote) {
        (Some(local), _) => local,
        (None, SocketAddr::V4(_)) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        (None, SocketAddr::V6(_)) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(remote)?;
    Ok(socket)
}

impl QuicStream {
    /// Shakes hands, and blocks for that, for at most `limit`.
    pub(in crate::net) fn connect(
        local: Option<SocketAddr>,
        remote: SocketAddr,
        host: &str,
        tls: Arc<rustls::ClientConfig>,
        limit: Duration,
    ) -> io::Result<Self> {
        let mut quic = Self::begin(&QuicSettings::new(tls, SEND_WINDOW)?, local, remote, host)?;
        quic.shake_hands(Instant::now() + limit)?;
        quic.socket.set_nonblocking(true)?;
        Ok(quic)
    }

    /// Begins a connection from a local address, without a port, on a socket that does not block. [`Self::proceed`]
    /// continues its handshake.
    ///
    /// # Errors
    /// When the system refuses it at once.
    pub fn dial(
        settings: &QuicSettings,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        host: &str,
    ) -> io::Result<Self> {
        let quic = Self::begin(settings, local, remote, host)?;
        quic.socket.set_nonblocking(true)?;
        Ok(quic)
    }

    fn begin(settings: &QuicSettings, local: Option<SocketAddr>, remote: SocketAddr, host: &str) -> io::Result<Self> {
        let socket = connected(local, remote)?;
        // Plain sockets cannot forbid fragments, so larger datagrams are not probed for.
        let mut endpoint = Endpoint::new(Arc::clone(&settings.endpoint), None, false, None);
        let (handle, connection) = endpoint
            .connect(Instant::now(), settings.client.clone(), remote, host)
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let (stream, lost, unsent, room) = (None, None, None, Vec::new());
        Ok(Self { endpoint, handle, connection, socket, local, remote, stream, lost, unsent, room })
    }

    /// Continues the handshake; returns whether it is over.
    ///
    /// # Errors
    /// When the connection is lost, or the socket fails.
    pub fn proceed(&mut self) -> io::Result<bool> {
        self.receive()?;
        self.transmit()?;
        if self.stream.is_none() && !self.connection.is_handshaking() {
            self.stream = self.connection.streams().open(Dir::Bi);
        }
        match &self.lost {
            Some(lost) => Err(io::Error::new(ErrorKind::ConnectionReset, lost.clone())),
            None => Ok(self.is_connected()),
        }
    }

    /// Whether the handshake is over.
    pub const fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    fn shake_hands(&mut self, deadline: Instant) -> io::Result<()> {
        loop {
            self.transmit()?;
            if !self.connection.is_handshaking() {
                self.stream = self.connection.streams().open(Dir::Bi);
                return match self.stream {
                    Some(_) => Ok(()),
                    None => Err(io::Error::new(ErrorKind::InvalidData, "the server allows no stream")),
                };
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(io::Error::new(ErrorKind::TimedOut, "the server does not answer over QUIC"));
            }
            let until = self.connection.poll_timeout().map_or(deadline, |due| due.min(deadline));
            let wait = until.saturating_duration_since(now).max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(wait))?;
            let mut datagram = [0; DATAGRAM_BYTES];
            match self.socket.recv(&mut datagram) {
                Ok(length) => self.take(datagram.get(..length).unwrap_or_default()),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            self.connection.handle_timeout(Instant::now());
            self.note();
            if let Some(lost) = &self.lost {
                return Err(io::Error::new(ErrorKind::InvalidData, lost.clone()));
            }
        }
    }

    /// Has a poll report its socket by this token.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Ends the reports of a poll.
    ///
    /// # Errors
    /// When the poll does not know the socket.
    pub fn deregister(&self, registry: &Registry) -> io::Result<()> {
        registry.deregister(&mut SourceFd(&self.socket.as_raw_fd()))
    }

    /// Continues from another port, as after a change of the network. The socket has to be registered again.
    pub(in crate::net) fn rebind(&mut self) -> io::Result<()> {
        let socket = connected(self.local, self.remote)?;
        socket.set_nonblocking(true)?;
        self.socket = socket;
        self.connection.local_address_changed();
        self.transmit()
    }

    /// The next deadline of the connection.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Handles a deadline: sends lost data again, for example.
    pub fn handle_deadline(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
        self.note();
        // A socket that fails is found by the next read.
        let _ = self.transmit();
    }

    /// Whether a datagram waits for the socket.
    pub(in crate::net) fn is_waiting(&self) -> bool {
        self.unsent.is_some()
    }

    /// Ends the sending side.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        if let Some(stream) = self.stream {
            // A stream that has ended already needs no end.
            let _ = self.connection.send_stream(stream).finish();
        }
        self.transmit()
    }

    /// Sends all that may be sent now, as far as the socket takes it.
    fn transmit(&mut self) -> io::Result<()> {
        if let Some(datagram) = self.unsent.take() {
            self.send(datagram)?;
        }
        while self.unsent.is_none() {
            let mut room = std::mem::take(&mut self.room);
            room.clear();
            let Some(transmit) = self.connection.poll_transmit(Instant::now(), 1, &mut room) else {
                self.room = room;
                break;
            };
            room.truncate(transmit.size);
            self.send(room)?;
        }
        Ok(())
    }

    fn send(&mut self, datagram: Vec<u8>) -> io::Result<()> {
        match self.socket.send(&datagram) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.unsent = Some(datagram),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Err(error),
            // Whatever else is wrong with a datagram is the network's: it is lost, and sent again.
            _ => self.room = datagram,
        }
        Ok(())
    }

    /// Takes datagrams until the socket is empty or the turn ends. Returns true if the socket may have more.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn receive(&mut self) -> io::Result<bool> {
        // Not a buffer of each connection: there may be many, and most of them are silent.
        let mut datagram = [0; DATAGRAM_BYTES];
        for _ in 0..DATAGRAMS {
            match self.socket.recv(&mut datagram) {
                Ok(length) => self.take(datagram.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes a datagram that was received.
    fn take(&mut self, datagram: &[u8]) {
        let (now, bytes) = (Instant::now(), BytesMut::from(datagram));
        let event = self.endpoint.handle(now, self.remote, None, None, bytes, &mut Vec::new());
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

    /// Bytes that arrived in order: their number, 0 at the end of the stream, `None` when there are none now.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn arrived(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(stream) = self.stream else { return Ok(Some(0)) };
        let mut receiving = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return Ok(Some(0)) };
        let outcome = chunks.next(buffer.len());
        // Frames caused by this read are sent with the next datagram.
        let _ = chunks.finalize();
        match outcome {
            Ok(Some(chunk)) => {
                if let Some(place) = buffer.get_mut(..chunk.bytes.len()) {
                    place.copy_from_slice(&chunk.bytes);
                }
                Ok(Some(chunk.bytes.len()))
            }
            Ok(None) | Err(ReadError::Reset(_)) => Ok(Some(0)),
            Err(ReadError::Blocked) => match &self.lost {
                None => Ok(None),
                Some(ConnectionError::ApplicationClosed(close)) if close.error_code == ENDED => Ok(Some(0)),
                Some(lost) => Err(io::Error::new(ErrorKind::ConnectionReset, lost.clone())),
            },
        }
    }
}

/// Whether the connection may survive a socket's error.
fn is_passing(error: &io::Error) -> bool {
    // A lost network may return, and then the connection continues.
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
    )
}

impl Read for QuicStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut is_more = true;
        loop {
            if let Some(count) = self.arrived(buffer)? {
                self.transmit()?;
                return Ok(count);
            }
            if !is_more {
                self.transmit()?;
                return Err(ErrorKind::WouldBlock.into());
            }
            is_more = self.receive()?;
        }
    }
}

impl Write for QuicStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let Some(stream) = self.stream else { return Ok(0) };
        let taken = match self.connection.send_stream(stream).write(buffer) {
            Ok(count) => count,
            Err(WriteError::Blocked) => return Err(ErrorKind::WouldBlock.into()),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Err(ErrorKind::ConnectionReset.into()),
        };
        self.transmit()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.transmit()
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        if !self.connection.is_closed() {
            self.connection.close(Instant::now(), ENDED, Bytes::new());
            // If the packet is lost, the server notices the end by its Keep Alive.
            let _ = self.transmit();
        }
    }
}
