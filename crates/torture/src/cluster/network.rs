//! The network of a cluster: one thread that carries the connections between nodes, and from nodes to their bus. Each way
//! can be cut, silent or slow.
//!
//! Nodes tell each other the address [`ADVERTISED`], where this thread listens; connections there come from an address of
//! each node's own, so that it is known between which nodes they are.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};

use crate::failure::Failure;

/// The address at which nodes reach each other.
pub(super) const ADVERTISED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The last byte of the address that connections of the first node come from.
const FIRST_SOURCE: u8 = 10;
/// Bytes that wait in one direction.
const ROOM: usize = 64 * 1024;
/// Bytes that a slow way carries at a time, and the time between.
const SLOW_BYTES: usize = 4 * 1024;
const SLOW_PAUSE: Duration = Duration::from_millis(40);
/// Longest time until a change of a way is seen.
const TURN: Duration = Duration::from_millis(10);
/// Tokens of connections begin here; below are the tokens of listeners.
const CONNECTIONS: usize = 1_000;

/// How a way treats its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WayState {
    Open,
    /// Ends all connections, and new ones at once.
    Cut,
    /// Keeps connections and carries nothing.
    Silent,
    /// Carries little at a time.
    Slow,
}

const STATES: [WayState; 4] = [WayState::Open, WayState::Cut, WayState::Silent, WayState::Slow];

/// A way of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Between two nodes.
    Link(usize, usize),
    /// From a node to the bus.
    Bus(usize),
}

/// The address that connections of a node to other nodes come from.
pub(super) fn source_of(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, FIRST_SOURCE + node as u8)
}

fn node_at(source: IpAddr, nodes: usize) -> Option<usize> {
    (0..nodes).find(|node| source == IpAddr::V4(source_of(*node)))
}

/// The state that the thread and the run share.
#[derive(Debug)]
struct Shared {
    nodes: usize,
    ways: Vec<AtomicU8>,
    /// For each way, how often something could not be carried as on an open way.
    hindered: Vec<AtomicU64>,
    /// The address of a connection to a node that is no node's.
    stranger: OnceLock<IpAddr>,
    /// Nodes that are alive: the ports of others refuse connections.
    alive: Vec<AtomicBool>,
    changes: AtomicU64,
    is_over: AtomicBool,
}

impl Shared {
    fn place(&self, way: Way) -> usize {
        match way {
            Way::Link(one, other) => one.min(other) * self.nodes + one.max(other),
            Way::Bus(node) => self.nodes * self.nodes + node,
        }
    }

    fn state(&self, way: Way) -> WayState {
        let number = self.ways.get(self.place(way)).map_or(0, |way| way.load(Ordering::Relaxed));
        STATES.get(usize::from(number)).copied().unwrap_or(WayState::Open)
    }

    fn note_hindered(&self, way: Way) {
        if let Some(count) = self.hindered.get(self.place(way)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The network. Its thread ends with this value.
#[derive(Debug)]
pub(super) struct Network(Arc<Shared>);

/// A port of a node at which others reach it, or one at which a node reaches the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub(super) at: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) owner: Owner,
}

/// The owner of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Other nodes reach this node here.
    Node(usize),
    /// This node reaches the bus here.
    BusOf(usize),
}

impl Network {
    /// Starts to carry.
    pub(super) fn start(nodes: usize, ports: Vec<Carried>) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            nodes,
            ways: (0..nodes * (nodes + 1)).map(|_| AtomicU8::new(WayState::Open as u8)).collect(),
            hindered: (0..nodes * (nodes + 1)).map(|_| AtomicU64::new(0)).collect(),
            stranger: OnceLock::new(),
            alive: (0..nodes).map(|_| AtomicBool::new(true)).collect(),
            changes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let poll = Poll::new().map_err(Failure::system("creating a poll"))?;
        let ports = ports.into_iter().map(|carried| Port { carried, listener: None }).collect();
        let mut carrier = Carrier { shared: Arc::clone(&shared), poll, ports, connections: Vec::new(), seen: u64::MAX };
        carrier.listen().map_err(Failure::system("listening for nodes"))?;
        std::thread::spawn(move || carrier.run());
        Ok(Self(shared))
    }

