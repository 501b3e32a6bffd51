//! Against a server that is as small as QUIC allows, on loopback.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, ServerConfig, StreamId,
    TransportConfig, VarInt,
};
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::*;
use crate::load::plan::Target;

/// The server waits this long for a datagram before the client has its turn.
const TURN: Duration = Duration::from_millis(2);
/// Bytes that the server accepts ahead of the processed ones.
const WINDOW: u32 = 10_000;
/// A test that is not over by then never will be.
const LIMIT: Duration = Duration::from_secs(60);

/// Echoes the first stream of the first connection.
struct Server {
    endpoint: Endpoint,
    socket: UdpSocket,
    client: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    echo: Vec<u8>,
    has_ended: bool,
    /// Once the client has connected, one datagram of this number is lost; 0 for none.
    loses: usize,
    seen: usize,
    lost: usize,
}

impl Server {
    fn new(loses: usize) -> Self {
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into();
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private)
            .unwrap();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(VarInt::from_u32(WINDOW));
        config.transport_config(Arc::new(transport));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TURN)).unwrap();
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config)), false, None);
        let (client, stream, echo) = (None, None, Vec::new());
        Self { endpoint, socket, client, stream, echo, has_ended: false, loses, seen: 0, lost: 0 }
    }

    /// Takes a datagram, if one comes, and sends the pending ones.
    fn turn(&mut self) {
        let mut datagram = [0; 2048];
        if let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            self.seen += usize::from(self.stream.is_some());
            if self.loses > 0 && self.seen % self.loses == self.loses - 1 {
                self.lost += 1;
            } else {
                self.take(&datagram[..len], from);
            }
        }
        let Some((handle, connection)) = &mut self.client else { return };
        if connection.poll_timeout().is_some_and(|at| at <= Instant::now()) {
            connection.handle_timeout(Instant::now());
        }
        while connection.poll().is_some() {}
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        self.stream = self.stream.or_else(|| connection.streams().accept(Dir::Bi));
        if let Some(stream) = self.stream {
            self.has_ended |= echo(connection, stream, &mut self.echo);
        }
        let mut room = Vec::new();
        while let Some(transmit) = connection.poll_transmit(Instant::now(), 1, &mut room) {
            self.socket.send_to(&room[..transmit.size], transmit.destination).unwrap();
            room.clear();
        }
    }

    fn take(&mut self, datagram: &[u8], from: SocketAddr) {
        let (now, mut said) = (Instant::now(), Vec::new());
        match self.endpoint.handle(now, from, None, None, BytesMut::from(datagram), &mut said) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.client = Some(self.endpoint.accept(incoming, now, &mut said, None).ok().unwrap());
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.client.as_mut().unwrap().1.handle_event(event),
            _ => {}
        }
    }
}

/// Sends the received bytes back; returns true if the client has ended the stream.
fn echo(connection: &mut Connection, stream: StreamId, echo: &mut Vec<u8>) -> bool {
    let mut has_ended = false;
    if let Ok(mut chunks) = connection.recv_stream(stream).read(true) {
        while let Ok(next) = chunks.next(usize::MAX) {
            let Some(chunk) = next else {
                has_ended = true;
                break;
            };
            echo.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
    }
    if let Ok(count) = connection.send_stream(stream).write(echo) {
        echo.drain(..count);
    }
    has_ended
}

fn dial(to: &Server) -> Quic {
    let mut plan = LoadPlan::new(Target::tcp("localhost", 1), 1);
    plan.target.transport = Transport::Quic;
    let settings = Connections::of(&plan).unwrap().unwrap();
    Quic::dial(&settings, to.socket.local_addr().unwrap(), None).unwrap()
}

/// Runs both in turns until `is_done`.
fn until(server: &mut Server, client: &mut Quic, mut is_done: impl FnMut(&mut Quic, &Server) -> bool) {
    let begin = Instant::now();
    while !is_done(client, server) {
        assert!(begin.elapsed() < LIMIT, "nothing comes any more");
        server.turn();
        if client.deadline().is_some_and(|at| at <= Instant::now()) {
            client.on_time();
        }
    }
}

/// Sent bytes return, in order and complete, with any loss of datagrams.
fn returns(bytes: usize, loses: usize) -> Server {
    let mut server = Server::new(loses);
    let mut client = dial(&server);
    assert!(!client.has_opened() && !client.is_connected());
    until(&mut server, &mut client, |client, _| client.connect().unwrap());
    assert!(client.has_opened() && !client.has_opened(), "it is reported once");
    let sent: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
    let mut output = Output { bytes: sent.clone(), ..Output::default() };
    let (mut back, mut buffer) = (Vec::new(), Vec::new());
    until(&mut server, &mut client, |client, _| {
        client.flush(&mut output, false).unwrap();
        let brought = client.read(&mut buffer, usize::MAX).unwrap();
        back.extend_from_slice(&buffer[..brought.len]);
        assert!(!brought.is_closed);
        back.len() >= bytes
    });
    assert!(back == sent, "as it was sent");
    client.say_last(b"bye").unwrap();
    until(&mut server, &mut client, |client, server| {
        client.read(&mut buffer, usize::MAX).unwrap();
        server.has_ended
    });
    server
}

#[test]
fn quic_carries_bytes_both_ways_and_the_end() {
    // More than may be under way at a time, so that the client has to wait for room.
    assert_eq!(returns(10 * WINDOW as usize, 0).lost, 0);
}

#[test]
fn lost_datagrams_are_sent_again() {
    assert!(returns(30_000, 5).lost > 1);
}

#[test]
fn a_missing_listener_is_reported() {
    let server = Server::new(0);
    let mut client = dial(&server);
    drop(server);
    let begin = Instant::now();
    let error = loop {
        assert!(begin.elapsed() < LIMIT);
        if let Err(error) = client.connect() {
            break error;
        }
        std::thread::yield_now();
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}
