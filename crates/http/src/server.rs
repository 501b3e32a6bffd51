//! The HTTP server: one thread serves all connections and bounds their number, sizes and times.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tidegate_connections::ConnectionLimit;
use tidegate_visitor::{Fetches, ServeError, ServerThread, bind_all};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::answer_room::{self, AnswerRoom};
use crate::body_room::BodyRoom;
use crate::counters::Counters;
use crate::queue::Queues;
use crate::versions::{HttpVersion, serve, with_alpn};
use crate::visitor::{MAX_BODIES, Visitor};
use crate::write_limit::{WRITE_TIMEOUT, WriteLimit};
use crate::{Gateway, TlsSession};

/// The protocol in errors and in the names of threads.
const PROTOCOL: &str = "HTTP";
/// Time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after the system had no file left for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Histories that are read at once. Each takes a thread that questions to shards need, too.
const MAX_READINGS: usize = 1;
/// Sessions of a listener for each connection that it may have: that of requests, and that of a stream of events, a
/// WebSocket, a wait or a queue. Requests that need another one are answered with 503.
const SESSIONS_PER_CONNECTION: usize = 2;

/// A listener for HTTP.
#[derive(Clone, Debug)]
pub struct DoorSettings {
    /// Its number, which the gateway knows it by.
    pub listener: u16,
    /// Its name, for the log.
    pub name: String,
    /// Where it listens; with port 0 all addresses get the same free port.
    pub addresses: Vec<SocketAddr>,
    /// Whether TLS is spoken.
    pub tls: bool,
    /// HTTP connections at once, at least 1. A further one replaces one without a request under way, and is closed if all
    /// have one.
    pub max_connections: usize,
    /// Longest body, bytes.
    pub max_body: usize,
    /// Bytes of the bodies of all connections at once, at most [`MAX_BODY_BYTES`](crate::MAX_BODY_BYTES), and as many of the
    /// answers that wait for their clients; one longest body always has room.
    pub max_body_bytes: usize,
    /// Origins of pages that may use it; `*` means all.
    pub origins: Vec<String>,
}

/// HTTP that is served.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<(u16, SocketAddr)>,
    counters: Arc<Counters>,
    thread: ServerThread,
}

impl Running {
    /// Where it listens, with the numbers of the listeners.
    pub fn addresses(&self) -> &[(u16, SocketAddr)] {
        &self.addresses
    }

    /// The numbers of its listeners.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Takes no more requests, ends streams, and waits for the answers under way, within `grace`.
    pub fn stop(self, grace: Duration) {
        self.thread.stop(grace);
    }
}

/// A listening socket.
struct Door {
    settings: DoorSettings,
    origins: Arc<[String]>,
    connections: ConnectionLimit,
    sessions: Arc<Semaphore>,
    body_room: Arc<BodyRoom>,
    answer_room: Arc<BodyRoom>,
}

/// The parts that all connections share.
#[derive(Clone)]
struct Shared {
    gateway: Arc<dyn Gateway>,
    queues: Arc<Queues>,
    fetches: Fetches,
    /// Bounds the histories that are read at once.
    readings: Arc<Semaphore>,
    counters: Arc<Counters>,
}

/// Listens, and serves on a thread.
///
/// # Errors
/// When an address is taken, or the system has nothing left.
pub fn start(doors: Vec<DoorSettings>, gateway: Arc<dyn Gateway>) -> Result<Running, ServeError> {
    let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
    for settings in doors {
        let sessions = settings.max_connections.saturating_mul(SESSIONS_PER_CONNECTION);
        let door = Arc::new(Door {
            origins: settings.origins.clone().into(),
            connections: ConnectionLimit::new(settings.max_connections),
            sessions: Arc::new(Semaphore::new(sessions.clamp(1, Semaphore::MAX_PERMITS))),
            body_room: Arc::new(BodyRoom::new(settings.max_body_bytes, settings.max_body)),
            answer_room: Arc::new(BodyRoom::new(settings.max_body_bytes, answer_room::LONGEST)),
            settings,
        });
        for (socket, bound) in bind_all(PROTOCOL, &door.settings.addresses, bind)? {
            addresses.push((door.settings.listener, bound));
            sockets.push((socket, bound.ip().is_loopback(), Arc::clone(&door)));
        }
    }
    let counters = Arc::new(Counters::default());
    let shared = Shared {
        gateway,
        queues: Arc::default(),
        fetches: Fetches::default(),
        readings: Arc::new(Semaphore::new(MAX_READINGS)),
        counters: Arc::clone(&counters),
    };
    let serve = |stopped| async move { serve_all(sockets, &shared, stopped).await };
    Ok(Running { addresses, counters, thread: ServerThread::start(PROTOCOL, serve)? })
}

fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    let bound = socket.local_addr()?;
    Ok((socket, bound))
}

/// Accepts until it is stopped, and then waits for the connections.
async fn serve_all(sockets: Vec<(TcpListener, bool, Arc<Door>)>, shared: &Shared, mut stop: watch::Receiver<bool>) {
    let mut doors = Vec::new();
    for (socket, is_loopback, door) in sockets {
        match tokio::net::TcpListener::from_std(socket) {
            Ok(socket) => {
                doors.push(Arc::clone(&door));
                tokio::spawn(accept(socket, is_loopback, door, shared.clone(), stop.clone()));
            }
            Err(error) => tracing::error!(listener = door.settings.name, %error, "HTTP is not served"),
        }
    }
    // The sender lives as long as `Running`.
    let _ = stop.changed().await;
    for door in doors {
        door.connections.emptied().await;
    }
}

async fn accept(
    socket: tokio::net::TcpListener,
    is_loopback: bool,
    door: Arc<Door>,
    shared: Shared,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = stop.changed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(listener = door.settings.name, %error, "cannot accept an HTTP connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = door.connections.try_admit().await else {
            shared.counters.count_refused_connection();
            tracing::debug!(listener = door.settings.name, %peer, "all HTTP connections have requests under way: closed");
            continue;
        };
        // A small answer is not held back for a larger packet.
        let _ = stream.set_nodelay(true);
        let visitor = Visitor {
            gateway: Arc::clone(&shared.gateway),
            listener: door.settings.listener,
            peer,
            tls: None,
            max_body: door.settings.max_body,
            origins: Arc::clone(&door.origins),
            is_loopback,
            stop: stop.clone(),
            session: Mutex::new(None),
            queues: Arc::clone(&shared.queues),
            readings: Arc::clone(&shared.readings),
            fetches: shared.fetches.clone(),
            sessions: Arc::clone(&door.sessions),
            body_room: Arc::clone(&door.body_room),
            answer_room: AnswerRoom::new(Arc::clone(&door.answer_room)),
            counters: Arc::clone(&shared.counters),
            bodies: Semaphore::new(MAX_BODIES),
            permit: permit.clone(),
        };
        let tls = door.settings.tls;
        door.connections.spawn(permit, |_| welcome(WriteLimit::new(stream, WRITE_TIMEOUT), tls, visitor));
    }
}

/// Serves a connection, over TLS where the listener speaks it.
async fn welcome(stream: WriteLimit<TcpStream>, tls: bool, mut visitor: Visitor) {
    if !tls {
        let (version, stream) = match HttpVersion::spoken(stream).await {
            Ok(found) => found,
            Err(error) => return tracing::debug!(peer = %visitor.peer, %error, "HTTP connection ended"),
        };
        return serve(stream, version, visitor).await;
    }
    let Some(start) = visitor.gateway.tls(visitor.listener) else {
        tracing::debug!(peer = %visitor.peer, "too many TLS handshakes are under way: closed");
        return;
    };
    let handshake = TlsAcceptor::from(with_alpn(&start.config)).accept(stream);
    let done = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
    drop(start.slot);
    match done {
        Ok(Ok(stream)) => {
            let session = stream.get_ref().1;
            let version = HttpVersion::agreed(session.alpn_protocol());
            let server_name = session.server_name().map(str::to_ascii_lowercase);
            visitor.tls = session.protocol_version().map(|version| TlsSession { version, server_name });
            serve(stream, version, visitor).await;
        }
        Ok(Err(error)) => tracing::debug!(peer = %visitor.peer, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(peer = %visitor.peer, "TLS handshake takes too long"),
    }
}
