//! All clients in one event loop, and the books they are kept in.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use tidegate_mqtt::Version;

use crate::audience::{self, expected};
use crate::failure::Failure;
use crate::ledger::{Finding, Ledger};
use crate::mortal::Mortal;
use crate::publisher::Publisher;
use crate::rng::Rng;
use crate::session::{Phase, Session};
pub(crate) use crate::size::Size;
use crate::subscriber::Subscriber;
use crate::wire::Incoming;
use crate::workload;

/// Longest time that a turn waits for something to read.
const TURN: Duration = Duration::from_millis(1);
/// Messages that a subscriber may lag behind before publishers wait: well below the queue limits of brokers.
const BACKLOG: u64 = 700;
/// How long to wait for the end of a connection whose broker has been killed.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// A publisher that is away stays so for this long, in milliseconds.
const AWAY: std::ops::Range<u64> = 20..500;
/// How many of 100 clients that leave connect again and let their connection stand.
const TAKEOVER_PERCENT: u64 = 20;
/// And for this long connected.
const HERE: std::ops::Range<u64> = 50..900;

/// The present activity of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Publish, come and go, change subscriptions.
    Load,
    /// Finish open exchanges, and begin no new ones.
    Drain,
    /// No new connections: only the data in the pipes is read.
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
    /// The ports for clients: one for each node.
    pub(crate) ports: Vec<u16>,
    pub(crate) size: Size,
    /// The publishers of `size`, then the applications.
    pub(crate) publishers: Vec<Publisher>,
    /// The subscribers of `size`, the watchers of wills, the members of the group, the guests, the mobile nodes.
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) mortals: Vec<Mortal>,
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
        let publishers = publishers(size, seed, &mut rng);
        let mut subscribers = Vec::new();
        for index in 0..size.subscribers {
            let version = size.version(index / 2 % 2 == 0);
            let token = Token(usize::from(size.senders() + index));
            let takes = if index % 3 == 2 { NonZeroU16::new(8) } else { None };
            let session = Session::new(format!("subscriber-{index}"), version, true, token).taking(takes);
            let mut own = rng.fork(1000 + u64::from(index));
            let wishes = workload::wishes(usize::from(index), size.publishers, &mut own);
            subscribers.push(Subscriber::new(session, index, wishes, own));
        }
        audience::add_watchers_and_members(&mut subscribers, size, &mut rng);
        audience::add_guests(&mut subscribers, size, seed);
        audience::add_mobiles_and_collector(&mut subscribers, size, seed);
        let first = publishers.len() + subscribers.len();
        let mortals = (0..size.mortals).map(|index| {
            let token = Token(first + usize::from(index));
            let session = Session::new(format!("mortal-{index}"), size.version(index % 2 == 0), true, token);
            Mortal::new(session, size.senders() + index, rng.fork(2000 + u64::from(index)))
        });
        let mortals: Vec<Mortal> = mortals.collect();
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
            ledger: Ledger::new(publishers.len() + mortals.len(), subscribers.len(), retained),
            publishers,
            subscribers,
            mortals,
            rng,
            paced: now,
            last_news: now,
            bytes: 0,
        })
    }

    /// The sessions of all clients.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Session> {
        let publishers = self.publishers.iter().map(|publisher| &publisher.session);
        let subscribers = self.subscribers.iter().map(|subscriber| &subscriber.session);
        publishers.chain(subscribers).chain(self.mortals.iter().map(|mortal| &mortal.session))
    }

    /// The sessions of all clients.
    pub(crate) fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        let publishers = self.publishers.iter_mut().map(|publisher| &mut publisher.session);
        let subscribers = self.subscribers.iter_mut().map(|subscriber| &mut subscriber.session);
        publishers.chain(subscribers).chain(self.mortals.iter_mut().map(|mortal| &mut mortal.session))
    }

    /// Bytes exchanged with the broker so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.sessions().map(Session::bytes).sum::<u64>()
    }

    /// One turn: reads input, does due work, writes. Returns the tokens of other owners' events.
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
            } else if token.0 < publishers + self.subscribers.len() + self.mortals.len() {
                self.read_mortal(token.0 - publishers - self.subscribers.len(), now);
            } else {
                others.push(token);
            }
        }
        if mood != Mood::Over {
            self.connect(mood, now)?;
            self.work(mood, now)?;
        }
        for session in self.sessions_mut() {
            session.flush();
            session.watch_former();
        }
        for mortal in &mut self.mortals {
            mortal.settle_life(&mut self.ledger);
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
            let (registry, ledger) = (self.poll.registry(), &mut self.ledger);
            for mortal in &mut self.mortals {
                let expected = expected(&self.subscribers, mortal.topic());
                mortal.live(&self.ports, registry, now, expected, ledger)?;
            }
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
                let mut expected = expected(&self.subscribers, &plan.topic);
                if let Some(asks) = &plan.asks {
                    // A node that was never there is unknown.
                    if expected.is_empty() || !asks.can_be_answered(&self.subscribers) {
                        continue;
                    }
                    if asks.terms.may_expire {
                        expected.clear();
                    }
                }
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
            let mut takes_over = leaves && self.rng.chance(TAKEOVER_PERCENT);
            if leaves {
                self.bytes += session.bytes();
                takes_over = takes_over && session.take_over();
                match (takes_over, self.rng.chance(50)) {
                    (true, _) => self.ledger.findings.totals.takeovers += 1,
                    (false, true) => session.depart()?,
                    (false, false) => session.cut(),
                }
            }
            if let Some(subscriber) = place.checked_sub(publishers).and_then(|place| self.subscribers.get_mut(place)) {
                subscriber.slow = self.rng.chance(40);
                if leaves {
                    subscriber.closed();
                } else {
                    subscriber.change_mind();
                }
            }
            if takes_over {
                // A subscriber connects when it is due.
                self.whims[place].next = now;
                continue;
            }
            let subscriber = place.checked_sub(publishers).and_then(|place| self.subscribers.get(place));
            let away = subscriber.map_or(AWAY, |own| own.away_ms.clone());
            let range = if leaves { away } else { HERE };
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

    fn read_mortal(&mut self, place: usize, now: Instant) {
        let mortal = &mut self.mortals[place];
        let (packets, alive, wrong) = mortal.session.receive();
        for packet in packets {
            if greeting(&packet, &mut mortal.session, &mut self.ledger, now).is_some() {
                mortal.opened(now);
            }
        }
        if !alive {
            self.bytes += mortal.session.bytes();
            ended(&mut mortal.session, wrong, &mut self.ledger, now);
        }
    }

    /// The broker is gone: reads the packets that it had sent before, because they count, and forgets the connections.
    pub(crate) fn aftermath(&mut self) -> Result<(), Failure> {
        let closed = self.ledger.findings.totals.closed_by_broker;
        let begun = Instant::now();
        let connected = |world: &Self| world.sessions().any(|session| session.phase != Phase::Away);
        // The end of each connection follows its last bytes; a child of the broker may hold it open longer.
        while connected(self) && begun.elapsed() < LAST_WORDS {
            let now = Instant::now();
            for place in 0..self.publishers.len() {
                self.read_publisher(place, now)?;
            }
            for place in 0..self.subscribers.len() {
                self.read_subscriber(place, now);
            }
            for place in 0..self.mortals.len() {
                self.read_mortal(place, now);
            }
        }
        for session in self.sessions_mut() {
            session.cut();
            session.drop_former();
        }
        self.subscribers.iter_mut().for_each(Subscriber::closed);
        for mortal in &mut self.mortals {
            mortal.settle_life(&mut self.ledger);
        }
        self.ledger.findings.totals.closed_by_broker = closed;
        Ok(())
    }

    /// Cuts the connections to one port, as clients do whose node does not answer.
    pub(crate) fn leave(&mut self, port: u16) {
        for publisher in self.publishers.iter_mut().filter(|publisher| publisher.session.port == port) {
            publisher.session.cut();
        }
        self.mortals.iter_mut().filter(|mortal| mortal.session.port == port).for_each(Mortal::cut);
        for subscriber in self.subscribers.iter_mut().filter(|subscriber| subscriber.session.port == port) {
            subscriber.session.cut();
            subscriber.closed();
        }
    }

    /// The node at a port is killed: the wills of its clients are due.
    pub(crate) fn bury(&mut self, port: u16) {
        self.mortals.iter_mut().filter(|mortal| mortal.session.port == port).for_each(Mortal::note_death);
    }

    /// Starts the rhythm of every client again from now on.
    pub(crate) fn wake(&mut self) {
        let now = Instant::now();
        self.paced = now;
        self.last_news = now;
        for place in 0..self.whims.len() {
            self.whims[place].next = now + Duration::from_millis(self.rng.within(0..200));
        }
    }
}

/// The clients that publish.
fn publishers(size: Size, seed: u64, rng: &mut Rng) -> Vec<Publisher> {
    let session = |name: String, version, index: u16| Session::new(name, version, true, Token(usize::from(index)));
    let usual = (0..size.publishers).map(|index| {
        let session = session(format!("publisher-{index}"), size.version(index % 2 == 1), index);
        Publisher::new(session, index, size.members > 0, rng.fork(u64::from(index)))
    });
    let mut publishers: Vec<_> = usual.collect();
    // A choice of its own, so that the other clients of a seed stay the same.
    let mut rng = Rng::new(seed ^ 0xa991);
    for number in 0..size.applications {
        let index = size.publishers + number;
        let session = session(format!("application-{number}"), Version::V5, index);
        let mut application = Publisher::new(session, index, false, rng.fork(u64::from(number)));
        application.is_application = true;
        publishers.push(application);
    }
    publishers
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
        let text = format!("{} received bytes that are no MQTT: {wrong}", session.name);
        ledger.findings.add(Finding::Unanswered, text, Vec::new());
    }
    session.lost(now);
}
