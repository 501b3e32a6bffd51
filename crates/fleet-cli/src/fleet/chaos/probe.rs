//! A publisher and a subscriber of QoS 1, which keep the books while the fleet is struck.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_client::net::{Address, Driver, SocketOptions, Step};
use tidegate_client::{
    Event, Options, Publish, PublishToken, QoS, SubscribeRequest, SubscriptionOptions, TopicFilterBuf, TopicNameBuf,
    Version,
};

use super::books::Books;
use super::error::ChaosError;
use super::rest;

/// How long the sessions outlive their connections, seconds.
const SESSION_EXPIRY: u32 = 3_600;
/// Pause before another connection.
const RETRY: Duration = Duration::from_millis(200);
/// Time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds without a word after which a connection is given up.
const KEEP_ALIVE: u16 = 5;
/// How often a client looks whether it is done.
const LOOK: Duration = Duration::from_millis(50);
/// Messages without an acknowledgement; further ones are not sent meanwhile.
const MAX_UNSETTLED: usize = 1_000;
/// Time for the subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(30);

/// The state that both clients share.
pub(super) struct Shared {
    books: Mutex<Books>,
    endpoints: Mutex<Vec<String>>,
    begin: Instant,
    /// Set when nothing more is published.
    quiet: AtomicBool,
    /// Set when all messages were acknowledged or given up.
    settled: AtomicBool,
    over: AtomicBool,
}

/// The clients' names and their messages.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) topic: TopicNameBuf,
    pub(super) filter: TopicFilterBuf,
    pub(super) user_name: Option<String>,
    pub(super) password: Option<Vec<u8>>,
    /// Messages per second.
    pub(super) rate: u32,
    /// Bytes of a message.
    pub(super) size: usize,
}

/// Both clients.
pub(super) struct Probe {
    pub(super) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        held(&self.books)
    }

    /// The addresses that clients connect to.
    pub(super) fn set_endpoints(&self, endpoints: Vec<String>) {
        *held(&self.endpoints) = endpoints;
    }

    /// Time since the beginning.
    pub(super) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Nothing more is published.
    pub(super) fn fall_silent(&self) {
        self.quiet.store(true, Ordering::Release);
    }

    /// Whether every message is settled.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn address(&self, attempt: usize) -> Option<Address> {
        let endpoints = held(&self.endpoints);
        let text = endpoints.get(attempt % endpoints.len().max(1))?;
        let text = text.rsplit_once("://").map_or(text.as_str(), |(_, rest)| rest);
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Address::Tcp { host, port: port.parse().ok()? })
    }
}

