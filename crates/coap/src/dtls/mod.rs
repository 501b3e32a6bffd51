//! DTLS 1.2 with pre-shared keys [RFC 6347, RFC 4279] between the sockets of a listener and its endpoint, without I/O.
//!
//! A client with a finished handshake has an *association*. It has proven its address by then: the handshake begins
//! with a cookie. A client that comes again from the same address keeps its association until its new handshake has
//! ended, so that a forged datagram ends none [RFC 6347, 4.2.8].

mod keys;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dimpl::{Config, Output, PskResolver};

pub use self::keys::{Keys, KeysError};
use crate::endpoint::PeerId;

/// Handshakes at once; a further one takes the place of the oldest. Each holds some KiB.
const MAX_HANDSHAKES: usize = 256;
/// Limit of associations of a listener. A further one replaces the association with the oldest last datagram.
const MAX_ASSOCIATIONS: usize = 4_096;
/// Longest datagram that a handshake sends, bytes.
const MTU: usize = 1_200;
/// Room for a datagram, bytes: a block of 1,024 bytes with its options fits.
const BUFFER: usize = 2_048;
/// Bytes of the header of a record [RFC 6347, 4.1].
const HEADER: usize = 13;
/// The content type of a handshake record.
const HANDSHAKE: u8 = 22;
/// The type of a `ClientHello` within it.
const CLIENT_HELLO: u8 = 1;

/// An event of the clients, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// Send this datagram.
    Send { peer: PeerId, datagram: Vec<u8> },
    /// A client has sent this datagram.
    Datagram { peer: PeerId, datagram: Vec<u8> },
    /// The association of a client has ended, or another one begins: it may be another client.
    Left { peer: PeerId },
}

/// Finds keys, and notes the identity that had the last one. A handshake asks while it is given a datagram.
struct Asked {
    keys: Arc<Keys>,
    last: Mutex<Option<String>>,
}

impl Asked {
    /// The identity that was asked for since the last call, if it has a key.
    fn take(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl PskResolver for Asked {
    fn resolve(&self, identity: &[u8]) -> Option<Vec<u8>> {
        let identity = std::str::from_utf8(identity).ok()?;
        let key = self.keys.find(identity)?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity.to_owned());
        Some(key)
    }
}

/// A handshake or an association.
struct Line {
    dtls: dimpl::Dtls,
    /// The client's claimed identity, if there is a key. Once the line is up, it has shown the key.
    identity: Option<String>,
    due: Option<Instant>,
}

/// The events of a line.
#[derive(Default)]
struct Done {
    datagrams: usize,
    connected: bool,
    over: bool,
}

impl Line {
    fn new(config: &Arc<Config>, now: Instant) -> Self {
        Self { dtls: dimpl::Dtls::new_12_psk(Arc::clone(config), now), identity: None, due: None }
    }

