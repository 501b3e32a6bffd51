//! The CoAP server: one thread serves all listeners.

use std::collections::HashMap;
use std::hash::RandomState;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_visitor::{Fetches, ServeError, ServerThread, bind_all};
use tokio::net::UdpSocket as AsyncSocket;
use tokio::sync::{mpsc, watch};

use crate::counters::Counters;
use crate::dtls::{Guard, Keys, Passed};
use crate::endpoint::{Action, Endpoint, Event, PeerId, SessionId, Settings};
use crate::limits::Millis;
use crate::session::{self, Command, Start};
use crate::{Caller, Failure, Gateway};

/// The protocol in errors and in the names of threads.
const PROTOCOL: &str = "CoAP";
/// Longest datagram, bytes.
const MAX_DATAGRAM: usize = 65_535;
/// Datagrams that have been read and wait for the endpoint; further ones wait at the socket.
const MAX_READ: usize = 64;
/// Events of the broker that wait for the endpoint; sessions wait where there is no room.
const MAX_EVENTS: usize = 256;
/// Commands that wait for a session; it ends when there is no room for one more.
const MAX_COMMANDS: usize = 256;
/// Pause after a socket has failed.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// A listener for CoAP.
#[derive(Clone, Debug)]
pub struct DoorSettings {
    /// Its number, which the gateway knows it by.
    pub listener: u16,
    /// Its name, for the log.
    pub name: String,
    /// The addresses it listens on; with port 0 all get the same free port.
    pub addresses: Vec<SocketAddr>,
    /// Its settings.
    pub settings: Settings,
    /// The pre-shared keys of its clients, where they speak DTLS.
    pub keys: Option<Arc<Keys>>,
}

/// The numbers of each listener. A listener writes its numbers when it has worked.
#[derive(Clone, Debug)]
pub struct Counted(Arc<[Mutex<Counters>]>);

impl Counted {
    /// The numbers of all listeners together.
    pub fn total(&self) -> Counters {
        let mut total = Counters::default();
        for one in &*self.0 {
            total.add(&one.lock().unwrap_or_else(PoisonError::into_inner));
        }
        total
    }

    fn write(&self, listener: usize, counters: Counters) {
        if let Some(place) = self.0.get(listener) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = counters;
        }
    }
}

/// CoAP that is served.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<(u16, SocketAddr)>,
    counted: Counted,
    thread: ServerThread,
}

impl Running {
    /// The addresses it listens on, with the numbers of the listeners.
    pub fn addresses(&self) -> &[(u16, SocketAddr)] {
        &self.addresses
    }

    /// The numbers of its listeners.
    pub fn counted(&self) -> Counted {
        self.counted.clone()
    }

    /// Takes no more requests, and waits for the answers under way, within `grace`.
    pub fn stop(self, grace: Duration) {
        self.thread.stop(grace);
    }
}

/// Listens, and serves on a thread.
///
/// # Errors
/// When an address is taken, or the system has nothing left.
pub fn start(doors: Vec<DoorSettings>, gateway: Arc<dyn Gateway>) -> Result<Running, ServeError> {
    let (mut bound, mut addresses) = (Vec::new(), Vec::new());
    for door in doors {
        let mut sockets = Vec::new();
        for (socket, address) in bind_all(PROTOCOL, &door.addresses, bind)? {
            addresses.push((door.listener, address));
            sockets.push(socket);
        }
        bound.push((door, sockets));
    }
    let counted = Counted(bound.iter().map(|_| Mutex::default()).collect());
    let shared = counted.clone();
    let serve = |stopped| async move { serve_all(bound, &gateway, &shared, &stopped).await };
    Ok(Running { addresses, counted, thread: ServerThread::start(PROTOCOL, serve)? })
}

fn bind(address: SocketAddr) -> io::Result<(UdpSocket, SocketAddr)> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let bound = socket.local_addr()?;
    Ok((socket, bound))
}

