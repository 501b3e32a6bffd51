//! All clients in one event loop, and the books they are kept in.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use tidegate_mqtt::Version;

use crate::failure::Failure;
use crate::ledger::{Finding, Ledger};
use crate::publisher::Publisher;
use crate::rng::Rng;
use crate::session::{Phase, Session};
use crate::subscriber::Subscriber;
use crate::wire::Incoming;
use crate::workload;

/// Longest time that a turn waits for something to read.
const TURN: Duration = Duration::from_millis(1);
/// Messages that a subscriber may lag behind before publishers wait: well below the queue limits of brokers.
const BACKLOG: u64 = 700;
/// How long to wait for the end of a connection whose broker has been killed.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// A subscriber that is away stays so for this long, in milliseconds.
const AWAY: std::ops::Range<u64> = 20..500;
/// And for this long connected.
const HERE: std::ops::Range<u64> = 50..900;

/// How many clients there are, and how much they do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) publishers: u16,
    pub(crate) subscribers: u16,
    /// Messages per second of all publishers.
    pub(crate) rate: u64,
    /// Half of the clients speak MQTT 5.0; else all speak 3.1.1.
    pub(crate) with_v5: bool,
}

impl Size {
    /// The version for a client.
    pub(crate) fn version(&self, v5: bool) -> Version {
        if v5 && self.with_v5 { Version::V5 } else { Version::V311 }
    }
}

/// What the clients do at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Publish, come and go, change subscriptions.
    Load,
    /// Finish what is under way, and nothing new.
    Drain,
    /// No new connections: only what is still in the pipes is read.
    Over,
}

/// When a client changes next between here and away.
#[derive(Debug)]
struct Whim {
    next: Instant,
}

/// The clients and the books.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) poll: Poll,
    events: Events,
    /// Where clients connect: one port for each node.
    pub(crate) ports: Vec<u16>,
    pub(crate) size: Size,
    pub(crate) publishers: Vec<Publisher>,
    pub(crate) subscribers: Vec<Subscriber>,
    whims: Vec<Whim>,
    pub(crate) ledger: Ledger,
    pub(crate) rng: Rng,
    /// When publishers were last given something to do.
    paced: Instant,
    /// When anything of a message or a subscription was last received.
    pub(crate) last_news: Instant,
    /// Bytes of connections that have ended.
    bytes: u64,
}

impl World {
    /// Clients that are all away.
    pub(crate) fn new(size: Size, ports: Vec<u16>, seed: u64) -> Result<Self, Failure> {
        let mut rng = Rng::new(seed);
        let poll = Poll::new().map_err(Failure::system("creating a poll"))?;
        let publishers = (0..size.publishers).map(|index| {
            let version = size.version(index % 2 == 1);
            let session = Session::new(format!("publisher-{index}"), version, true, Token(usize::from(index)));
            Publisher::new(session, index, rng.fork(u64::from(index)))
        });
        let publishers: Vec<_> = publishers.collect();
        let mut subscribers = Vec::new();
        for index in 0..size.subscribers {
            let version = size.version(index / 2 % 2 == 0);
            let token = Token(usize::from(size.publishers + index));
            let takes = if index % 3 == 2 { NonZeroU16::new(8) } else { None };
            let session = Session::new(format!("subscriber-{index}"), version, true, token).taking(takes);
            let mut own = rng.fork(1000 + u64::from(index));
            let wishes = workload::wishes(usize::from(index), size.publishers, &mut own);
            subscribers.push(Subscriber::new(session, index, wishes, own));
        }
        let now = Instant::now();
        let retained = usize::from(size.publishers) * workload::TOPICS;
        Ok(Self {
            poll,
            events: Events::with_capacity(256),
            ports,
            size,
            whims: publishers
                .iter()
                .map(|_| 0)
                .chain(subscribers.iter().map(|_| 0))
                .map(|_| Whim { next: now })
                .collect(),
            ledger: Ledger::new(publishers.len(), subscribers.len(), retained),
            publishers,
            subscribers,
            rng,
            paced: now,
            last_news: now,
            bytes: 0,
        })
    }

    /// Bytes exchanged with the broker so far.
    pub(crate) fn bytes(&self) -> u64 {
        let open = self.publishers.iter().map(|publisher| &publisher.session);
        let open = open.chain(self.subscribers.iter().map(|subscriber| &subscriber.session));
        self.bytes + open.map(Session::bytes).sum::<u64>()
    }

