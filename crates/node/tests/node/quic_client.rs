//! A QUIC client over a blocking UDP socket, step by step, so that tests control the order of events.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ReadError, StreamId, TransportConfig, VarInt,
};

use crate::pki::COMMON;
use crate::wire::Socket;

/// Long enough that only a broken broker lets a test run into it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The options of a client.
pub(crate) struct QuicOptions {
    pub(crate) tls: Arc<rustls::ClientConfig>,
    /// None if empty.
    pub(crate) alpn: &'static [u8],
    pub(crate) idle_timeout_ms: u32,
    /// Bytes that the server may send before they are read.
    pub(crate) window: u32,
}

impl Default for QuicOptions {
    fn default() -> Self {
        Self { tls: Arc::clone(&COMMON.client), alpn: b"mqtt", idle_timeout_ms: 0, window: 1 << 20 }
    }
}

impl QuicOptions {
    fn config(&self) -> ClientConfig {
        let mut tls = (*self.tls).clone();
        tls.alpn_protocols = [self.alpn].into_iter().filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(VarInt::from_u32(self.idle_timeout_ms).into()));
        transport.stream_receive_window(VarInt::from_u32(self.window)).receive_window(VarInt::from_u32(self.window));
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(Arc::new(tls)).unwrap()));
        config.transport_config(Arc::new(transport));
        config
    }
}

/// A connection and the stream that it has opened.
pub(crate) struct QuicSocket {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(crate) connection: Connection,
    socket: UdpSocket,
    stream: Option<StreamId>,
    connected: bool,
    pub(crate) lost: Option<ConnectionError>,
}

fn bind(at: Ipv4Addr) -> UdpSocket {
    UdpSocket::bind((at, 0)).unwrap()
}

impl QuicSocket {
    /// Begins a handshake without sending yet.
    pub(crate) fn begin(at: SocketAddr, options: &QuicOptions) -> Self {
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let (handle, connection) = endpoint.connect(Instant::now(), options.config(), at, "localhost").unwrap();
        let socket = bind(Ipv4Addr::LOCALHOST);
        Self { endpoint, handle, connection, socket, stream: None, connected: false, lost: None }
    }

    /// Shakes hands and opens the stream.
    pub(crate) fn connect(at: SocketAddr, options: &QuicOptions) -> Result<Self, ConnectionError> {
        let mut socket = Self::begin(at, options);
        let deadline = Instant::now() + PATIENCE;
        while !socket.connected {
            if let Some(error) = &socket.lost {
                return Err(error.clone());
            }
            socket.step(deadline).unwrap();
        }
        socket.stream = Some(socket.connection.streams().open(Dir::Bi).unwrap());
        Ok(socket)
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream.unwrap()
    }

    /// Continues from another port of this machine, and from this address of it.
    pub(crate) fn rebind(&mut self, from: Ipv4Addr) {
        self.socket = bind(from);
        self.connection.local_address_changed();
    }

    /// Validates the address as the server has asked, with the next datagram, and ignores the answers.
    pub(crate) fn prove(&mut self) {
        let mut buffer = [0; 2_000];
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let (length, from) = self.socket.recv_from(&mut buffer).unwrap();
        self.receive(from, &buffer[..length]);
        self.transmit();
    }

    /// Sends all that may be sent now.
    pub(crate) fn transmit(&mut self) {
        let mut room = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(Instant::now(), 1, &mut room) {
            self.socket.send_to(&room[..transmit.size], transmit.destination).unwrap();
            room.clear();
        }
    }

    /// Sends, then waits for one datagram or the next timer, and works it off.
    pub(crate) fn step(&mut self, deadline: Instant) -> io::Result<()> {
        self.transmit();
        let now = Instant::now();
        if now >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let until = self.connection.poll_timeout().map_or(deadline, |timer| timer.min(deadline));
        let wait = until.saturating_duration_since(now).max(Duration::from_micros(100));
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let mut buffer = vec![0; 65_536];
        match self.socket.recv_from(&mut buffer) {
            Ok((length, from)) => self.receive(from, &buffer[..length]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            // An ICMP message reports that the port is closed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
            Err(error) => panic!("{error}"),
        }
        self.connection.handle_timeout(Instant::now());
        self.note();
        self.transmit();
        Ok(())
    }

    fn receive(&mut self, from: SocketAddr, datagram: &[u8]) {
        let event = self.endpoint.handle(Instant::now(), from, None, None, BytesMut::from(datagram), &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// Processes the events of the connection.
    pub(crate) fn note(&mut self) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                _ => {}
            }
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    /// Waits for the end of the connection and returns its reason.
    pub(crate) fn wait_lost(&mut self) -> ConnectionError {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(error) = &self.lost {
                return error.clone();
            }
            self.step(deadline).unwrap();
        }
    }

    /// The received bytes, if any; `None` at the end of the stream.
    fn try_read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let stream = self.stream();
        let mut receiving = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return None };
        let outcome = chunks.next(buffer.len());
        let _ = chunks.finalize();
        match outcome {
            Ok(Some(chunk)) => {
                buffer[..chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                Some(chunk.bytes.len())
            }
            Err(ReadError::Blocked) if self.lost.is_none() => Some(0),
            _ => None,
        }
    }
}

impl Read for QuicSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.try_read(buffer) {
                Some(0) => self.step(deadline)?,
                Some(count) => {
                    self.transmit();
                    return Ok(count);
                }
                None => return Ok(0),
            }
        }
    }
}

impl Write for QuicSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (deadline, stream) = (Instant::now() + PATIENCE, self.stream());
        loop {
            if self.lost.is_some() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match self.connection.send_stream(stream).write(bytes) {
                Ok(count) => {
                    self.transmit();
                    return Ok(count);
                }
                Err(quinn_proto::WriteError::Blocked) => self.step(deadline)?,
                Err(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for QuicSocket {
    fn finish(&mut self) {
        let stream = self.stream();
        // A stream that the broker has stopped has ended, too.
        let _ = self.connection.send_stream(stream).finish();
        self.transmit();
    }
}

impl Drop for QuicSocket {
    fn drop(&mut self) {
        self.connection.close(Instant::now(), VarInt::from_u32(0), Bytes::new());
        self.transmit();
    }
}
