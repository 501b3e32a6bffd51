//! The session of a pipeline at its broker, and the core, on one thread.

use std::error::Error;
use std::fmt::Display;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_client::net::{Driver, Step};
use tidegate_client::{
    Acknowledgement, Delivery, DisconnectRequest, Disconnected, Event, Options, QoS, RequestAnswer, RetainHandling,
    SubscribeRequest, SubscriptionOptions, TopicFilterBuf, Version,
};

use super::SourceSettings;
use super::status::Snapshot;
use crate::core::{Action, Core, News, Outcome};
use crate::message::{Message, ORIGIN_PROPERTY, Origin};
use crate::record::Record;
use crate::time::wall_clock;

/// The shortest and the longest time between two attempts to connect; each failure doubles it.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// How long to wait when the system cannot wait for sockets.
const SYSTEM_PAUSE: Duration = Duration::from_secs(1);
/// Seconds of silence after which the hub asks the broker whether it lives.
const KEEP_ALIVE: u16 = 60;
/// Time between two lines of the log about messages that are not delivered.
const FAILURES_TOLD_EVERY: Duration = Duration::from_secs(10);
/// How long batches that are under way are waited for at the end.
const LAST_BATCHES: Duration = Duration::from_secs(5);

/// What others ask of a pipeline.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) paused: AtomicBool,
    pub(super) stop: AtomicBool,
}

/// The parts of a source.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) settings: SourceSettings,
    pub(super) from: Vec<TopicFilterBuf>,
    /// Names of the sinks in the order of `to`, and that of dead letters.
    pub(super) sinks: Vec<String>,
    pub(super) core: Core<Delivery>,
    pub(super) driver: Driver,
    pub(super) lanes: Vec<Sender<Vec<Arc<Record>>>>,
    pub(super) outcomes: Receiver<(usize, Outcome)>,
    pub(super) snapshot: Arc<Mutex<Snapshot>>,
    pub(super) orders: Arc<Orders>,
    /// Receives one notification, when the session has its subscriptions.
    pub(super) subscribed: Option<Sender<()>>,
}

/// A source.
pub(super) struct Source {
    parts: Parts,
    begun: Instant,
    /// Begins the ids of messages to which the broker gives none.
    id_prefix: String,
    next_id: u64,
    connect_at: Option<Instant>,
    /// The filters of the last SUBSCRIBE, in its order.
    asked: Vec<TopicFilterBuf>,
    /// Whether the broker has granted all filters.
    is_subscribed: bool,
    /// Whether the broker has granted some filters and refused others.
    is_partial: bool,
    /// When the refused filters are asked for again, on the same connection.
    subscribe_at: Option<Instant>,
    pause: Duration,
    /// Why there is no connection, or no subscription.
    trouble: Option<String>,
    /// Why the pipeline itself has ended the connection.
    left: Option<String>,
    failures_told: Option<Instant>,
    failures_untold: u64,
}

/// The options of a source's client.
pub(super) fn options(settings: &SourceSettings) -> Options {
    let mut options = Options::new(settings.client_id.as_str());
    options.version = Version::V5;
    options.clean_start = false;
    options.keep_alive = KEEP_ALIVE;
    options.username.clone_from(&settings.user_name);
    options.password.clone_from(&settings.password);
    options.acknowledgement = Acknowledgement::Manual;
    options.properties.receive_maximum = NonZeroU16::new(settings.window);
    options.properties.session_expiry_interval = Some(settings.session_expiry);
    options
}

impl Source {
    pub(super) fn new(parts: Parts) -> Self {
        let id_prefix = format!("{}-{:x}", parts.settings.client_id, wall_clock());
        Self {
            parts,
            begun: Instant::now(),
            id_prefix,
            next_id: 0,
            connect_at: Some(Instant::now()),
            asked: Vec::new(),
            is_subscribed: false,
            is_partial: false,
            subscribe_at: None,
            pause: PAUSE.0,
            trouble: None,
            left: None,
            failures_told: None,
            failures_untold: 0,
        }
    }

    /// Milliseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Works until it is to stop.
    pub(super) fn run(mut self) {
        while !self.parts.orders.stop.load(Ordering::Acquire) {
            self.parts.core.pause(self.parts.orders.paused.load(Ordering::Acquire));
            self.turn(None);
        }
        self.parts.core.pause(true);
        let deadline = Instant::now() + LAST_BATCHES;
        // Without a connection nothing can be acknowledged, and the session may belong to another process by now.
        while self.parts.core.under_way() > 0 && Instant::now() < deadline && self.connect_at.is_none() {
            self.turn(Some(deadline));
        }
        self.leave();
    }