    /// One turn: reads what is there, does what is due, writes. The token is that of an event that is nobody's here.
    pub(crate) fn turn(&mut self, mood: Mood) -> Result<Vec<Token>, Failure> {
        match self.poll.poll(&mut self.events, Some(TURN)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                return Err(Failure::system("waiting for sockets")(error));
            }
            _ => {}
        }
        let now = Instant::now();
        let mut others = Vec::new();
        let tokens: Vec<Token> = self.events.iter().map(mio::event::Event::token).collect();
        for token in tokens {
            let publishers = self.publishers.len();
            if token.0 < publishers {
                self.read_publisher(token.0, now)?;
            } else if token.0 < publishers + self.subscribers.len() {
                self.read_subscriber(token.0 - publishers, now);
            } else {
                others.push(token);
            }
        }
        if mood != Mood::Over {
            self.connect(mood, now)?;
            self.work(mood, now)?;
        }
        for session in self.publishers.iter_mut().map(|publisher| &mut publisher.session) {
            session.flush();
        }
        for session in self.subscribers.iter_mut().map(|subscriber| &mut subscriber.session) {
            session.flush();
        }
        Ok(others)
    }

    fn connect(&mut self, mood: Mood, now: Instant) -> Result<(), Failure> {
        let registry = self.poll.registry();
        for publisher in &mut self.publishers {
            publisher.session.open(&self.ports, registry, now)?;
        }
        let whims = self.whims.iter().skip(self.publishers.len());
        for (subscriber, whim) in self.subscribers.iter_mut().zip(whims) {
            if mood == Mood::Drain || now >= whim.next {
                subscriber.session.open(&self.ports, registry, now)?;
            }
        }
        Ok(())
    }

    fn work(&mut self, mood: Mood, now: Instant) -> Result<(), Failure> {
        if mood == Mood::Load {
            self.publish(now)?;
            self.come_and_go(now)?;
        }
        for subscriber in &mut self.subscribers {
            subscriber.slow = subscriber.slow && mood == Mood::Load;
            subscriber.ask(&mut self.ledger)?;
            subscriber.acknowledge(now)?;
        }
        Ok(())
    }

    /// Publishes what the rate allows for the time that has passed.
    fn publish(&mut self, now: Instant) -> Result<(), Failure> {
        let due = (now - self.paced).as_micros() as u64 * self.size.rate / 1_000_000;
        if due == 0 {
            return Ok(());
        }
        self.paced = now;
        // After a pause nothing is made up for.
        for _ in 0..due.min(100) {
            if self.ledger.backlog() > BACKLOG {
                return Ok(());
            }
            let chosen = self.rng.index(self.publishers.len());
            let publisher = &mut self.publishers[chosen];
            if let Some(plan) = publisher.plan(&self.ledger) {
                let expected = self.subscribers.iter().filter_map(|subscriber| subscriber.expectation(&plan.topic));
                let expected = expected.collect();
                publisher.publish(plan, expected, &mut self.ledger)?;
            }
        }
        Ok(())
    }

    /// Lets clients leave, with and without a farewell, get slow, and change their mind about subscriptions.
    fn come_and_go(&mut self, now: Instant) -> Result<(), Failure> {
        for place in 0..self.whims.len() {
            if now < self.whims[place].next {
                continue;
            }
            let publishers = self.publishers.len();
            let leaves = if place < publishers { self.rng.chance(20) } else { self.rng.chance(60) };
            let session = match place.checked_sub(publishers) {
                None => &mut self.publishers[place].session,
                Some(place) => &mut self.subscribers[place].session,
            };
            if !session.is_open() {
                self.whims[place].next = now + Duration::from_millis(self.rng.within(HERE));
                continue;
            }
            if leaves {
                self.bytes += session.bytes();
                if self.rng.chance(50) { session.depart()? } else { session.cut() }
            }
            if let Some(subscriber) = place.checked_sub(publishers).and_then(|place| self.subscribers.get_mut(place)) {
                subscriber.slow = self.rng.chance(40);
                if leaves {
                    subscriber.closed();
                } else {
                    subscriber.change_mind();
                }
            }
            let range = if leaves { AWAY } else { HERE };
            self.whims[place].next = now + Duration::from_millis(self.rng.within(range));
        }
        Ok(())
    }

    fn read_publisher(&mut self, place: usize, now: Instant) -> Result<(), Failure> {
        let publisher = &mut self.publishers[place];
        let (packets, alive, wrong) = publisher.session.receive();
        for packet in packets {
            self.last_news = news(&packet, self.last_news, now);
            let present = greeting(&packet, &mut publisher.session, &mut self.ledger, now);
            if let Some(present) = present {
                publisher.opened(present, &mut self.ledger)?;
            } else if publisher.session.is_open() {
                publisher.handle(&packet, &mut self.ledger)?;
            }
        }
        if !alive {
            self.bytes += publisher.session.bytes();
            ended(&mut publisher.session, wrong, &mut self.ledger, now);
        }
        Ok(())
    }

    fn read_subscriber(&mut self, place: usize, now: Instant) {
        let subscriber = &mut self.subscribers[place];
        let (packets, alive, wrong) = subscriber.session.receive();
        for packet in packets {
            self.last_news = news(&packet, self.last_news, now);
            let present = greeting(&packet, &mut subscriber.session, &mut self.ledger, now);
            if let Some(present) = present {
                subscriber.opened(present);
            } else if subscriber.session.is_open() {
                subscriber.handle(packet, &mut self.ledger);
            }
        }
        if !alive {
            self.bytes += subscriber.session.bytes();
            ended(&mut subscriber.session, wrong, &mut self.ledger, now);
            subscriber.closed();
        }
    }

    /// The broker is gone: reads what it had sent before, for what has left counts, and forgets the connections.
    pub(crate) fn aftermath(&mut self) -> Result<(), Failure> {
        let closed = self.ledger.findings.totals.closed_by_broker;
        let begun = Instant::now();
        let connected = |world: &Self| {
            let publishers = world.publishers.iter().map(|publisher| publisher.session.phase);
            publishers
                .chain(world.subscribers.iter().map(|subscriber| subscriber.session.phase))
                .any(|phase| phase != Phase::Away)
        };
        // The end of each connection follows what was sent on it; a child of the broker may hold it open longer than
        // that.
        while connected(self) && begun.elapsed() < LAST_WORDS {
            let now = Instant::now();
            for place in 0..self.publishers.len() {
                self.read_publisher(place, now)?;
            }
            for place in 0..self.subscribers.len() {
                self.read_subscriber(place, now);
            }
        }
        for publisher in &mut self.publishers {
            publisher.session.cut();
        }
        for subscriber in &mut self.subscribers {
            subscriber.session.cut();
            subscriber.closed();
        }
        self.ledger.findings.totals.closed_by_broker = closed;
        Ok(())
    }

    /// Cuts the connections to one port, as clients do whose node does not answer.
    pub(crate) fn leave(&mut self, port: u16) {
        for publisher in &mut self.publishers {
            if publisher.session.port == port {
                publisher.session.cut();
            }
        }
        for subscriber in self.subscribers.iter_mut().filter(|subscriber| subscriber.session.port == port) {
            subscriber.session.cut();
            subscriber.closed();
        }
    }

    /// Makes every client come and go anew from now on.
    pub(crate) fn wake(&mut self) {
        let now = Instant::now();
        self.paced = now;
        self.last_news = now;
        for place in 0..self.whims.len() {
            self.whims[place].next = now + Duration::from_millis(self.rng.within(0..200));
        }
    }
}