    /// Changes the state of a way.
    pub(super) fn strike(&self, way: Way, state: WayState) {
        if let Some(number) = self.0.ways.get(self.0.place(way)) {
            number.store(state as u8, Ordering::Relaxed);
            self.0.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often a way, while it was not open, had a new connection, an event of a socket, or bytes to carry.
    pub(super) fn hindered(&self, way: Way) -> u64 {
        self.0.hindered.get(self.0.place(way)).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// The address of a connection to a node that came from no node.
    pub(super) fn stranger(&self) -> Option<IpAddr> {
        self.0.stranger.get().copied()
    }

    /// Tells whether the process of a node is there.
    pub(super) fn set_alive(&self, node: usize, is_alive: bool) {
        if let Some(alive) = self.0.alive.get(node)
            && alive.swap(is_alive, Ordering::Relaxed) != is_alive
        {
            self.0.changes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

struct Port {
    carried: Carried,
    listener: Option<TcpListener>,
}

/// Bytes on their way in one direction.
#[derive(Default)]
struct Pipe {
    waiting: Vec<u8>,
    /// Bytes that the receiver has got.
    carried: u64,
    /// The sender has said that nothing follows.
    is_ended: bool,
    /// The receiver knows that.
    is_passed: bool,
}

struct Connection {
    way: Way,
    ends: [TcpStream; 2],
    /// From the first end to the second, and back.
    pipes: [Pipe; 2],
    /// When a slow way carries again.
    next: Instant,
}

struct Carrier {
    shared: Arc<Shared>,
    poll: Poll,
    ports: Vec<Port>,
    connections: Vec<Option<Connection>>,
    /// The change of the ways that was seen last.
    seen: u64,
}

impl Carrier {
    fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.shared.is_over.load(Ordering::Relaxed) {
            // An interrupted wait looks at everything a little earlier.
            let _ = self.poll.poll(&mut events, Some(TURN));
            let now = Instant::now();
            let changes = self.shared.changes.load(Ordering::Relaxed);
            if changes != self.seen {
                // A port that another process has taken meanwhile refuses for longer; the next change tries again.
                self.seen = if self.listen().is_ok() { changes } else { u64::MAX };
                (0..self.connections.len()).for_each(|place| self.carry(place, now, false));
            }
            for token in events.iter().map(mio::event::Event::token) {
                match token.0.checked_sub(CONNECTIONS) {
                    Some(place) => self.carry(place / 2, now, true),
                    None => self.accept(token.0, now),
                }
            }
            for place in 0..self.connections.len() {
                let is_due = |connection: &Connection| {
                    self.shared.state(connection.way) == WayState::Slow && now >= connection.next
                };
                if self.connections[place].as_ref().is_some_and(is_due) {
                    self.carry(place, now, false);
                }
            }
        }
    }

    /// Listens at the ports of living nodes, and at no others.
    fn listen(&mut self) -> io::Result<()> {
        for (place, port) in self.ports.iter_mut().enumerate() {
            let is_alive = match port.carried.owner {
                Owner::Node(node) => self.shared.alive[node].load(Ordering::Relaxed),
                Owner::BusOf(_) => true,
            };
            if !is_alive {
                port.listener = None;
            } else if port.listener.is_none() {
                let mut listener = TcpListener::bind(port.carried.at)?;
                self.poll.registry().register(&mut listener, Token(place), Interest::READABLE)?;
                port.listener = Some(listener);
            }
        }
        Ok(())
    }

    fn accept(&mut self, place: usize, now: Instant) {
        let Some(Port { carried, listener: Some(listener) }) = self.ports.get(place) else { return };
        let mut accepted = Vec::new();
        while let Ok((near, from)) = listener.accept() {
            let way = match carried.owner {
                Owner::BusOf(node) => Some(Way::Bus(node)),
                Owner::Node(node) => node_at(from.ip(), self.shared.nodes).map(|from| Way::Link(from, node)),
            };
            let Some(way) = way else {
                self.shared.stranger.get_or_init(|| from.ip());
                continue;
            };
            if self.shared.state(way) == WayState::Cut {
                self.shared.note_hindered(way);
            } else if let Ok(far) = TcpStream::connect(carried.to) {
                accepted.push(Connection { way, ends: [near, far], pipes: Default::default(), next: now });
            }
        }
        for mut connection in accepted {
            let free = self.connections.iter().position(Option::is_none).unwrap_or(self.connections.len());
            // A connection that cannot be carried is dropped, as on a way without a far end.
            if connection.register(self.poll.registry(), free).is_err() {
                continue;
            }
            if free == self.connections.len() {
                self.connections.push(None);
            }
            self.connections[free] = Some(connection);
            self.carry(free, now, true);
        }
    }

    /// Carries what can be carried on one connection. `has_event`: it is new, or its sockets have something to do. A way that
    /// is not open hinders nothing on a connection without that and without bytes.
    fn carry(&mut self, place: usize, now: Instant, has_event: bool) {
        let Some(Some(connection)) = self.connections.get_mut(place) else { return };
        let (way, state, before) = (connection.way, self.shared.state(connection.way), connection.carried());
        let is_met = has_event || connection.has_waiting();
        if is_met && state != WayState::Open {
            self.shared.note_hindered(way);
        }
        let lives = match state {
            WayState::Open => connection.pass(ROOM),
            WayState::Cut => false,
            WayState::Silent => true,
            WayState::Slow if now < connection.next => true,
            WayState::Slow => {
                connection.next = now + SLOW_PAUSE;
                connection.pass(SLOW_BYTES)
            }
        };
        // Bytes of an event that came while the way was silent.
        if !is_met && state == WayState::Slow && connection.carried() != before {
            self.shared.note_hindered(way);
        }
        if !lives {
            self.connections[place] = None;
        }
    }
}

impl Connection {
    fn register(&mut self, registry: &Registry, place: usize) -> io::Result<()> {
        for (side, end) in self.ends.iter_mut().enumerate() {
            end.set_nodelay(true)?;
            let token = Token(CONNECTIONS + 2 * place + side);
            registry.register(end, token, Interest::READABLE | Interest::WRITABLE)?;
        }
        Ok(())
    }

    /// Bytes that were carried so far, in both directions.
    fn carried(&self) -> u64 {
        self.pipes.iter().map(|pipe| pipe.carried).sum()
    }

    /// True if bytes wait on their way.
    fn has_waiting(&self) -> bool {
        self.pipes.iter().any(|pipe| !pipe.waiting.is_empty())
    }

    /// Passes bytes on, in each direction at most `most` when that is less than all. False at the end of the connection.
    fn pass(&mut self, most: usize) -> bool {
        let [near, far] = &mut self.ends;
        let [there, back] = &mut self.pipes;
        let lives = there.pass(near, far, most).is_ok() && back.pass(far, near, most).is_ok();
        lives && !(there.is_passed && back.is_passed)
    }
}

impl Pipe {
    fn pass(&mut self, from: &mut TcpStream, to: &mut TcpStream, most: usize) -> io::Result<()> {
        let mut chunk = [0; SLOW_BYTES];
        let mut passed = 0;
        loop {
            let mut is_moving = false;
            while !self.is_ended && self.waiting.len() < ROOM && passed < most {
                match from.read(&mut chunk) {
                    Ok(0) => self.is_ended = true,
                    Ok(count) => {
                        self.waiting.extend_from_slice(&chunk[..count]);
                        // Only a slow way counts.
                        passed += if most < ROOM { count } else { 0 };
                        is_moving = true;
                    }
                    Err(error) if waits(&error) => break,
                    Err(error) => return Err(error),
                }
            }
            while !self.waiting.is_empty() {
                match to.write(&self.waiting) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        self.waiting.drain(..count);
                        self.carried += count as u64;
                        is_moving = true;
                    }
                    Err(error) if waits(&error) => break,
                    Err(error) => return Err(error),
                }
            }
            if self.is_ended && self.waiting.is_empty() && !self.is_passed {
                self.is_passed = true;
                to.shutdown(Shutdown::Write)?;
            }
            if !is_moving || passed >= most {
                return Ok(());
            }
        }
    }
}

/// True when the socket has nothing to do now; one that still connects says that it is not connected.
fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected)
}

#[cfg(test)]
mod tests;
