//! The session of an HTTP client at the broker.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_client::{
    Acknowledgement, Client, Delivery, DisconnectRequest, Disconnected, Dismissal, Event, Message, Options, Publish,
    PublishError, PublishToken, QoS, ReasonCode, RetainHandling, SubscribeRequest, SubscriptionOptions, TopicFilterBuf,
    Version,
};
use tidegate_connections::Busy;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::seat::{SharedSeat, Watch, closed};
use crate::{Caller, Entry, Gateway};

/// Messages that the broker sends to a subscriber without an acknowledgement.
const WINDOW: u16 = 64;
/// Bytes that are read at once.
const READ_SIZE: usize = 16 << 10;
/// How long the broker may take to answer CONNECT; it asks authentication services meanwhile.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the broker may take to answer DISCONNECT.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the broker may take to read acknowledgements.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The credentials of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
}

/// Why the broker does not carry a request out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It has refused CONNECT with a reason.
    Refused { code: ReasonCode, why: Option<String> },
    /// It has ended the connection with a reason.
    Ended { code: ReasonCode, why: Option<String> },
    /// It has closed the connection without a word.
    Closed,
    /// The request cannot be sent to this broker.
    Invalid(String),
    /// The listener has as many sessions as it may have.
    TooMany,
}

impl From<Disconnected> for Failure {
    fn from(why: Disconnected) -> Self {
        match why {
            Disconnected::Refused(it) => {
                let Dismissal { reason_code: code, reason_string: why, .. } = *it;
                Self::Refused { code, why }
            }
            Disconnected::ByServer(it) => {
                let Dismissal { reason_code: code, reason_string: why, .. } = *it;
                Self::Ended { code, why }
            }
            _ => Self::Closed,
        }
    }
}

impl Failure {
    /// The tenant has as many connections as it may have: the broker's refusal of a CONNECT, in the same words.
    pub(crate) fn of_quota() -> Self {
        let why = "the tenant's limit of connections is reached".to_owned();
        Self::Refused { code: ReasonCode::QuotaExceeded, why: Some(why) }
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// The broker's answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: ReasonCode,
    pub(crate) why: Option<String>,
}

/// How long a session lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// As long as its connection.
    Connection,
    /// The broker keeps it, with its messages, while it has no connection.
    Kept {
        /// Its client id.
        client_id: String,
        /// For how long, seconds.
        expiry: u32,
    },
}

/// The parameters of a session.
pub(crate) struct Opening {
    pub(crate) gateway: Arc<dyn Gateway>,
    pub(crate) caller: Caller,
    pub(crate) credentials: Credentials,
    pub(crate) term: Term,
    /// Bounds the sessions of the listener.
    pub(crate) sessions: Arc<Semaphore>,
    /// Keeps the client's connection open while its session is opened.
    pub(crate) request: Busy,
}

/// A connected client.
pub(crate) struct Session {
    /// Says that the client has left, when it is dropped: before the socket, whose end frees the place of the
    /// connection.
    stay: Stay,
    client: Client,
    stream: Arc<UnixStream>,
    buffer: Vec<u8>,
    over: bool,
    /// Frees the place in the quotas when the broker ends the connection.
    watch: Option<Watch>,
    /// Whether the broker had the session before.
    is_resumed: bool,
}

/// The client id of a client that the gateway knows.
struct Stay {
    gateway: Arc<dyn Gateway>,
    client_id: String,
    /// The connection in the quotas of its tenant.
    seat: Arc<SharedSeat>,
    /// The place of the session at the listener.
    _permit: OwnedSemaphorePermit,
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.seat.leave();
        self.gateway.left(&self.client_id);
    }
}

/// A client id that no other client can guess: its keys are random, and so no client takes the session over.
fn new_client_id() -> String {
    let keys = RandomState::new();
    format!("http-{:016x}{:016x}", keys.hash_one(0), keys.hash_one(1))
}

