//! A listener without I/O: datagrams, events of the broker and the time go in, and [`Action`]s come out.
//!
//! `requests` reads requests and makes jobs of them, `sessions` has the sessions at the broker, `uploads` puts bodies in
//! blocks together, `observing` has the observers and their notifications, `waiting` bounds the messages that wait for
//! them, `sending` answers and repeats, `sweeping` ends overdue work, and `peer` has the state of a client.

mod observation;
mod observing;
mod peer;
mod requests;
mod sending;
mod sessions;
mod sweeping;
#[cfg(test)]
mod tests;
mod uploads;
mod waiting;
mod wire;

use std::collections::HashMap;
use std::hash::RandomState;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use tidegate_client::{Publish, QoS, TopicFilterBuf};

use crate::block::Block;
use crate::counters::Counters;
use crate::fields::Shown;
use crate::limits::{FIELDS, MAX_WINDOW, Millis, SWEEP, WAITING_PART_OF_PEER};
use crate::message::{Code, Kind, Token};
use crate::{Credentials, Failure, Outcome, ReadError};
use sessions::Session;
use wire::Wire;

/// A client: its address, and the socket at which it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId {
    /// The number of the socket.
    pub socket: usize,
    /// The address.
    pub at: SocketAddr,
}

/// A session at the broker: a client with credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A request that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// An action that the owner of an endpoint has to carry out.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send a datagram.
    Send {
        /// To this client.
        peer: PeerId,
        /// The bytes.
        datagram: Vec<u8>,
    },
    /// Connect a session; [`Event::Opened`] or [`Event::Ended`] answers.
    Open {
        /// The session.
        session: SessionId,
        /// Its client.
        peer: PeerId,
        /// The identity that it claims.
        credentials: Credentials,
    },
    /// End a session. No event follows.
    Close {
        /// The session.
        session: SessionId,
    },
    /// Publish; [`Event::Done`] answers.
    Publish {
        /// The session.
        session: SessionId,
        /// The request.
        job: JobId,
        /// The message.
        message: Box<Publish>,
    },
    /// Subscribe; [`Event::Done`] answers.
    Subscribe {
        /// The session.
        session: SessionId,
        /// The request; `None` when nothing waits for the answer.
        job: Option<JobId>,
        /// The number that messages of the subscription have.
        subscription: u32,
        /// The filter.
        filter: TopicFilterBuf,
        /// The highest QoS.
        qos: QoS,
        /// Whether retained messages come first.
        retained: bool,
    },
    /// End a subscription.
    Unsubscribe {
        /// The session.
        session: SessionId,
        /// The filter.
        filter: TopicFilterBuf,
    },
    /// Acknowledge a message to the broker.
    Acknowledge {
        /// The session.
        session: SessionId,
        /// The number of [`Event::Message`].
        delivery: u64,
    },
    /// Read a retained message; [`Event::Read`] answers.
    Read {
        /// The session.
        session: SessionId,
        /// The request.
        job: JobId,
        /// The topic.
        topic: String,
    },
}

/// An event of the broker or of the transport.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It has let a session in.
    Opened {
        /// The session.
        session: SessionId,
    },
    /// A session is over, or is not let in.
    Ended {
        /// The session.
        session: SessionId,
        /// Why.
        failure: Failure,
    },
    /// It has answered a message or a subscription.
    Done {
        /// The request.
        job: JobId,
        /// The answer.
        outcome: Result<Outcome, Failure>,
    },
    /// It has read a retained message.
    Read {
        /// The request.
        job: JobId,
        /// The message.
        outcome: Result<Option<Box<Shown>>, ReadError>,
    },
    /// A message for observers.
    Message {
        /// The session.
        session: SessionId,
        /// The number for its acknowledgement; `None` at QoS 0.
        delivery: Option<u64>,
        /// The numbers of the subscriptions.
        subscriptions: Vec<u32>,
        /// The message.
        message: Box<Shown>,
    },
    /// Another client comes from the address of a client, or none: its sessions end, and it gets no more datagrams.
    Left {
        /// The client.
        peer: PeerId,
    },
}

/// The settings of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sessions at once. From half of it on a client has to prove its address first.
    pub max_sessions: usize,
    /// Longest body of a request, bytes.
    pub max_body: usize,
    /// Bytes of all messages that wait for observers, at most [`MAX_WAITING_BYTES`](crate::MAX_WAITING_BYTES).
    pub max_waiting_bytes: usize,
    /// Whether each client has proven its address before its first request: by a handshake of DTLS.
    pub are_proven: bool,
}

impl Settings {
    /// Longest packet that a session takes from the broker, bytes.
    pub(crate) const fn max_packet(&self) -> usize {
        self.max_body.saturating_add(FIELDS)
    }