async fn serve_all(
    doors: Vec<(DoorSettings, Vec<UdpSocket>)>,
    gateway: &Arc<dyn Gateway>,
    counted: &Counted,
    stopped: &watch::Receiver<bool>,
) {
    let (mut serving, fetches) = (Vec::new(), Fetches::default());
    for (listener, (door, sockets)) in doors.into_iter().enumerate() {
        let (read, datagrams) = mpsc::channel(MAX_READ);
        let mut writers = Vec::new();
        for (number, socket) in sockets.into_iter().enumerate() {
            match AsyncSocket::from_std(socket).map(Arc::new) {
                Ok(socket) => {
                    tokio::spawn(read_from(number, Arc::clone(&socket), read.clone(), stopped.clone()));
                    writers.push(socket);
                }
                Err(error) => {
                    tracing::error!(listener = door.name, %error, "CoAP is not served");
                    break;
                }
            }
        }
        let server = Server::new(door, writers, Arc::clone(gateway), fetches.clone());
        let place = (counted.clone(), listener);
        serving.push(tokio::spawn(server.serve(datagrams, place, stopped.clone())));
    }
    for one in serving {
        // A panic of a task ends the process.
        let _ = one.await;
    }
}

/// Reads datagrams until it is stopped.
async fn read_from(
    number: usize,
    socket: Arc<AsyncSocket>,
    read: mpsc::Sender<(PeerId, Vec<u8>)>,
    mut stop: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            _ = stop.changed() => return,
        };
        match received {
            Ok((len, at)) => {
                let datagram = buffer.get(..len).unwrap_or_default().to_vec();
                if read.send((PeerId { socket: number, at }, datagram)).await.is_err() {
                    return;
                }
            }
            // The message of a host that a datagram did not reach shows here, too.
            Err(error) => {
                tracing::debug!(%error, "a socket for CoAP has an error");
                tokio::time::sleep(READ_PAUSE).await;
            }
        }
    }
}

/// A listener with its sockets and sessions.
struct Server {
    door: DoorSettings,
    endpoint: Endpoint,
    /// DTLS between the sockets and the endpoint, where the listener has keys.
    guard: Option<Guard>,
    sockets: Vec<Arc<AsyncSocket>>,
    gateway: Arc<dyn Gateway>,
    fetches: Fetches,
    sessions: HashMap<SessionId, mpsc::Sender<Command>>,
    /// Sessions that did not take a command.
    stuck: Vec<SessionId>,
    begin: Instant,
    tell: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
}

impl Server {
    fn new(door: DoorSettings, sockets: Vec<Arc<AsyncSocket>>, gateway: Arc<dyn Gateway>, fetches: Fetches) -> Self {
        let endpoint = Endpoint::new(door.settings, RandomState::new());
        let (tell, events) = mpsc::channel(MAX_EVENTS);
        let (sessions, stuck, begin) = (HashMap::new(), Vec::new(), Instant::now());
        let guard = door.keys.as_ref().map(Guard::new);
        Self { door, endpoint, guard, sockets, gateway, fetches, sessions, stuck, begin, tell, events }
    }

