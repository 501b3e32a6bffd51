//! One end on its thread: its connection, its attempts to get one, and the orders of the other end.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_client::net::{ConnectError, Driver, Step, Waker};
use tidegate_client::{
    Acknowledgement, Connected, DisconnectRequest, Disconnected, Event, Options, Publish, QoS, RequestAnswer,
    RetainHandling, SentAfterRelease, SubscribeRequest, SubscriptionOptions, TopicNameBuf,
};

use crate::hops::HopName;
use crate::routes::Routes;
use crate::settings::{BridgeSettings, EndSettings};
use crate::status::{BridgeStatus, Side};
use crate::traffic::{NextStep, Order, Traffic};
use crate::versions::{Accepted, Versions};

/// The shortest and the longest time between two attempts; each failure doubles it, and half of it is chance.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A connection that lasted so long was a good one: the next attempt comes soon.
const LASTING: Duration = Duration::from_secs(30);
/// How long to wait when the system cannot wait for sockets.
const SYSTEM_PAUSE: Duration = Duration::from_secs(1);
/// Messages that wait for a connection or for the broker: as many as a broker before MQTT 5.0 may send without an
/// acknowledgement, and some. Beyond it QoS 0 messages are dropped, and the others wait with their broker.
const MAX_WAITING: usize = 70_000;
/// The same in bytes.
const MAX_WAITING_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct End {
    side: Side,
    name: Arc<str>,
    driver: Driver,
    traffic: Traffic,
    routes: Arc<Routes>,
    status: Arc<BridgeStatus>,
    versions: Versions,
    /// True if the broker has granted all subscriptions of this process, and has kept the session since.
    is_subscribed: bool,
    orders: Receiver<Order>,
    across: Across,
    stop: Arc<AtomicBool>,
    /// The topic that says whether the other broker is reached; only at the local end.
    state_topic: Option<TopicNameBuf>,
    /// When the next connection is tried; nothing while there is one.
    connect_at: Option<Instant>,
    connected_since: Option<Instant>,
    pause: Duration,
    /// The failure that was logged last.
    told: String,
    told_since_connected: Told,
    /// Its end wakes waiting threads.
    _running: Sender<Infallible>,
}

/// The lines logged since the last connection.
#[derive(Debug, Default)]
struct Told {
    /// That messages are dropped.
    dropped: bool,
    /// That messages come round.
    looped: bool,
    /// That the broker sends beyond the window.
    beyond_window: bool,
}

/// The way to the other end.
#[derive(Debug)]
pub(crate) struct Across {
    pub(crate) orders: Sender<Order>,
    pub(crate) waker: Waker,
}

/// The parts that both ends share, and the state between them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) status: Arc<BridgeStatus>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) running: Sender<Infallible>,
    pub(crate) state_topic: Option<TopicNameBuf>,
}

/// The options of the client of an end.
pub(crate) fn options(bridge: &BridgeSettings, end: &EndSettings) -> Options {
    let first = Versions::new(end.version).present();
    let mut options = Options::new(end.client_id.as_str());
    options.version = first.version;
    options.bridge = first.bridge;
    options.clean_start = false;
    options.keep_alive = end.keep_alive;
    options.username.clone_from(&end.username);
    options.password.clone_from(&end.password);
    options.max_in_flight = bridge.window;
    options.max_queued_messages = MAX_WAITING;
    options.max_queued_bytes = MAX_WAITING_BYTES;
    options.acknowledgement = Acknowledgement::Manual;
    options.sent_after_release = SentAfterRelease::Known;
    options.properties.receive_maximum = NonZeroU16::new(bridge.window.get());
    options.properties.session_expiry_interval = Some(bridge.session_expiry);
    options
}