impl Probe {
    /// Starts the subscriber, and then the publisher.
    ///
    /// # Errors
    /// When the fleet grants no subscription, or the system gives no thread.
    pub(super) fn start(endpoints: Vec<String>, load: &Load) -> Result<Self, ChaosError> {
        let shared = Arc::new(Shared {
            books: Mutex::default(),
            endpoints: Mutex::new(endpoints),
            begin: Instant::now(),
            quiet: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let mut probe = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        let (tell, told) = channel();
        let (ours, of_load) = (Arc::clone(&shared), load.clone());
        probe.spawn("chaos-subscriber", move || subscribe(&ours, &of_load, &tell))?;
        if told.recv_timeout(SUBSCRIBE_TIMEOUT).is_err() {
            probe.stop();
            return Err(ChaosError::NoSubscription);
        }
        let (ours, of_load) = (Arc::clone(&shared), load.clone());
        probe.spawn("chaos-publisher", move || publish(&ours, &of_load))?;
        Ok(probe)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ChaosError> {
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
        self.threads.push(spawned.map_err(ChaosError::Thread)?);
        Ok(())
    }

    /// Ends both clients.
    pub(super) fn stop(self) {
        self.shared.over.store(true, Ordering::Release);
        for thread in self.threads {
            // A panic of a thread ends the process.
            let _ = thread.join();
        }
    }
}

/// A client with a connection to the next endpoint. Its session is the broker's, and continues with each connection.
fn connect(shared: &Shared, load: &Load, role: &str, attempt: usize) -> Option<Driver> {
    let mut options = Options::new(format!("{role}-{}", load.topic.as_str().replace('/', "-")));
    options.version = Version::V5;
    options.clean_start = false;
    options.keep_alive = KEEP_ALIVE;
    options.connect_timeout = CONNECT_TIMEOUT;
    options.username.clone_from(&load.user_name);
    options.password.clone_from(&load.password);
    options.properties.session_expiry_interval = Some(SESSION_EXPIRY);
    let sockets = SocketOptions { connect_timeout: CONNECT_TIMEOUT, ..SocketOptions::default() };
    let mut driver = Driver::new(options, shared.address(attempt)?, sockets).ok()?;
    driver.connect().is_ok().then_some(driver)
}

/// Subscribes, and notes received messages.
fn subscribe(shared: &Shared, load: &Load, subscribed: &Sender<()>) {
    let mut attempt = 0;
    while !shared.is_over() {
        if let Some(mut driver) = connect(shared, load, "sub", attempt) {
            receive(shared, load, &mut driver, subscribed);
        }
        attempt += 1;
        rest(RETRY);
    }
}

/// Works for one connection of the subscriber.
fn receive(shared: &Shared, load: &Load, driver: &mut Driver, subscribed: &Sender<()>) {
    while !shared.is_over() {
        match driver.next(Some(Instant::now() + LOOK)) {
            Ok(Step::Event(Event::Connected(connected))) if !connected.session_present => {
                let options = SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() };
                let subscriptions = vec![(load.filter.clone(), options)];
                let request = SubscribeRequest { subscriptions, ..SubscribeRequest::default() };
                if driver.client().subscribe(Instant::now(), &request).is_err() {
                    return;
                }
            }
            Ok(Step::Event(Event::Subscribed(answer))) => {
                if answer.reason_codes.iter().all(|code| !code.is_error()) {
                    // After the first time the receiver has gone.
                    let _ = subscribed.send(());
                }
            }
            Ok(Step::Event(Event::Message(message))) => {
                let number = message.payload.split(|byte| *byte == b' ').next().unwrap_or_default();
                let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
                if let Some(number) = number {
                    let now = shared.now();
                    shared.books().receive(number, now);
                }
            }
            Ok(Step::Event(Event::Disconnected(_))) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Publishes at the rate. Unacknowledged messages are published again with the next connection.
fn publish(shared: &Shared, load: &Load) {
    let mut unsettled: BTreeMap<PublishToken, usize> = BTreeMap::new();
    let (mut attempt, mut due) = (0, Instant::now());
    while !shared.is_over() {
        if let Some(mut driver) = connect(shared, load, "pub", attempt) {
            for number in std::mem::take(&mut unsettled).into_values() {
                hand_over(load, &mut driver, number, &mut unsettled);
            }
            work(shared, load, &mut driver, &mut unsettled, &mut due);
        }
        attempt += 1;
        rest(RETRY);
    }
}

/// Works for one connection of the publisher.
fn work(
    shared: &Shared,
    load: &Load,
    driver: &mut Driver,
    unsettled: &mut BTreeMap<PublishToken, usize>,
    due: &mut Instant,
) {
    let every = Duration::from_secs(1) / load.rate.max(1);
    while !shared.is_over() {
        let quiet = shared.quiet.load(Ordering::Acquire);
        shared.settled.store(quiet && unsettled.is_empty(), Ordering::Release);
        if !quiet && Instant::now() >= *due {
            // A publisher that was away does not catch up with all that it has missed.
            *due = if due.elapsed() > LOOK { Instant::now() } else { *due + every };
            if unsettled.len() < MAX_UNSETTLED {
                let number = shared.books().send();
                hand_over(load, driver, number, unsettled);
            }
        }
        let until = if quiet { Instant::now() + LOOK } else { *due };
        match driver.next(Some(until)) {
            Ok(Step::Event(Event::Published(answer))) => {
                if let Some(number) = unsettled.remove(&answer.token).filter(|_| !answer.reason_code.is_error()) {
                    shared.books().acknowledge(number);
                }
            }
            Ok(Step::Event(Event::Disconnected(_))) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Publishes a message.
fn hand_over(load: &Load, driver: &mut Driver, number: usize, unsettled: &mut BTreeMap<PublishToken, usize>) {
    let mut payload = format!("{number} ").into_bytes();
    payload.resize(load.size.max(payload.len()), b'.');
    let message = Publish::new(load.topic.clone(), payload).with_qos(QoS::AtLeastOnce);
    if let Ok(token) = driver.client().publish(Instant::now(), message) {
        unsettled.insert(token, number);
    }
}
