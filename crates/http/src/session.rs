//! The session of an HTTP client at the broker.

use std::io;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_client::{
    Delivery, DisconnectRequest, Event, Message, Publish, PublishToken, QoS, ReasonCode, RetainHandling,
    SubscribeRequest, SubscriptionOptions, TopicFilterBuf,
};
use tidegate_connections::Busy;
use tidegate_visitor::{Credentials, Failure, Line, Outcome, new_client_id, options};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::seat::{SharedSeat, Watch, closed};
use crate::{Caller, Entry, Gateway};

/// Messages that the broker sends to a subscriber without an acknowledgement.
const WINDOW: NonZeroU16 = NonZeroU16::new(64).unwrap();
/// How long the broker may take to answer DISCONNECT.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the broker may take to read acknowledgements.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

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
    line: Line,
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
        let draw = move || kept.clone().unwrap_or_else(|| new_client_id("http"));
        // Its result leaves the gateway also when nothing waits for it any more.
        let connecting = tokio::task::spawn_blocking(move || {
            let Entry { client_id, stream, seat } = gateway.connect(&caller, &draw)?;
            let seat = Arc::new(SharedSeat::new(seat));
            let stay = Stay { gateway, client_id, seat, _permit: permit };
            stream.set_nonblocking(true)?;
            Ok((stay, stream))
        });
        let (stay, stream) = connecting.await.map_err(|_| Failure::Closed)?.map_err(broken)?;
        let mut options = options(&stay.client_id, credentials, WINDOW);
        options.clean_start = !is_kept;
        options.properties.session_expiry_interval = expiry;
        let mut session = Self { stay, line: Line::open(stream, options)?, watch: None, is_resumed: false };
        loop {
            match session.next().await {
                Event::Connected(connected) => {
                    request.prove();
                    session.is_resumed = connected.session_present;
                    if !is_kept {
                        session.stay.seat.pass();
                    }
                    session.watch =
                        Some(Watch::begin(Arc::clone(session.line.stream()), Arc::clone(&session.stay.seat)));
                    return Ok(session);
                }
                Event::Disconnected(why) => return Err(why.into()),
                _ => {}
            }
        }
    }

    pub(crate) fn client_id(&self) -> &str {
        self.line.client.client_id()
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
        if self.stay.seat.resume() { Ok(()) } else { Err(Failure::Refused(Outcome::of_quota())) }
    }

    /// Whether the broker has ended the connection. Then [`Session::next`] has nothing more.
    pub(crate) fn is_over(&self) -> bool {
        self.line.is_over()
    }

    /// Whether the broker had the session before this connection.
    pub(crate) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Whether the broker has not ended the connection.
    pub(crate) fn is_alive(&mut self) -> bool {
        while self.line.read() {}
        while self.try_next().is_some() {}
        !self.line.is_over() && self.line.client.is_connected()
    }

    /// The next event that is there already.
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        self.line.try_next()
    }

    /// Sends the pending packets, as far as the broker takes it now.
    pub(crate) fn flush(&mut self) {
        while self.line.write() {}
    }

    /// The next event. While `reads` is false, nothing is read from the broker; then the only news is `None`, the end
    /// of the connection. It may be dropped at any time, and nothing is lost.
    pub(crate) async fn next_if(&mut self, reads: bool) -> Option<Event> {
        if reads {
            return Some(self.next().await);
        }
        loop {
            while self.line.write() {}
            let writes = !self.line.client.output().is_empty();
            tokio::select! {
                () = closed(self.line.stream()) => {
                    self.line.close();
                    return None;
                }
                _ = self.line.stream().writable(), if writes => {}
            }
        }
    }

    /// Writes the pending packets; whether the broker can read all of them.
    pub(crate) async fn hand_over(&mut self) -> bool {
        let written = async {
            while self.line.client.is_connected() && !self.line.client.output().is_empty() {
                if !self.line.write() {
                    tokio::select! {
                        () = closed(self.line.stream()) => return,
                        _ = self.line.stream().writable() => {}
                    }
                }
            }
        };
        let in_time = tokio::time::timeout(READ_TIMEOUT, written).await.is_ok();
        let is_closed = tokio::select! {
            biased;
            () = closed(self.line.stream()) => true,
            () = std::future::ready(()) => false,
        };
        in_time
            && !is_closed
            && !self.line.is_over()
            && self.line.client.is_connected()
            && self.line.client.output().is_empty()
    }

    /// Ends the connection. With `forget` the broker forgets the session, too. Whether the broker has taken the packet
    /// that says so.
    pub(crate) async fn leave(mut self, forget: bool) -> bool {
        let request =
            DisconnectRequest { session_expiry_interval: forget.then_some(0), ..DisconnectRequest::default() };
        self.stay.seat.leave();
        if self.line.is_over() || self.line.client.disconnect(Instant::now(), &request).is_err() {
            return false;
        }
        // The broker closes the socket when it has carried the packet out.
        matches!(tokio::time::timeout(LEAVE_TIMEOUT, self.line.until_closed()).await, Ok(Ok(())))
    }

    /// Works until the client has an event. It may be dropped at any time, and nothing is lost.
    pub(crate) async fn next(&mut self) -> Event {
        self.line.next().await
    }

    /// Publishes messages, and returns the broker's answers in their order. A message of QoS 0 is answered when it was
    /// written.
    pub(crate) async fn publish(&mut self, messages: Vec<Publish>) -> Result<Vec<Result<Outcome, Failure>>, Failure> {
        let mut waiting: Vec<(usize, PublishToken)> = Vec::new();
        let mut answers: Vec<Option<Result<Outcome, Failure>>> = Vec::new();
        for message in messages {
            match self.line.client.publish(Instant::now(), message) {
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
        let sent = self.line.client.subscribe(Instant::now(), &request);
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
        self.line.client.acknowledge(Instant::now(), delivery);
    }
}