    /// Bytes of the messages that wait for the observers of a client, at most.
    pub(crate) fn waiting_of_peer(&self) -> usize {
        (self.max_waiting_bytes / WAITING_PART_OF_PEER).max(self.longest_message())
    }

    /// Bytes of the messages that wait for all observers, at most.
    pub(crate) fn waiting_of_all(&self) -> usize {
        self.max_waiting_bytes.max(self.longest_message())
    }

    /// Messages that the broker may send to a session before it acknowledges one. The room of the client bounds them.
    pub(crate) fn window(&self) -> NonZeroU16 {
        let messages = (self.waiting_of_peer() / self.longest_message()).clamp(1, MAX_WINDOW);
        u16::try_from(messages).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
    }

    /// Bytes that the longest message takes up in memory, if it has few user properties: each of these has a head.
    const fn longest_message(&self) -> usize {
        self.max_packet().saturating_add(size_of::<Shown>())
    }
}

/// A request that is under way.
#[derive(Debug)]
struct Job {
    peer: PeerId,
    session: SessionId,
    reply: Reply,
    begun: Millis,
    aim: Aim,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug)]
struct Reply {
    kind: Kind,
    method: Code,
    id: u16,
    token: Token,
    /// Whether the request was acknowledged already.
    acknowledged: bool,
}

/// The aim of a request.
#[derive(Debug)]
enum Aim {
    Put(Box<uploads::Put>),
    /// The broker has the message; `Some` for the last block of a body.
    Publish(Option<Block>),
    Read(Reading),
    /// Wants to observe.
    Observe(Box<observing::Wish>),
    /// The broker has the subscription.
    Subscribe(observation::ObservationId, Reading),
    /// The first answer of an observation is being read.
    First(observation::ObservationId, Reading),
}

/// A representation that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    topic: String,
    event: bool,
    etags: Vec<Vec<u8>>,
    accept: Option<u16>,
    block: Option<Block>,
}

/// An action that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A request is acknowledged, since its answer takes long.
    Acknowledge(JobId),
    /// A confirmable message is sent again.
    Resend(PeerId, u16),
    /// Overdue and idle state ends.
    Sweep,
}

/// A listener without I/O.
#[derive(Debug)]
pub struct Endpoint {
    settings: Settings,
    wire: Wire,
    sessions: HashMap<SessionId, Session>,
    jobs: HashMap<JobId, Job>,
}

impl Endpoint {
    /// A listener without clients. `keys` are random.
    pub fn new(settings: Settings, keys: RandomState) -> Self {
        Self { settings, wire: Wire::new(keys, settings), sessions: HashMap::new(), jobs: HashMap::new() }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.wire.actions.pop_front()
    }

    /// When to call [`Endpoint::handle_deadline`]; `None` while nothing is remembered.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.wire.timers.first().map(|(at, _)| *at)
    }

    /// The time has come.
    pub fn handle_deadline(&mut self, now: Millis) {
        self.wire.now = now;
        while let Some((at, timer)) = self.wire.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.wire.timers.remove(&(at, timer));
            match timer {
                Timer::Acknowledge(job) => self.acknowledge(job),
                Timer::Resend(peer, id) => {
                    if self.wire.send_again(peer, id) {
                        self.lose_observer(peer);
                    }
                }
                Timer::Sweep => {
                    self.sweep();
                    self.wire.sweeps =
                        !self.wire.peers.is_empty() || !self.sessions.is_empty() || !self.jobs.is_empty();
                    if self.wire.sweeps {
                        self.wire.timers.insert((now + SWEEP, Timer::Sweep));
                    }
                }
            }
        }
    }

    /// The broker or the transport has done something.
    pub fn handle_event(&mut self, now: Millis, event: Event) {
        self.wire.now = now;
        match event {
            Event::Opened { session } => self.opened(session),
            Event::Ended { session, failure } => self.ended(session, &failure),
            Event::Done { job, outcome } => self.done(job, &outcome),
            Event::Read { job, outcome } => self.read(job, outcome),
            Event::Message { session, delivery, subscriptions, message } => {
                self.notify(session, delivery, &subscriptions, *message);
            }
            Event::Left { peer } => {
                let sessions = self.wire.peers.get(&peer).map(|known| known.sessions.clone()).unwrap_or_default();
                for session in sessions {
                    self.close(session, &Failure::Closed);
                }
                self.wire.leave(peer);
            }
        }
    }

    /// The counters of the listener, and its present clients and sessions.
    pub fn counters(&self) -> Counters {
        let (clients, sessions) = (self.wire.peers.len() as u64, self.sessions.len() as u64);
        Counters { clients, sessions, ..self.wire.counters }
    }

    /// Whether requests are under way.
    pub fn is_busy(&self) -> bool {
        !self.jobs.is_empty()
    }
}