impl Session {
    /// Connects to the broker.
    pub(crate) async fn open(opening: Opening) -> Result<Self, Failure> {
        let Opening { gateway, caller, credentials, term, sessions, request } = opening;
        let permit = sessions.try_acquire_owned().map_err(|_| Failure::TooMany)?;
        let broken = |error: io::Error| Failure::Invalid(error.to_string());
        let (kept, expiry) = match term {
            Term::Connection => (None, None),
            Term::Kept { client_id, expiry } => (Some(client_id), Some(expiry)),
        };
        let is_kept = kept.is_some();
        let draw = move || kept.clone().unwrap_or_else(new_client_id);
        // Its result leaves the gateway also when nothing waits for it any more.
        let connecting = tokio::task::spawn_blocking(move || {
            let Entry { client_id, stream, seat } = gateway.connect(&caller, &draw)?;
            let seat = Arc::new(SharedSeat::new(seat));
            let stay = Stay { gateway, client_id, seat, _permit: permit };
            stream.set_nonblocking(true)?;
            Ok((stay, stream))
        });
        let (stay, stream) = connecting.await.map_err(|_| Failure::Closed)?.map_err(broken)?;
        let stream = Arc::new(UnixStream::from_std(stream).map_err(broken)?);
        let mut options = Options::new(stay.client_id.clone());
        options.version = Version::V5;
        options.clean_start = !is_kept;
        options.properties.session_expiry_interval = expiry;
        // The HTTP server ends silent connections, so the session needs no keep alive.
        options.keep_alive = 0;
        options.connect_timeout = CONNECT_TIMEOUT;
        options.username = credentials.user_name;
        options.password = credentials.password;
        options.acknowledgement = Acknowledgement::Manual;
        options.properties.receive_maximum = NonZeroU16::new(WINDOW);
        let client = Client::new(options, Instant::now());
        let mut session =
            Self { stay, client, stream, buffer: vec![0; READ_SIZE], over: false, watch: None, is_resumed: false };
        session.client.open(Instant::now()).map_err(|error| Failure::Invalid(error.to_string()))?;
        loop {
            match session.next().await {
                Event::Connected(connected) => {
                    request.prove();
                    session.is_resumed = connected.session_present;
                    if !is_kept {
                        session.stay.seat.pass();
                    }
                    session.watch = Some(Watch::begin(Arc::clone(&session.stream), Arc::clone(&session.stay.seat)));
                    return Ok(session);
                }
                Event::Disconnected(why) => return Err(why.into()),
                _ => {}
            }
        }
    }

    pub(crate) fn client_id(&self) -> &str {
        self.client.client_id()
    }

    /// The client waits for nothing: the connection does not count for the quota of its tenant.
    pub(crate) fn rest(&mut self) {
        self.stay.seat.rest();
    }

    /// The client has a request.
    ///
    /// # Errors
    /// When the tenant has as many connections as it may have.
    pub(crate) fn resume(&mut self) -> Result<(), Failure> {
        if self.stay.seat.resume() { Ok(()) } else { Err(Failure::of_quota()) }
    }

    /// Whether the broker has ended the connection. Then [`Session::next`] has nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the broker had the session before this connection.
    pub(crate) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Whether the broker has not ended the connection.
    pub(crate) fn is_alive(&mut self) -> bool {
        while self.read() {}
        while self.try_next().is_some() {}
        !self.over && self.client.is_connected()
    }