    fn turn(&mut self, until: Option<Instant>) {
        while let Ok((lane, outcome)) = self.parts.outcomes.try_recv() {
            self.parts.core.settle(self.now(), lane, outcome);
        }
        self.act();
        if self.connect_at.is_some_and(|at| Instant::now() >= at) {
            self.connect();
        }
        if self.subscribe_at.is_some_and(|at| Instant::now() >= at) {
            self.subscribe_at = None;
            self.subscribe();
        }
        self.note();
        let due = self.parts.core.deadline().and_then(|at| self.begun.checked_add(Duration::from_millis(at)));
        let deadline = [self.connect_at, self.subscribe_at, due, until].into_iter().flatten().min();
        match self.parts.driver.next(deadline) {
            Ok(Step::Event(event)) => self.take(event),
            Ok(Step::Woken | Step::Deadline) => {}
            Err(error) => {
                self.tell_trouble(&error);
                thread::park_timeout(SYSTEM_PAUSE);
            }
        }
    }

    /// Does what the core asks for.
    fn act(&mut self) {
        let now = self.now();
        while let Some(action) = self.parts.core.next_action(now) {
            match action {
                Action::Acknowledge(delivery) => self.parts.driver.client().acknowledge(Instant::now(), delivery),
                Action::Send { lane, batch } => {
                    // A lane ends with its pipeline, and not before.
                    if let Some(lane) = self.parts.lanes.get(lane) {
                        let _ = lane.send(batch);
                    }
                }
                Action::Tell(news) => self.tell(news),
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Connected(connected) => {
                let (pipeline, session) = (self.parts.name.as_str(), connected.session_present);
                tracing::info!(pipeline, session, "pipeline connected");
                self.asked.clone_from(&self.parts.from);
                self.subscribe();
            }
            Event::Disconnected(why) => {
                self.parts.core.lose_connection();
                (self.is_subscribed, self.is_partial, self.subscribe_at) = (false, false, None);
                let error = self.parts.driver.transport_error().filter(|_| why == Disconnected::TransportClosed);
                let why = error.map_or_else(|| said(&why), |error| with_cause(error));
                let why = self.left.take().unwrap_or(why);
                self.try_again(&why);
            }
            Event::Subscribed(answer) => self.check(&answer),
            Event::Message(message) => self.take_message(*message),
            // Nothing else is ever asked for.
            Event::Published(_)
            | Event::Undelivered(_)
            | Event::BeyondReceiveMaximum
            | Event::RequestLost(_)
            | Event::Unsubscribed(_)
            | Event::Authentication(_)
            | Event::Trace(_) => {}
        }
    }

    fn take_message(&mut self, message: tidegate_client::Message) {
        let delivery = message.delivery;
        if !self.parts.from.iter().any(|filter| filter.matches(&message.topic)) {
            // Of a filter that the pipeline had before: the session remembers it.
            if let Some(delivery) = delivery {
                self.parts.driver.client().acknowledge(Instant::now(), delivery);
            }
            return;
        }
        let message = self.own(message);
        let now = self.now();
        self.parts.core.take(now, wall_clock(), &message, delivery);
    }

    /// The message as a pipeline sees it.
    fn own(&mut self, message: tidegate_client::Message) -> Message {
        let mut properties = message.properties;
        let mut stated = properties.user_properties.iter().filter(|(name, _)| name == ORIGIN_PROPERTY);
        let origin = stated.next().filter(|_| self.parts.settings.origins).and_then(|(_, text)| Origin::parse(text));
        properties.user_properties.retain(|(name, _)| name != ORIGIN_PROPERTY);
        let lasting_id = origin.is_some();
        let (id, timestamp, client_id) = if let Some(Origin { id, timestamp, client_id }) = origin {
            (id, timestamp, Some(client_id))
        } else {
            self.next_id += 1;
            (format!("{}-{}", self.id_prefix, self.next_id), wall_clock(), None)
        };
        Message {
            id,
            lasting_id,
            topic: message.topic.as_str().to_owned(),
            client_id: client_id.filter(|client_id| !client_id.is_empty()),
            qos: message.qos as u8,
            retain: message.retain,
            timestamp,
            content_type: properties.content_type,
            user_properties: properties.user_properties,
            payload: message.payload,
        }
    }

    fn connect(&mut self) {
        if let Err(error) = self.parts.driver.finish() {
            self.tell_trouble(&error);
        }
        match self.parts.driver.connect() {
            Ok(()) => self.connect_at = None,
            Err(error) => self.try_again(&with_cause(&error)),
        }
    }

    fn subscribe(&mut self) {
        let retain_handling =
            if self.parts.settings.retained { RetainHandling::SendIfNew } else { RetainHandling::DoNotSend };
        let options =
            SubscriptionOptions { qos: QoS::AtLeastOnce, no_local: false, retain_as_published: true, retain_handling };
        let shared = |filter: &TopicFilterBuf| match &self.parts.settings.share {
            Some(share) => TopicFilterBuf::new(format!("$share/{share}/{filter}")).ok(),
            None => Some(filter.clone()),
        };
        let subscriptions = self.asked.iter().filter_map(shared).map(|filter| (filter, options)).collect();
        let request = SubscribeRequest { subscriptions, ..SubscribeRequest::default() };
        if let Err(error) = self.parts.driver.client().subscribe(Instant::now(), &request) {
            self.reconnect(format!("the pipeline cannot subscribe: {error}"));
        }
    }

    fn check(&mut self, answer: &RequestAnswer) {
        let codes = self.asked.iter().zip(&answer.reason_codes);
        let (refused, granted): (Vec<_>, Vec<_>) = codes.partition(|(_, code)| code.is_error());
        let texts: Vec<String> = refused.iter().map(|(filter, code)| format!("{filter}: {}", code.text())).collect();
        let why = format!("the broker refuses a subscription: {}", texts.join(", "));
        let any = !granted.is_empty() || self.is_partial;
        let refused: Vec<TopicFilterBuf> = refused.into_iter().map(|(filter, _)| filter.clone()).collect();
        if refused.is_empty() {
            self.pause = PAUSE.0;
            (self.is_subscribed, self.is_partial) = (true, false);
            self.trouble = None;
            if let Some(subscribed) = self.parts.subscribed.take() {
                // The receiver may have given up.
                let _ = subscribed.send(());
            }
        } else if any {
            // The messages of the granted filters come meanwhile.
            self.asked = refused;
            self.is_partial = true;
            self.subscribe_at = Some(self.next_attempt());
            self.tell_trouble(&why);
        } else {
            self.reconnect(why);
        }
    }

    /// Ends the connection and comes again later: without its subscriptions a pipeline gets nothing.
    fn reconnect(&mut self, why: String) {
        self.left = Some(why);
        // Where the connection has ended already, an event says so.
        let _ = self.parts.driver.client().disconnect(Instant::now(), &DisconnectRequest::default());
    }

    /// Waits before the next attempt; the error is logged once.
    fn try_again(&mut self, why: &dyn Display) {
        self.connect_at = Some(self.next_attempt());
        self.tell_trouble(why);
    }

    /// The time of the next attempt; each pause is longer.
    fn next_attempt(&mut self) -> Instant {
        let at = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE.1);
        at
    }