fn news(packet: &Incoming, before: Instant, now: Instant) -> Instant {
    match packet {
        Incoming::PingResp | Incoming::ConnAck { .. } | Incoming::Disconnect { .. } => before,
        _ => now,
    }
}

/// Handles CONNACK and PINGRESP, which concern any client. Gives Session Present of a CONNACK that accepts.
fn greeting(packet: &Incoming, session: &mut Session, ledger: &mut Ledger, now: Instant) -> Option<bool> {
    match packet {
        Incoming::ConnAck { present, code, receive_maximum } if !code.is_error() => {
            let clock = ledger.tick();
            if session.confirmed {
                ledger.findings.totals.sessions_checked += 1;
            }
            if session.opened(*present, *receive_maximum) {
                let text = format!("{} had a session, CONNACK says it has none", session.name);
                ledger.findings.add(Finding::Session, text, Vec::new());
            }
            let epoch = session.epoch;
            ledger.trace.mark(clock, format!("{} open, connection {epoch}, session present {present}", session.name));
            Some(*present)
        }
        Incoming::ConnAck { code, .. } => {
            ledger.findings.totals.refused += 1;
            let clock = ledger.tick();
            ledger.trace.mark(clock, format!("{} refused: {}", session.name, code.text()));
            session.lost(now);
            None
        }
        Incoming::PingResp => {
            session.pings = session.pings.saturating_sub(1);
            None
        }
        Incoming::Disconnect { code } => {
            let clock = ledger.tick();
            ledger.trace.mark(clock, format!("{} disconnected: {}", session.name, code.text()));
            None
        }
        _ => None,
    }
}

fn ended(session: &mut Session, wrong: Option<String>, ledger: &mut Ledger, now: Instant) {
    let clock = ledger.tick();
    ledger.findings.totals.closed_by_broker += 1;
    ledger.trace.mark(clock, format!("{} closed, connection {}", session.name, session.epoch));
    if let Some(wrong) = wrong {
        let text = format!("{} received what is not MQTT: {wrong}", session.name);
        ledger.findings.add(Finding::Unanswered, text, Vec::new());
    }
    session.lost(now);
}