    /// Takes its output.
    fn drain(&mut self, peer: PeerId, buffer: &mut Vec<u8>, passed: &mut VecDeque<Passed>) -> Done {
        let mut done = Done::default();
        loop {
            match self.dtls.poll_output(buffer) {
                Output::Packet(bytes) => passed.push_back(Passed::Send { peer, datagram: bytes.to_vec() }),
                Output::ApplicationData(bytes) => {
                    done.datagrams += 1;
                    passed.push_back(Passed::Datagram { peer, datagram: bytes.to_vec() });
                }
                Output::Connected => done.connected = true,
                Output::CloseNotify => done.over = true,
                Output::BufferTooSmall { needed } => {
                    let larger = needed.max(buffer.len() + 1);
                    buffer.resize(larger, 0);
                }
                Output::Timeout(at) => {
                    self.due = Some(at);
                    return done;
                }
                _ => {}
            }
        }
    }
}

/// The lines of a client.
#[derive(Default)]
struct Client {
    association: Option<Line>,
    handshake: Option<Line>,
    /// Its turn among associations, and among handshakes.
    heard: u64,
    begun: u64,
    due: Option<Instant>,
}

/// The guard of a listener.
pub(crate) struct Guard {
    asked: Arc<Asked>,
    /// Nothing where the library refuses the settings: then no handshake begins.
    config: Option<Arc<Config>>,
    clients: HashMap<PeerId, Client>,
    /// Associations; the first was silent for longest.
    associations: BTreeSet<(u64, PeerId)>,
    /// Handshakes, oldest first.
    handshakes: BTreeSet<(u64, PeerId)>,
    timers: BTreeSet<(Instant, PeerId)>,
    passed: VecDeque<Passed>,
    buffer: Vec<u8>,
    turn: u64,
    failed: u64,
}

impl Guard {
    pub(crate) fn new(keys: &Arc<Keys>) -> Self {
        let asked = Arc::new(Asked { keys: Arc::clone(keys), last: Mutex::default() });
        let resolver: Arc<dyn PskResolver> = Arc::clone(&asked) as Arc<dyn PskResolver>;
        // Its settings are constant, and the tests use them.
        let config = Config::builder().mtu(MTU).with_psk_server(None, resolver).build();
        let config = config.inspect_err(|error| tracing::error!(%error, "DTLS is not served")).ok();
        Self {
            asked,
            config: config.map(Arc::new),
            clients: HashMap::new(),
            associations: BTreeSet::new(),
            handshakes: BTreeSet::new(),
            timers: BTreeSet::new(),
            passed: VecDeque::new(),
            buffer: vec![0; BUFFER],
            turn: 0,
            failed: 0,
        }
    }

    /// The next event.
    pub(crate) fn poll(&mut self) -> Option<Passed> {
        self.passed.pop_front()
    }

    /// The identity of a client by its key.
    pub(crate) fn identity(&self, peer: PeerId) -> Option<String> {
        self.clients.get(&peer)?.association.as_ref()?.identity.clone()
    }

    /// Handshakes that have failed: an identity without a key, a wrong key, or silence.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// When to call [`Self::handle_deadline`].
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A datagram has come.
    pub(crate) fn handle_datagram(&mut self, now: Instant, peer: PeerId, datagram: &[u8]) {
        let is_hello = is_client_hello(datagram);
        let known = self.clients.get(&peer);
        if is_hello && known.is_none_or(|it| it.handshake.is_none()) {
            self.begin(now, peer);
        }
        let Some(client) = self.clients.get_mut(&peer) else { return };
        // A client ends its handshake with records of the new keys, which its association cannot read.
        let mut is_taken = false;
        if !is_hello && let Some(line) = &mut client.association {
            let result = line.dtls.handle_timeout(now).and_then(|()| line.dtls.handle_packet(datagram));
            let done = line.drain(peer, &mut self.buffer, &mut self.passed);
            is_taken = done.datagrams > 0;
            if is_taken {
                self.associations.remove(&(client.heard, peer));
                self.turn += 1;
                client.heard = self.turn;
                self.associations.insert((client.heard, peer));
            }
            if done.over || result.is_err() {
                is_taken = true;
                self.end_association(peer);
            }
        }
        if !is_taken {
            self.shake(now, peer, Some(datagram));
        }
        self.note_deadline(peer);
    }

    /// Begins a handshake; the oldest ends where there are too many.
    fn begin(&mut self, now: Instant, peer: PeerId) {
        if self.handshakes.len() >= MAX_HANDSHAKES
            && let Some((_, oldest)) = self.handshakes.first().copied()
        {
            self.end_handshake(oldest);
            self.note_deadline(oldest);
        }
        let Some(config) = &self.config else { return };
        let line = Line::new(config, now);
        self.turn += 1;
        let client = self.clients.entry(peer).or_default();
        (client.handshake, client.begun) = (Some(line), self.turn);
        self.handshakes.insert((self.turn, peer));
    }

