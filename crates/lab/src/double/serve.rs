//! The double on a socket, on its own thread.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::behaviour::Behaviour;
use super::broker::Double;
use super::records::Records;

const LISTENER: Token = Token(usize::MAX);
const STOP: Token = Token(usize::MAX - 1);
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;

/// A double that serves clients on a port of the loopback.
pub struct Served {
    port: u16,
    waker: Arc<Waker>,
    thread: JoinHandle<Records>,
}

impl Served {
    /// Starts to serve. The double's clock begins now.
    ///
    /// # Errors
    /// When the system has no port.
    pub fn start(behaviour: Behaviour) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), STOP)?);
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let port = listener.local_addr()?.port();
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let mut server = Server {
            poll,
            listener,
            double: Double::new(behaviour),
            began: Instant::now(),
            connections: HashMap::new(),
            next: 0,
        };
        let thread = std::thread::spawn(move || {
            server.serve();
            server.double.records().clone()
        });
        Ok(Self { port, waker, thread })
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Stops serving; returns the records.
    pub fn stop(self) -> Records {
        // Waking cannot fail while the other thread polls, and it polls until then.
        let _ = self.waker.wake();
        self.thread.join().unwrap_or_default()
    }
}

struct Connection {
    stream: TcpStream,
    partial: Vec<u8>,
    out: Vec<u8>,
}

struct Server {
    poll: Poll,
    listener: TcpListener,
    double: Double,
    began: Instant,
    connections: HashMap<u32, Connection>,
    next: u32,
}

impl Server {
    fn serve(&mut self) {
        let mut events = Events::with_capacity(256);
        loop {
            let now_ns = self.now_ns();
            let wait = self.double.next_ns().map(|at_ns| Duration::from_nanos(at_ns.saturating_sub(now_ns)));
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return,
                _ => {}
            }
            for event in &events {
                match event.token() {
                    STOP => return,
                    LISTENER => self.accept(),
                    Token(connection) => {
                        self.read(connection as u32);
                        self.write(connection as u32);
                    }
                }
            }
            self.give();
        }
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn accept(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            self.next += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = Token(self.next as usize);
            if stream.set_nodelay(true).is_ok() && self.poll.registry().register(&mut stream, token, interest).is_ok() {
                self.connections.insert(self.next, Connection { stream, partial: Vec::new(), out: Vec::new() });
            }
        }
    }

    fn read(&mut self, connection: u32) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let Some(place) = self.connections.get_mut(&connection) else { return };
            let count = match place.stream.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => 0,
            };
            place.partial.extend_from_slice(&buffer[..count]);
            let partial = std::mem::take(&mut place.partial);
            let taken = self.double.received(connection, &partial, self.began.elapsed().as_nanos() as u64);
            if let (1.., Some(taken), Some(place)) = (count, taken, self.connections.get_mut(&connection)) {
                place.partial = partial[taken..].to_vec();
            } else {
                self.connections.remove(&connection);
                self.double.closed(connection);
                return;
            }
        }
    }

    fn give(&mut self) {
        let now_ns = self.now_ns();
        let mut given = Vec::new();
        let connections = &mut self.connections;
        self.double.give(now_ns, |connection, bytes| {
            if let Some(place) = connections.get_mut(&connection) {
                place.out.extend_from_slice(bytes);
                given.push(connection);
            }
        });
        given.dedup();
        for connection in given {
            self.write(connection);
        }
    }

    fn write(&mut self, connection: u32) {
        let Some(place) = self.connections.get_mut(&connection) else { return };
        let mut written = 0;
        while written < place.out.len() {
            match place.stream.write(&place.out[written..]) {
                Ok(count) => written += count,
                // Unwritten bytes are sent when the socket is writable, and a broken one is noticed at the next read.
                Err(_) => break,
            }
        }
        place.out.drain(..written);
    }
}