impl End {
    pub(crate) fn new(
        side: Side,
        settings: &EndSettings,
        driver: Driver,
        orders: Receiver<Order>,
        across: Across,
        shared: &Shared,
    ) -> Self {
        Self {
            side,
            name: Arc::clone(&shared.name),
            driver,
            traffic: Traffic::new(side, Arc::clone(&shared.routes), HopName::random(), Arc::clone(&shared.status)),
            routes: Arc::clone(&shared.routes),
            status: Arc::clone(&shared.status),
            versions: Versions::new(settings.version),
            is_subscribed: false,
            orders,
            across,
            stop: Arc::clone(&shared.stop),
            state_topic: shared.state_topic.clone().filter(|_| side == Side::Local),
            connect_at: Some(Instant::now()),
            connected_since: None,
            pause: PAUSE.0,
            told: String::new(),
            told_since_connected: Told::default(),
            _running: shared.running.clone(),
        }
    }

    /// Works until it is stopped.
    pub(crate) fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            self.take_orders();
            self.retry();
            if self.connect_at.is_some_and(|at| Instant::now() >= at) {
                self.connect();
            }
            let deadline = [self.connect_at, self.traffic.retry_at()].into_iter().flatten().min();
            match self.driver.next(deadline) {
                Ok(Step::Event(event)) => self.take_event(event),
                Ok(Step::Woken | Step::Deadline) => {}
                Err(error) => {
                    self.tell_failure(&error);
                    thread::park_timeout(SYSTEM_PAUSE);
                }
            }
        }
        self.leave();
    }

    fn connect(&mut self) {
        // Finishes the last connection; it takes some seconds at most.
        if let Err(error) = self.driver.finish() {
            self.tell_failure(&error);
        }
        let way = self.versions.present();
        let begun = self.driver.client().introduce(way.version, way.bridge);
        match begun.map_err(ConnectError::from).and_then(|()| self.driver.connect()) {
            Ok(()) => self.connect_at = None,
            Err(error) => self.try_again(&with_cause(&error)),
        }
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            let now = Instant::now();
            match order {
                Order::Carry { publish, delivery } => {
                    let step = self.traffic.publish(self.driver.client(), now, publish, delivery);
                    self.carry_out(step);
                }
                Order::Settle(delivery) => self.driver.client().acknowledge(now, delivery),
                Order::Reached => self.tell_state(),
                Order::Resumed => self.traffic.forget_redelivered(self.driver.client()),
            }
        }
    }

    fn retry(&mut self) {
        for step in self.traffic.retry(self.driver.client(), Instant::now()) {
            self.carry_out(step);
        }
    }

    fn take_event(&mut self, event: Event) {
        let now = Instant::now();
        let step = match event {
            Event::Connected(connected) => return self.begin(&connected),
            Event::Disconnected(why) => return self.lose(&why),
            Event::Subscribed(answer) => return self.check_subscriptions(&answer),
            Event::Message(message) => self.traffic.message(*message),
            Event::Published(published) => self.traffic.published(now, published),
            Event::Undelivered(it) => self.traffic.undelivered(self.driver.client(), now, *it),
            Event::InvalidTopic(error) => self.traffic.invalid_topic(error),
            Event::BeyondReceiveMaximum => return self.note_beyond_window(),
            // The end of the connection is its own event; no other request is ever made.
            Event::RequestLost(_) | Event::Unsubscribed(_) | Event::Authentication(_) | Event::Trace(_) => return,
        };
        self.carry_out(step);
    }

    fn carry_out(&mut self, step: NextStep) {
        if let Some(delivery) = step.done {
            self.driver.client().acknowledge(Instant::now(), delivery);
        }
        if let Some(why) = step.dropped
            && !std::mem::replace(&mut self.told_since_connected.dropped, true)
        {
            let (bridge, end) = (&*self.name, self.side.name());
            tracing::warn!(bridge, end, "message dropped: {why} (further drops may not be logged)");
        }
        if let Some(why) = step.looped
            && !std::mem::replace(&mut self.told_since_connected.looped, true)
        {
            let (bridge, end) = (&*self.name, self.side.name());
            tracing::warn!(
                bridge,
                end,
                "bridges form a loop; returning messages are not forwarded again. The first: {why}"
            );
        }
        if let Some(order) = step.order {
            self.send_across(order);
        }
    }

    fn note_beyond_window(&mut self) {
        self.status.note_beyond_window(self.side);
        if !std::mem::replace(&mut self.told_since_connected.beyond_window, true) {
            let (bridge, end, window) = (&*self.name, self.side.name(), self.driver.client().options().max_in_flight);
            tracing::warn!(
                bridge,
                end,
                window,
                "the broker exceeds the bridge's receive maximum (window); its messages are forwarded"
            );
        }
    }

    fn send_across(&self, order: Order) {
        // Without the other end this one is about to stop, too.
        if self.across.orders.send(order).is_ok() {
            let _ = self.across.waker.wake();
        }
    }

    /// The broker has accepted the connection.
    fn begin(&mut self, connected: &Connected) {
        if self.versions.accepted() == Accepted::InDoubt {
            // Its end is an event, and the next attempt follows at once.
            let _ = self.driver.client().disconnect(Instant::now(), &DisconnectRequest::default());
            return;
        }
        self.traffic.take_limits(connected.limits);
        self.connected_since = Some(Instant::now());
        self.told.clear();
        self.told_since_connected = Told::default();
        self.status.note_connected(self.side, true);
        let (bridge, end, address) = (&*self.name, self.side.name(), self.driver.address().to_string());
        tracing::info!(bridge, end, %address, session = connected.session_present, "bridge connected");
        // Before MQTT 5.0 each SUBSCRIBE brings the retained messages again, also if the bridge has outdated them here.
        self.is_subscribed &= connected.session_present;
        if !self.is_subscribed || self.driver.client().options().version.is_v5() {
            self.subscribe();
        }
        // Before the messages, which come the same way.
        if connected.session_present {
            self.send_across(Order::Resumed);
        }
        match self.side {
            Side::Local => self.tell_state(),
            Side::Remote => self.send_across(Order::Reached),
        }
    }

    fn subscribe(&mut self) {
        let echoes = self.echoes();
        for line in self.routes.echoes().filter(|_| echoes) {
            let (bridge, end) = (&*self.name, self.side.name());
            tracing::error!(
                bridge,
                end,
                %line,
                "the bridge does not subscribe to this topic: the broker would send the bridge's own messages back, in a loop; use two different prefixes"
            );
        }
        let subscriptions = self.routes.subscriptions(self.side, echoes);
        if subscriptions.is_empty() {
            return;
        }
        let v5 = self.driver.client().options().version.is_v5();
        // Messages of the bridge must not return to the broker that sent them.
        let of_v5 = |qos| SubscriptionOptions {
            qos,
            no_local: true,
            retain_as_published: true,
            retain_handling: RetainHandling::SendIfNew,
        };
        let options = |qos| if v5 { of_v5(qos) } else { SubscriptionOptions::new(qos) };
        let subscriptions = subscriptions.into_iter().map(|(filter, qos)| (filter, options(qos))).collect();
        let request = SubscribeRequest { subscriptions, ..SubscribeRequest::default() };
        if let Err(error) = self.driver.client().subscribe(Instant::now(), &request) {
            let (bridge, end) = (&*self.name, self.side.name());
            tracing::error!(bridge, end, "the bridge cannot subscribe and forwards nothing from there: {error}");
        }
    }

    /// Whether this broker sends the bridge's own messages back to it: it knows neither No Local nor the protocol level
    /// of a bridge.
    fn echoes(&self) -> bool {
        let way = self.versions.present();
        self.side == Side::Remote && !way.version.is_v5() && !way.bridge
    }

    /// The codes are in the order of the filters.
    fn check_subscriptions(&mut self, answer: &RequestAnswer) {
        self.is_subscribed = !answer.reason_codes.iter().any(|code| code.is_error());
        let subscriptions = self.routes.subscriptions(self.side, self.echoes());
        for ((filter, _), code) in subscriptions.iter().zip(&answer.reason_codes).filter(|(_, code)| code.is_error()) {
            let (bridge, end, why) = (&*self.name, self.side.name(), code.text());
            tracing::error!(bridge, end, %filter, "the broker refuses a subscription; its messages are not forwarded: {why}");
        }
    }

    /// The connection has ended, or came to nothing.
    fn lose(&mut self, why: &Disconnected) {
        self.status.note_connected(self.side, false);
        if self.side == Side::Remote {
            self.send_across(Order::Reached);
        }
        if self.connected_since.take().is_some_and(|since| since.elapsed() >= LASTING) {
            self.pause = PAUSE.0;
        }
        if self.versions.refused(why) {
            self.connect_at = Some(Instant::now());
            return;
        }
        match self.driver.transport_error().filter(|_| *why == Disconnected::TransportClosed) {
            Some(error) => {
                let error = with_cause(error);
                self.try_again(&error);
            }
            None => self.try_again(&said(why)),
        }
    }

    /// Waits before the next attempt; the cause is logged once.
    fn try_again(&mut self, why: &dyn Display) {
        let chance = u32::try_from(RandomState::new().build_hasher().finish() % 1_000).unwrap_or_default();
        let half = self.pause / 2;
        let wait = half + half * chance / 1_000;
        self.connect_at = Some(Instant::now() + wait);
        self.pause = (self.pause * 2).min(PAUSE.1);
        self.tell_failure(why);
    }

    fn tell_failure(&mut self, why: &dyn Display) {
        let why = why.to_string();
        if self.told != why {
            let (bridge, end, address) = (&*self.name, self.side.name(), self.driver.address().to_string());
            tracing::warn!(bridge, end, %address, "the bridge has no connection; retrying: {why}");
            self.told = why;
        }
    }

    /// Tells this broker whether the other one is reached.
    fn tell_state(&mut self) {
        let reached = self.status.is_connected(Side::Remote);
        self.publish_state(if reached { "1" } else { "0" }, QoS::AtLeastOnce);
    }

    fn publish_state(&mut self, state: &str, qos: QoS) {
        let Some(topic) = self.state_topic.clone() else { return };
        if self.driver.client().is_connected() {
            let publish = Publish::new(topic, state).with_qos(qos).with_retain(true);
            // Rules may forbid it, which costs no message.
            let _ = self.driver.client().publish(Instant::now(), publish);
        }
    }

    /// Says farewell to the broker, which keeps the session.
    fn leave(&mut self) {
        self.publish_state("0", QoS::AtMostOnce);
        // Without a connection there is no broker to notify.
        let _ = self.driver.client().disconnect(Instant::now(), &DisconnectRequest::default());
        if let Err(error) = self.driver.finish() {
            self.tell_failure(&error);
        }
        self.status.note_connected(self.side, false);
    }
}

/// An error with its cause.
fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_cause(cause)),
        None => error.to_string(),
    }
}

/// Why a connection has ended, in words.
fn said(why: &Disconnected) -> String {
    let dismissal = |label: &str, code: &str, text: Option<&str>| format!("{label}: {}", text.unwrap_or(code));
    match why {
        Disconnected::Requested => "it was ended".to_owned(),
        Disconnected::Refused(it) => {
            dismissal("the broker refuses it", it.reason_code.text(), it.reason_string.as_deref())
        }
        Disconnected::ByServer(it) => {
            dismissal("the broker has ended it", it.reason_code.text(), it.reason_string.as_deref())
        }
        Disconnected::Protocol(error) => error.to_string(),
        Disconnected::ConnectTimeout => "the broker does not answer CONNECT".to_owned(),
        Disconnected::KeepAliveTimeout => "the broker has stopped to answer".to_owned(),
        Disconnected::ReleaseTimeout { packet_id } => {
            format!("the broker does not answer PUBREL of packet identifier {packet_id}")
        }
        Disconnected::TransportClosed => "the broker has closed it".to_owned(),
    }
}
