//! Opens many MQTT connections over QUIC, holds them, and prints how long each took. `bench/quic.py` measures brokers
//! with it.
//!
//! `quic_load HOST:PORT CA_FILE COUNT PER_SECOND WINDOW` opens `COUNT` connections, `PER_SECOND` of them each second
//! (0: as many as `WINDOW` allows), at most `WINDOW` of them at once before their CONNACK (0: any number). Each
//! subscribes to its own topic. It writes one line of JSON when all are up or lost, and another one when standard
//! input has ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, StreamId,
    TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

type Failure = Box<dyn Error>;

/// Bytes of the CONNACK of MQTT 3.1.1 and the SUBACK behind it.
const ANSWERS: usize = 9;
/// Buffers of the socket in the kernel, bytes, as far as it allows: the generator must not lose packets itself.
const SOCKET_BUFFER: usize = 8 << 20;
/// Datagrams taken in one go.
const DATAGRAMS_PER_TURN: usize = 256;
/// The longest pause, so that the end of standard input is noticed.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

struct Client {
    handle: ConnectionHandle,
    connection: Connection,
    begun: Instant,
    stream: Option<StreamId>,
    received: usize,
    /// How long it took until it was up, or that it is lost.
    state: State,
    /// The deadline of its current entry in the heap.
    due: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Opening,
    Up(Duration),
    Lost,
}

struct Load {
    socket: UdpSocket,
    endpoint: Endpoint,
    config: ClientConfig,
    server: SocketAddr,
    clients: Vec<Client>,
    /// By their handles.
    numbers: Vec<usize>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    opening: usize,
    room: Vec<u8>,
}

fn config(authority: &Path) -> Result<ClientConfig, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"mqtt".to_vec()];
    // Each client is another device, which has no ticket.
    tls.resumption = rustls::client::Resumption::disabled();
    let mut transport = TransportConfig::default();
    // A silent peer is still there.
    transport.max_idle_timeout(None);
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&length[..], text.as_bytes()].concat()
}

/// CONNECT of MQTT 3.1.1 without a keep-alive, and SUBSCRIBE.
fn greeting(number: usize) -> Vec<u8> {
    let packet = |first: u8, body: Vec<u8>| [vec![first, u8::try_from(body.len()).unwrap_or(u8::MAX)], body].concat();
    let connect = [b"\0\x04MQTT\x04\x02\0\0".to_vec(), text(&format!("load-{}-{number}", std::process::id()))].concat();
    let subscribe = [vec![0, 1], text(&format!("load/{number}")), vec![0]].concat();
    [packet(0x10, connect), packet(0x82, subscribe)].concat()
}