    fn tell_trouble(&mut self, why: &dyn Display) {
        let why = why.to_string();
        if self.trouble.as_ref() != Some(&why) {
            let (pipeline, address) = (self.parts.name.as_str(), self.parts.driver.address().to_string());
            let taken = if self.is_partial { "only a part of its messages" } else { "no messages" };
            tracing::warn!(pipeline, %address, "the pipeline takes {taken}, and tries again: {why}");
            self.trouble = Some(why);
        }
    }

    fn tell(&mut self, news: News) {
        let pipeline = self.parts.name.as_str();
        let name = |sink: usize| self.parts.sinks.get(sink).map_or("", String::as_str);
        match news {
            News::Away { sink, why } => {
                tracing::warn!(pipeline, sink = name(sink), "the sink takes no batches, and messages wait: {why}");
            }
            News::Back { sink } => tracing::info!(pipeline, sink = name(sink), "the sink takes batches again"),
            News::Failed { topic, why, kept } => {
                if self.failures_told.is_some_and(|told| told.elapsed() < FAILURES_TOLD_EVERY) {
                    self.failures_untold += 1;
                    return;
                }
                self.failures_told = Some(Instant::now());
                let untold = std::mem::take(&mut self.failures_untold);
                let what = if kept { "a message became a dead letter" } else { "a message was dropped" };
                tracing::warn!(pipeline, topic, untold, "{what}: {why}");
            }
        }
    }

    /// Writes down how it does.
    fn note(&mut self) {
        let core = &self.parts.core;
        let mut errors = core.errors();
        let error = errors.next().map(|(sink, why)| {
            let name = self.parts.sinks.get(sink).map_or("", String::as_str);
            format!("{name}: {why}")
        });
        let error = self.trouble.clone().or(error);
        let mut snapshot = self.parts.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.takes_messages = self.is_subscribed || self.is_partial;
        snapshot.numbers = core.numbers();
        snapshot.held = core.held();
        snapshot.oldest = core.oldest();
        snapshot.error = error;
    }

    /// Leaves the broker, which keeps the session.
    fn leave(&mut self) {
        self.act();
        // Without a connection there is no broker to notify.
        let _ = self.parts.driver.client().disconnect(Instant::now(), &DisconnectRequest::default());
        if let Err(error) = self.parts.driver.finish() {
            self.tell_trouble(&error);
        }
    }
}

/// An error with its causes.
fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_cause(cause)),
        None => error.to_string(),
    }
}

/// Why a connection has ended, in words.
fn said(why: &Disconnected) -> String {
    match why {
        Disconnected::Refused(it) | Disconnected::ByServer(it) => {
            let text = it.reason_string.as_deref().unwrap_or(it.reason_code.text());
            format!("the broker has ended the connection: {text}")
        }
        Disconnected::Protocol(error) => error.to_string(),
        Disconnected::ConnectTimeout => "the broker does not answer CONNECT".to_owned(),
        Disconnected::KeepAliveTimeout => "the broker has stopped to answer".to_owned(),
        Disconnected::ReleaseTimeout { packet_id } => {
            format!("the broker does not answer PUBREL of packet identifier {packet_id}")
        }
        Disconnected::Requested | Disconnected::TransportClosed => "the broker has closed the connection".to_owned(),
    }
}