    fn now(&self) -> Millis {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Serves until it is stopped, and then until all requests are answered.
    async fn serve(
        mut self,
        mut datagrams: mpsc::Receiver<(PeerId, Vec<u8>)>,
        (counted, listener): (Counted, usize),
        mut stop: watch::Receiver<bool>,
    ) {
        let mut stopping = false;
        while !stopping || self.endpoint.is_busy() {
            let due = self.endpoint.next_deadline().map(|at| self.begin + Duration::from_millis(at));
            let due = due.into_iter().chain(self.guard.as_ref().and_then(Guard::next_deadline)).min();
            let until = due.map_or_else(tokio::time::Instant::now, tokio::time::Instant::from_std);
            tokio::select! {
                Some((peer, datagram)) = datagrams.recv() => {
                    match &mut self.guard {
                        Some(guard) => guard.handle_datagram(Instant::now(), peer, &datagram),
                        None => self.endpoint.handle_datagram(self.now(), peer, &datagram),
                    }
                }
                Some(event) = self.events.recv() => {
                    if let Event::Ended { session, .. } = &event {
                        self.sessions.remove(session);
                    }
                    self.endpoint.handle_event(self.now(), event);
                }
                () = tokio::time::sleep_until(until), if due.is_some() => {
                    if let Some(guard) = &mut self.guard {
                        guard.handle_deadline(Instant::now());
                    }
                    self.endpoint.handle_deadline(self.now());
                }
                _ = stop.changed(), if !stopping => stopping = true,
            }
            self.act();
            let handshakes_failed = self.guard.as_ref().map_or(0, Guard::failed);
            counted.write(listener, Counters { handshakes_failed, ..self.endpoint.counters() });
        }
    }

    /// Carries out the requests of the guard and the endpoint.
    fn act(&mut self) {
        loop {
            while let Some(action) = self.endpoint.poll_action() {
                self.carry_out(action);
            }
            if let Some(passed) = self.guard.as_mut().and_then(Guard::poll) {
                self.pass(passed);
                continue;
            }
            let Some(session) = self.stuck.pop() else { return };
            self.sessions.remove(&session);
            self.endpoint.handle_event(self.now(), Event::Ended { session, failure: Failure::Closed });
        }
    }

    /// Passes an event of the guard on.
    fn pass(&mut self, passed: Passed) {
        match passed {
            Passed::Send { peer, datagram } => self.send(peer, &datagram),
            Passed::Datagram { peer, datagram } => self.endpoint.handle_datagram(self.now(), peer, &datagram),
            Passed::Left { peer } => self.endpoint.handle_event(self.now(), Event::Left { peer }),
        }
    }

    fn send(&self, peer: PeerId, datagram: &[u8]) {
        if let Some(socket) = self.sockets.get(peer.socket) {
            // A datagram without room is lost as one may be in the network.
            let _ = socket.try_send_to(datagram, peer.at);
        }
    }

    fn carry_out(&mut self, action: Action) {
        let (session, command) = match action {
            Action::Send { peer, datagram } => {
                match &mut self.guard {
                    Some(guard) => guard.send(peer, &datagram),
                    None => self.send(peer, &datagram),
                }
                return;
            }
            Action::Open { session, peer, mut credentials } => {
                let (sender, commands) = mpsc::channel(MAX_COMMANDS);
                self.sessions.insert(session, sender);
                if credentials.user_name.is_none() {
                    let key = credentials.password.as_deref();
                    credentials.user_name = key.and_then(|key| self.gateway.user_of_key(key));
                }
                let user_name = credentials.user_name.clone();
                let identity = self.guard.as_ref().and_then(|guard| guard.identity(peer));
                let caller = Caller { listener: self.door.listener, peer: peer.at, user_name, identity };
                let (gateway, events, fetches) = (Arc::clone(&self.gateway), self.tell.clone(), self.fetches.clone());
                let max_packet = u32::try_from(self.door.settings.max_packet()).unwrap_or(u32::MAX);
                let window = self.door.settings.window();
                tokio::spawn(session::run(Start {
                    gateway,
                    caller,
                    credentials,
                    session,
                    max_packet,
                    window,
                    commands,
                    events,
                    fetches,
                }));
                return;
            }
            Action::Close { session } => {
                self.sessions.remove(&session);
                return;
            }
            Action::Publish { session, job, message } => (session, Command::Publish { job, message }),
            Action::Subscribe { session, job, subscription, filter, qos, retained } => {
                (session, Command::Subscribe { job, subscription, filter, qos, retained })
            }
            Action::Unsubscribe { session, filter } => (session, Command::Unsubscribe { filter }),
            Action::Acknowledge { session, delivery } => (session, Command::Acknowledge { delivery }),
            Action::Read { session, job, topic } => (session, Command::Read { job, topic }),
        };
        let Some(sender) = self.sessions.get(&session) else { return };
        if sender.try_send(command).is_err() {
            self.stuck.push(session);
        }
    }
}