    /// The next event that is there already.
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        let event = self.client.poll_event()?;
        self.over |= matches!(event, Event::Disconnected(_));
        Some(event)
    }

    /// Sends the pending packets, as far as the broker takes it now.
    pub(crate) fn flush(&mut self) {
        while self.write() {}
    }

    /// The next event. While `reads` is false, nothing is read from the broker; then the only news is `None`, the end
    /// of the connection. It may be dropped at any time, and nothing is lost.
    pub(crate) async fn next_if(&mut self, reads: bool) -> Option<Event> {
        if reads {
            return Some(self.next().await);
        }
        loop {
            while self.write() {}
            let writes = !self.client.output().is_empty();
            tokio::select! {
                () = closed(&self.stream) => {
                    self.client.handle_closed();
                    self.over = true;
                    return None;
                }
                _ = self.stream.writable(), if writes => {}
            }
        }
    }

    /// Writes the pending packets; whether the broker can read all of them.
    pub(crate) async fn hand_over(&mut self) -> bool {
        let written = async {
            while self.client.is_connected() && !self.client.output().is_empty() {
                if !self.write() {
                    tokio::select! {
                        () = closed(&self.stream) => return,
                        _ = self.stream.writable() => {}
                    }
                }
            }
        };
        let in_time = tokio::time::timeout(READ_TIMEOUT, written).await.is_ok();
        let is_closed = tokio::select! {
            biased;
            () = closed(&self.stream) => true,
            () = std::future::ready(()) => false,
        };
        in_time && !is_closed && !self.over && self.client.is_connected() && self.client.output().is_empty()
    }

    /// Ends the connection. With `forget` the broker forgets the session, too. Whether the broker has taken the packet
    /// that says so.
    pub(crate) async fn leave(mut self, forget: bool) -> bool {
        let request =
            DisconnectRequest { session_expiry_interval: forget.then_some(0), ..DisconnectRequest::default() };
        self.stay.seat.leave();
        if self.over || self.client.disconnect(Instant::now(), &request).is_err() {
            return false;
        }
        // The broker closes the socket when it has carried the packet out.
        matches!(tokio::time::timeout(LEAVE_TIMEOUT, self.until_closed()).await, Ok(Ok(())))
    }

    /// Writes the rest, and waits until the broker closes the socket.
    async fn until_closed(&mut self) -> io::Result<()> {
        while !self.client.output().is_empty() {
            match self.stream.try_write(self.client.output()) {
                Ok(count) => self.client.advance_output(Instant::now(), count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.stream.try_read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.readable().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Works until the client has an event. It may be dropped at any time, and nothing is lost.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            if self.write() || self.read() {
                continue;
            }
            let writes = !self.client.output().is_empty();
            let due = self.client.next_deadline().map(tokio::time::Instant::from_std);
            tokio::select! {
                // An error of the socket shows with the next read.
                _ = self.stream.readable() => {}
                _ = self.stream.writable(), if writes => {}
                () = tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => {
                    self.client.handle_deadline(Instant::now());
                }
            }
        }
    }

    /// Writes once; false when there is nothing to do.
    fn write(&mut self) -> bool {
        if self.over || self.client.output().is_empty() {
            return false;
        }
        match self.stream.try_write(self.client.output()) {
            Ok(count) => self.client.advance_output(Instant::now(), count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => self.client.handle_closed(),
        }
        true
    }

    /// Reads once; false when there is nothing to do.
    fn read(&mut self) -> bool {
        if self.over {
            return false;
        }
        match self.stream.try_read(&mut self.buffer) {
            Ok(0) => {
                self.client.handle_closed();
                self.over = true;
            }
            Ok(count) => self.client.handle_input(Instant::now(), self.buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => {
                self.client.handle_closed();
                self.over = true;
            }
        }
        true
    }

    /// Publishes messages, and returns the broker's answers in their order. A message of QoS 0 is answered when it was
    /// written.
    pub(crate) async fn publish(&mut self, messages: Vec<Publish>) -> Result<Vec<Result<Outcome, Failure>>, Failure> {
        let mut waiting: Vec<(usize, PublishToken)> = Vec::new();
        let mut answers: Vec<Option<Result<Outcome, Failure>>> = Vec::new();
        for message in messages {
            match self.client.publish(Instant::now(), message) {
                Ok(token) => {
                    waiting.push((answers.len(), token));
                    answers.push(None);
                }
                Err(error) => answers.push(Some(Err(error.into()))),
            }
        }
        while !waiting.is_empty() {
            let (token, answer) = match self.next().await {
                Event::Published(it) => (it.token, Ok(Outcome { code: it.reason_code, why: it.reason_string })),
                Event::Undelivered(it) => (it.token, Err(Failure::Invalid(it.cause.to_string()))),
                Event::Disconnected(why) => return Err(why.into()),
                _ => continue,
            };
            if let Some(at) = waiting.iter().position(|(_, other)| *other == token) {
                let (place, _) = waiting.swap_remove(at);
                if let Some(slot) = answers.get_mut(place) {
                    *slot = Some(answer);
                }
            }
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Err(Failure::Closed))).collect())
    }

    /// Subscribes to a filter. Messages may come before the broker's answer.
    pub(crate) async fn subscribe(
        &mut self,
        filter: TopicFilterBuf,
        qos: QoS,
        retained: bool,
    ) -> Result<(Outcome, Vec<Message>), Failure> {
        let retained = if retained { RetainHandling::SendAtSubscribe } else { RetainHandling::DoNotSend };
        let (mut outcomes, early) = self.subscribe_all(vec![filter], qos, retained).await?;
        let outcome = outcomes.pop().unwrap_or(Outcome { code: ReasonCode::UnspecifiedError, why: None });
        Ok((outcome, early))
    }

    /// Subscribes to all filters by one packet, so a session has all of them or none; an outcome for each.
    pub(crate) async fn subscribe_all(
        &mut self,
        filters: Vec<TopicFilterBuf>,
        qos: QoS,
        retain_handling: RetainHandling,
    ) -> Result<(Vec<Outcome>, Vec<Message>), Failure> {
        let options = SubscriptionOptions { qos, no_local: false, retain_as_published: true, retain_handling };
        let subscriptions = filters.into_iter().map(|filter| (filter, options)).collect();
        let request = SubscribeRequest { subscriptions, ..SubscribeRequest::default() };
        let sent = self.client.subscribe(Instant::now(), &request);
        sent.map_err(|error| Failure::Invalid(error.to_string()))?;
        let mut early = Vec::new();
        loop {
            match self.next().await {
                Event::Message(message) => early.push(*message),
                Event::Subscribed(answer) => {
                    let outcome = |code: &ReasonCode| Outcome { code: *code, why: answer.reason_string.clone() };
                    return Ok((answer.reason_codes.iter().map(outcome).collect(), early));
                }
                Event::Disconnected(why) => return Err(why.into()),
                _ => {}
            }
        }
    }

    /// A message has been handed on.
    pub(crate) fn acknowledge(&mut self, delivery: Delivery) {
        self.client.acknowledge(Instant::now(), delivery);
    }
}