    /// Gives a handshake the time, and a datagram.
    fn shake(&mut self, now: Instant, peer: PeerId, datagram: Option<&[u8]>) {
        let Some(client) = self.clients.get_mut(&peer) else { return };
        let Some(line) = &mut client.handshake else { return };
        let read = |line: &mut Line| datagram.map_or(Ok(()), |datagram| line.dtls.handle_packet(datagram));
        self.asked.take();
        let result = line.dtls.handle_timeout(now).and_then(|()| read(line));
        line.identity = self.asked.take().or(line.identity.take());
        let mut passed = VecDeque::new();
        let done = line.drain(peer, &mut self.buffer, &mut passed);
        if done.connected {
            self.handshakes.remove(&(client.begun, peer));
            let line = client.handshake.take();
            self.end_association(peer);
            self.make_room();
            self.turn += 1;
            let client = self.clients.entry(peer).or_default();
            (client.association, client.heard) = (line, self.turn);
            self.associations.insert((self.turn, peer));
        }
        self.passed.append(&mut passed);
        if result.is_err() || done.over {
            if done.connected {
                self.end_association(peer);
            } else {
                self.end_handshake(peer);
            }
        }
    }

    /// Makes a place for one more association.
    fn make_room(&mut self) {
        if self.associations.len() >= MAX_ASSOCIATIONS
            && let Some((_, silent)) = self.associations.first().copied()
        {
            self.end_association(silent);
            self.note_deadline(silent);
        }
    }

    /// Sends a datagram to a client with an association.
    pub(crate) fn send(&mut self, peer: PeerId, datagram: &[u8]) {
        let Some(line) = self.clients.get_mut(&peer).and_then(|it| it.association.as_mut()) else { return };
        let result = line.dtls.send_application_data(datagram);
        let done = line.drain(peer, &mut self.buffer, &mut self.passed);
        if result.is_err() || done.over {
            self.end_association(peer);
        }
        self.note_deadline(peer);
    }

    /// The time of a deadline has come.
    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        while let Some((_, peer)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            if let Some(line) = self.clients.get_mut(&peer).and_then(|it| it.association.as_mut()) {
                let result = line.dtls.handle_timeout(now);
                let done = line.drain(peer, &mut self.buffer, &mut self.passed);
                // A deadline that does not move would be handled for ever.
                if result.is_err() || done.over || line.due.is_some_and(|due| due <= now) {
                    self.end_association(peer);
                }
            }
            self.shake(now, peer, None);
            let handshake = self.clients.get(&peer).and_then(|it| it.handshake.as_ref());
            if handshake.is_some_and(|line| line.due.is_some_and(|due| due <= now)) {
                self.end_handshake(peer);
            }
            self.note_deadline(peer);
        }
    }

    fn end_handshake(&mut self, peer: PeerId) {
        let Some(client) = self.clients.get_mut(&peer) else { return };
        if client.handshake.take().is_some() {
            self.handshakes.remove(&(client.begun, peer));
            self.failed += 1;
        }
    }

    fn end_association(&mut self, peer: PeerId) {
        let Some(client) = self.clients.get_mut(&peer) else { return };
        if client.association.take().is_some() {
            self.associations.remove(&(client.heard, peer));
            self.passed.push_back(Passed::Left { peer });
        }
    }

    /// Notes the next deadline of a client, or forgets it when it has no lines.
    fn note_deadline(&mut self, peer: PeerId) {
        let Some(client) = self.clients.get_mut(&peer) else { return };
        if let Some(due) = client.due.take() {
            self.timers.remove(&(due, peer));
        }
        if client.association.is_none() && client.handshake.is_none() {
            self.clients.remove(&peer);
            return;
        }
        let lines = client.association.iter().chain(&client.handshake);
        client.due = lines.filter_map(|line| line.due).min();
        self.timers.extend(client.due.map(|due| (due, peer)));
    }
}

/// Whether a datagram begins a handshake. Such a record is not protected.
fn is_client_hello(datagram: &[u8]) -> bool {
    let epoch_is_0 = datagram.get(3..5) == Some(&[0, 0]);
    datagram.first() == Some(&HANDSHAKE) && epoch_is_0 && datagram.get(HEADER) == Some(&CLIENT_HELLO)
}