impl Load {
    fn new(server: SocketAddr, authority: &Path) -> Result<Self, Failure> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let options = socket2::SockRef::from(&socket);
        options.set_recv_buffer_size(SOCKET_BUFFER)?;
        options.set_send_buffer_size(SOCKET_BUFFER)?;
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let (clients, numbers, timers, room) = (Vec::new(), Vec::new(), BinaryHeap::new(), Vec::new());
        Ok(Self { socket, endpoint, config: config(authority)?, server, clients, numbers, timers, opening: 0, room })
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let (now, number) = (Instant::now(), self.clients.len());
        let (handle, connection) = self.endpoint.connect(now, self.config.clone(), self.server, "localhost")?;
        self.numbers.resize(self.numbers.len().max(handle.0 + 1), 0);
        self.numbers[handle.0] = number;
        let (stream, received, state, due) = (None, 0, State::Opening, None);
        self.clients.push(Client { handle, connection, begun: now, stream, received, state, due });
        self.opening += 1;
        self.serve(number)
    }

    /// Processes the events of a client, and sends its pending packets.
    fn serve(&mut self, number: usize) -> Result<(), Failure> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let before = client.state;
        while let Some(event) = client.connection.poll() {
            match event {
                Event::Connected => {
                    let stream = client.connection.streams().open(Dir::Bi).ok_or("no stream is allowed")?;
                    client.stream = Some(stream);
                    client.connection.send_stream(stream).write(&greeting(number))?;
                }
                Event::ConnectionLost { reason } => {
                    eprintln!("client {number}: {reason}");
                    client.state = State::Lost;
                }
                _ => {}
            }
        }
        client.read();
        if before == State::Opening && client.state != State::Opening {
            self.opening -= 1;
        }
        while let Some(event) = client.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(client.handle, event) {
                client.connection.handle_event(event);
            }
        }
        loop {
            self.room.clear();
            let Some(transmit) = client.connection.poll_transmit(Instant::now(), 1, &mut self.room) else { break };
            let datagram = self.room.get(..transmit.size).unwrap_or_default();
            match self.socket.send_to(datagram, transmit.destination) {
                // It is lost, and sent again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => drop(outcome?),
            }
        }
        let due = client.connection.poll_timeout();
        if due != client.due {
            client.due = due;
            self.timers.extend(due.map(|due| Reverse((due, number))));
        }
        Ok(())
    }

    /// Receives from the socket, and waits at most this long.
    fn receive(&mut self, wait: Duration) -> Result<(), Failure> {
        let mut buffer = [0; 2_048];
        for count in 0..DATAGRAMS_PER_TURN {
            self.socket.set_nonblocking(count > 0 || wait.is_zero())?;
            if count == 0 && !wait.is_zero() {
                self.socket.set_read_timeout(Some(wait))?;
            }
            let (length, from) = match self.socket.recv_from(&mut buffer) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                outcome => outcome?,
            };
            let bytes = BytesMut::from(&buffer[..length]);
            let arrived = self.endpoint.handle(Instant::now(), from, None, None, bytes, &mut Vec::new());
            if let Some(DatagramEvent::ConnectionEvent(handle, event)) = arrived {
                let number = self.numbers.get(handle.0).copied().unwrap_or_default();
                if let Some(client) = self.clients.get_mut(number) {
                    client.connection.handle_event(event);
                }
                self.serve(number)?;
            }
        }
        self.socket.set_nonblocking(true)?;
        Ok(())
    }

    fn run_timers(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        while let Some(Reverse((due, number))) = self.timers.peek().copied() {
            if due > now {
                break;
            }
            self.timers.pop();
            let Some(client) = self.clients.get_mut(number).filter(|client| client.due == Some(due)) else { continue };
            client.due = None;
            client.connection.handle_timeout(now);
            self.serve(number)?;
        }
        Ok(())
    }

    fn tell(&self, event: &str, seconds: f64) {
        let mut times: Vec<f64> = self.clients.iter().filter_map(Client::milliseconds).collect();
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times.get(times.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
        let lost = self.clients.iter().filter(|client| client.state == State::Lost).count();
        println!(
            "{{\"event\":\"{event}\",\"up\":{},\"lost\":{lost},\"seconds\":{seconds:.3},\"p50_ms\":{:.2},\"p99_ms\":{:.2},\"max_ms\":{:.2}}}",
            times.len(),
            at(50),
            at(99),
            at(100),
        );
    }
}

impl Client {
    fn read(&mut self) {
        let Some(stream) = self.stream else { return };
        let mut receiving = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            self.received += chunk.bytes.len();
        }
        let _ = chunks.finalize();
        if self.state == State::Opening && self.received >= ANSWERS {
            self.state = State::Up(self.begun.elapsed());
        }
    }

    fn milliseconds(&self) -> Option<f64> {
        match self.state {
            State::Up(time) => Some(time.as_secs_f64() * 1e3),
            _ => None,
        }
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, authority, count, per_second, window] = arguments.as_slice() else {
        return Err("usage: quic_load HOST:PORT CA_FILE COUNT PER_SECOND WINDOW".into());
    };
    let (count, per_second, window): (usize, u32, usize) = (count.parse()?, per_second.parse()?, window.parse()?);
    let mut load = Load::new(server.parse()?, Path::new(authority))?;
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    std::thread::spawn(move || {
        // Whatever ends standard input, the load ends with it.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        end.store(true, Ordering::Relaxed);
    });
    let (began, mut reported) = (Instant::now(), false);
    while !ended.load(Ordering::Relaxed) {
        let passed = began.elapsed().as_micros() * u128::from(per_second) / 1_000_000;
        let due = if per_second == 0 { count } else { usize::try_from(passed).unwrap_or(count) };
        let opens = |load: &Load| load.clients.len() < due.min(count) && (window == 0 || load.opening < window);
        while opens(&load) {
            load.begin()?;
        }
        let next = load.timers.peek().map(|Reverse((due, _))| due.saturating_duration_since(Instant::now()));
        let pause = if load.clients.len() < count { Duration::from_millis(1) } else { LONGEST_PAUSE };
        load.receive(next.map_or(pause, |next| next.min(pause)))?;
        load.run_timers()?;
        if !reported && load.clients.len() == count && load.opening == 0 {
            reported = true;
            load.tell("up", began.elapsed().as_secs_f64());
        }
    }
    load.tell("end", began.elapsed().as_secs_f64());
    for number in 0..load.clients.len() {
        load.clients[number].connection.close(Instant::now(), VarInt::from_u32(0), Bytes::new());
        load.serve(number)?;
    }
    Ok(())
}
