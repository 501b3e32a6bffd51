//! An exchange is carried out: one thread, one event loop, whatever the protocol.

mod conclude;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Token};

use super::books::{Books, Heard};
use super::datagrams::Datagrams;
use super::party::{Carriage, Member, Party, Publisher};
use super::plan::ExchangePlan;
use super::{Problem, Role};
use crate::load::chance::Chance;
use crate::load::core::Output;
use crate::load::plan::Pace;
use crate::load::plan::Target;
use crate::load::schedule::Schedule;
use crate::load::shell::{Clock, Connection, LayerSettings, Waiter, dial, resolve};
use crate::load::stamp::Stamp;
use crate::load::{LoadError, LoadOutcome, Progress};

/// Tokens of listeners begin here; connections have tokens by number.
const LISTENERS: usize = 1 << 32;
/// Bytes that are read at a time.
const READ_BYTES: usize = 256 * 1024;
/// How often a connection is read before others have their turn.
const READS: usize = 4;
/// The loop wakes no more often than this for the schedule alone, in nanoseconds.
const QUANTUM_NS: u64 = 50_000;
const SECOND_NS: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
/// Carries out a plan, and returns when it has ended. `stop` ends it early.
///
/// # Errors
/// When the plan is impossible, or a system call fails. Refusals of the broker are part of the result.
pub fn run(plan: &ExchangePlan, progress: &mut dyn Progress, stop: &AtomicBool) -> Result<LoadOutcome, LoadError> {
    plan.validate()?;
    let mut exchange = Exchange::new(plan)?;
    exchange.connect()?;
    exchange.turn_until(progress, stop, |exchange, now_ns| {
        exchange.is_gathered() || now_ns >= exchange.plan.connect_timeout_ms * MILLI
    })?;
    exchange.begin(progress);
    exchange.turn_until(progress, stop, Exchange::has_sent)?;
    exchange.end_sending();
    progress.draining();
    exchange.turn_until(progress, stop, Exchange::has_drained)?;
    Ok(exchange.conclude(stop.load(Ordering::Relaxed)))
}

/// An exchange that runs.
struct Exchange<'a> {
    plan: &'a ExchangePlan,
    clock: Clock,
    waiter: Waiter,
    address: SocketAddr,
    /// TLS, if it is used.
    tls: Option<LayerSettings>,
    listeners: Vec<TcpListener>,
    parties: Vec<Party>,
    publishers: Vec<Publisher>,
    /// Connections that are due, ready or not.
    expected: usize,
    ready: usize,
    filler: Vec<u8>,
    buffer: Vec<u8>,
    books: Books,
    second_ends_ns: u64,
    cpu_ns: u64,
    measured_cpu: Option<(u64, u64)>,
}

impl<'a> Exchange<'a> {
    fn new(plan: &'a ExchangePlan) -> Result<Self, LoadError> {
        let publishers = plan.publishers as usize;
        let pairs = (plan.publishers * plan.fan_out()) as usize;
        Ok(Self {
            plan,
            clock: Clock::start(),
            waiter: Waiter::new()?,
            address: resolve(&plan.host, plan.port)?,
            tls: tls(plan)?,
            listeners: Vec::new(),
            parties: Vec::new(),
            publishers: (0..publishers).map(|_| Publisher::default()).collect(),
            expected: if plan.protocol.is_brokerless() { 2 * pairs } else { publishers + plan.subscribers as usize },
            ready: 0,
            filler: vec![0; plan.size as usize],
            buffer: vec![0; READ_BYTES],
            books: Books::new(plan),
            second_ends_ns: SECOND_NS,
            cpu_ns: Clock::cpu_ns(),
            measured_cpu: None,
        })
    }

    /// Begins all connections.
    fn connect(&mut self) -> Result<(), LoadError> {
        let (publishers, subscribers) = (self.plan.publishers as usize, self.plan.subscribers as usize);
        if !self.plan.protocol.is_brokerless() {
            // Subscribers first, so that no message is missed.
            (0..subscribers).for_each(|subscriber| self.dial(self.address, Member::Subscriber(subscriber)));
            (0..publishers).for_each(|publisher| self.dial(self.address, Member::Publisher(publisher)));
            return Ok(());
        }
        for publisher in 0..publishers {
            let mut address = self.address;
            address.set_port(self.address.port().wrapping_add(publisher as u16));
            if self.address.port() == 0 {
                address.set_port(0);
            }
            let address =
                self.listen(address).map_err(|error| LoadError::System { part: "a port to listen on", error })?;
            let dialling = if self.plan.pairs { publisher..publisher + 1 } else { 0..subscribers };
            dialling.for_each(|subscriber| self.dial(address, Member::Subscriber(subscriber)));
        }
        Ok(())
    }

    /// Listens; on which address, since the system chooses the port when it is 0.
    fn listen(&mut self, address: SocketAddr) -> std::io::Result<SocketAddr> {
        let mut listener = TcpListener::bind(address)?;
        let token = Token(LISTENERS + self.listeners.len());
        self.waiter.registry().register(&mut listener, token, Interest::READABLE)?;
        let address = listener.local_addr()?;
        self.listeners.push(listener);
        Ok(address)
    }

    fn dial(&mut self, address: SocketAddr, member: Member) {
        self.books.outcome.connections.dialled += 1;
        if self.plan.protocol.is_in_datagrams() {
            return match Datagrams::to(address, self.waiter.registry(), Token(self.parties.len())) {
                Ok(datagrams) => self.enter(Carriage::Datagrams(datagrams), member),
                Err(error) => self.gave_up(&self.unreachable(&error)),
            };
        }
        match dial(address, None) {
            Ok(stream) => self.add(stream, member),
            Err(error) => self.gave_up(&self.unreachable(&error)),
        }
    }

    fn unreachable(&self, error: &std::io::Error) -> Problem {
        let place = &self.address;
        Problem::new(format!("{place} cannot be reached: {error}; start the broker, or check host and port"))
    }

    fn add(&mut self, mut stream: TcpStream, member: Member) {
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.waiter.registry().register(&mut stream, Token(self.parties.len()), interest) {
            return self.gave_up(&self.unreachable(&error));
        }
        let connection = match &self.tls {
            Some(tls) => Connection::within(stream, tls),
            None => Connection::plain(stream),
        };
        self.enter(Carriage::Stream(connection), member);
    }

    fn enter(&mut self, carriage: Carriage, member: Member) {
        let driver = match member {
            Member::Publisher(publisher) => {
                self.publishers[publisher].parties.push(self.parties.len());
                self.plan.driver(Role::Publish, publisher)
            }
            Member::Subscriber(subscriber) => self.plan.driver(Role::Subscribe, subscriber),
        };
        self.parties.push(Party::new(driver, carriage, member));
    }

    /// A connection failed before it was ready: nothing waits for it.
    fn gave_up(&mut self, why: &Problem) {
        self.books.outcome.note_problem(&why.0, 1);
        self.expected = self.expected.saturating_sub(1);
        self.books.outcome.connections.broken += 1;
        self.books.meter.current.failed += 1;
    }

    fn is_gathered(&self) -> bool {
        self.ready >= self.expected
    }

    fn begin(&mut self, progress: &mut dyn Progress) {
        let now_ns = self.clock.now_ns();
        progress.began(now_ns);
        self.note_silence();
        let outcome = &mut self.books.outcome;
        outcome.connections.timed_out = self.expected.saturating_sub(self.ready) as u64;
        (outcome.began_ns, outcome.measured_from_ns) = (now_ns, now_ns + self.plan.warm_up_ms * MILLI);
        outcome.measured_to_ns = outcome.measured_from_ns + self.plan.duration_ms * MILLI;
        for (number, publisher) in (0..).zip(&mut self.publishers) {
            let chance = Chance::of_part(self.plan.seed, u64::from(number));
            publisher.schedule = Schedule::of(self.plan.pace, number, self.plan.publishers, now_ns, chance);
        }
        self.measured_cpu = Some((now_ns, Clock::cpu_ns()));
    }

    /// Parties without an answer by now are no longer awaited.
    fn note_silence(&mut self) {
        let silent = self.expected.saturating_sub(self.ready) as u64;
        if silent > 0 {
            let (name, seconds) = (self.plan.protocol.name(), self.plan.connect_timeout_ms / 1000);
            let problem =
                format!("no end of the handshake within {seconds} s; check that {} speaks {name}", self.address);
            self.books.outcome.note_problem(&problem, silent);
        }
    }

    /// Runs turns until the condition holds, or the run is to stop.
    fn turn_until(
        &mut self,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
        reached: impl Fn(&Self, u64) -> bool,
    ) -> Result<(), LoadError> {
        let mut events = Events::with_capacity(512);
        loop {
            let now_ns = self.clock.now_ns();
            let next_ns = self.publish(now_ns);
            (0..self.parties.len()).for_each(|party| self.flush(party));
            self.seconds(now_ns, progress);
            if reached(self, now_ns) || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let next_ns = if self.parties.iter().any(|party| party.is_unread) { now_ns } else { next_ns };
            self.waiter.wait(&mut events, self.clock, next_ns.min(self.second_ends_ns))?;
            for party in 0..self.parties.len() {
                if std::mem::take(&mut self.parties[party].is_unread) {
                    self.read(party);
                }
            }
            for event in &events {
                match event.token() {
                    Waiter::TIMER => {}
                    Token(token) if token >= LISTENERS => self.accept(token - LISTENERS),
                    Token(party) => self.read(party),
                }
            }
        }
    }

    fn accept(&mut self, publisher: usize) {
        while let Ok((stream, _)) = self.listeners[publisher].accept() {
            if stream.set_nodelay(true).is_ok() {
                self.add(stream, Member::Publisher(publisher));
            }
        }
    }

    /// Publishes due messages; returns the time of the next one.
    fn publish(&mut self, now_ns: u64) -> u64 {
        let mut next_ns = u64::MAX;
        if self.books.outcome.began_ns == 0 {
            return next_ns;
        }
        for publisher in 0..self.publishers.len() {
            while let Some(due_ns) = self.due(publisher, now_ns) {
                if due_ns > now_ns {
                    next_ns = next_ns.min(due_ns.max(now_ns + QUANTUM_NS));
                    break;
                }
                let is_late = self.publishers[publisher].schedule.is_some();
                let scheduled_ns = if is_late { due_ns } else { now_ns };
                if is_late {
                    let lag_ns = now_ns - due_ns;
                    if due_ns >= self.books.outcome.measured_from_ns {
                        self.books.outcome.generator.lag.record(lag_ns);
                    }
                    self.books.meter.current.lag_ns = self.books.meter.current.lag_ns.max(lag_ns);
                }
                self.send(publisher, scheduled_ns);
            }
        }
        next_ns
    }

    /// When a publisher may send its next message; `None` when it has to wait for others, or is done.
    fn due(&self, publisher: usize, now_ns: u64) -> Option<u64> {
        let place = &self.publishers[publisher];
        let is_ready = place.parties.iter().any(|party| self.parties[*party].is_ready());
        let is_full = place.parties.iter().any(|party| self.parties[*party].is_crowded());
        if !is_ready || is_full || place.is_done || place.sent >= self.plan.messages.unwrap_or(u64::MAX) {
            return None;
        }
        let due_ns = match (&place.schedule, self.plan.pace) {
            (Some(schedule), _) => schedule.next_ns(),
            (None, Pace::Closed { window }) => {
                let all = place.warm_up + place.sent;
                let settled = self.books.settled[publisher].checked_div(u64::from(self.plan.fan_out()));
                let settled = settled.unwrap_or(all);
                let waiting = if self.plan.acknowledged { place.in_flight.len() as u64 } else { 0 };
                if all.saturating_sub(settled).max(waiting) >= u64::from(window) {
                    return None;
                }
                now_ns
            }
            (None, Pace::Open { .. }) => return None,
        };
        (due_ns < self.books.outcome.measured_to_ns).then_some(due_ns)
    }

    fn send(&mut self, publisher: usize, scheduled_ns: u64) {
        let place = &mut self.publishers[publisher];
        let is_measured = scheduled_ns >= self.books.outcome.measured_from_ns;
        let (mark, count) = if is_measured {
            (self.books.marks.measured, &mut place.sent)
        } else {
            (self.books.marks.warm_up, &mut place.warm_up)
        };
        let stamp = Stamp { mark, stream: publisher as u32, sequence: *count as u32, scheduled_ns };
        *count += 1;
        let bytes = stamp.to_bytes();
        self.filler[..bytes.len()].copy_from_slice(&bytes);
        if let Some(schedule) = &mut place.schedule {
            schedule.step();
        }
        if self.plan.acknowledged {
            place.in_flight.push_back(scheduled_ns);
        }
        for party in &place.parties {
            self.parties[*party].publish(&self.filler);
        }
        if is_measured {
            let counts = &mut self.books.outcome.groups[0].counts;
            counts.sent += 1;
            counts.bytes_sent += u64::from(self.plan.size);
        }
        self.books.meter.current.sent += 1;
    }

    fn flush(&mut self, party: usize) {
        let place = &mut self.parties[party];
        place.driver.end_turn(&mut place.out.bytes);
        let has_output = place.out.len() > 0;
        let wants = |connection: &&mut Carriage| has_output || connection.has_own_output();
        let Some(connection) = place.connection.as_mut().filter(wants) else { return };
        if let Err(error) = connection.flush(&mut place.out, true) {
            self.lose(party, &broke(&error));
        }
    }

    fn read(&mut self, party: usize) {
        if !self.parties[party].has_connected() {
            match self.parties[party].connect() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.lose(party, &self.unreachable(&error)),
            }
        }
        for _ in 0..READS {
            match self.read_once(party) {
                Ok(true) => {}
                Ok(false) => return,
                Err(problem) => return self.lose(party, &problem),
            }
        }
        self.parties[party].is_unread = true;
    }

    /// Reads once; whether there is more, or why the connection is of no use any more.
    fn read_once(&mut self, party: usize) -> Result<bool, Problem> {
        let place = &mut self.parties[party];
        let Some(connection) = &mut place.connection else { return Ok(false) };
        let brought = connection.read(&mut self.buffer).map_err(|error| broke(&error))?;
        let now_ns = self.clock.now_ns();
        let mut heard =
            Heard { books: &mut self.books, publishers: &mut self.publishers, member: place.member, now_ns };
        let was_ready = place.driver.is_ready();
        let taken = place.driver.received(&self.buffer[..brought.len], &mut place.out.bytes, &mut heard)?;
        connection.keep(&self.buffer[taken..brought.len]);
        if !was_ready && place.driver.is_ready() {
            self.ready += 1;
            self.books.outcome.connections.accepted += 1;
            self.books.meter.current.accepted += 1;
            if self.books.outcome.product.is_none() {
                self.books.outcome.product = place.driver.product();
            }
        }
        if !brought.is_closed {
            return Ok(brought.is_full);
        }
        let name = self.plan.protocol.name();
        Err(Problem::new(if place.driver.is_ready() {
            "the broker closed the connection; see its log".to_owned()
        } else {
            let place = &self.address;
            format!(
                "the broker closed all connections before the login; check that {place} speaks {name}, and user and password"
            )
        }))
    }

    fn lose(&mut self, party: usize, why: &Problem) {
        let place = &mut self.parties[party];
        let was_ready = place.is_ready();
        if place.connection.take().is_none() {
            return;
        }
        place.out = Output::default();
        if was_ready {
            self.books.outcome.note_problem(&why.0, 1);
            self.books.outcome.connections.lost += 1;
            self.books.meter.current.lost += 1;
        } else {
            self.gave_up(why);
        }
    }

    fn seconds(&mut self, now_ns: u64, progress: &mut dyn Progress) {
        while now_ns >= self.second_ends_ns {
            self.second_ends_ns += SECOND_NS;
            for party in self.parties.iter_mut().filter(|party| party.has_connected()) {
                party.driver.each_second(&mut party.out.bytes);
            }
            let cpu_ns = Clock::cpu_ns();
            let connected = self.parties.iter().filter(|party| party.is_ready()).count();
            let second = self.books.meter.end_second(connected as u64, cpu_ns - self.cpu_ns);
            self.cpu_ns = cpu_ns;
            self.books.outcome.series.push(second);
            progress.second(&second);
        }
    }

    fn has_sent(&self, now_ns: u64) -> bool {
        let over_ns = self.books.outcome.measured_to_ns;
        let is_over = now_ns >= over_ns;
        let is_behind = |publisher: &Publisher| {
            let schedule = publisher.schedule.as_ref();
            publisher.sent < self.plan.messages.unwrap_or(u64::MAX)
                && schedule.is_none_or(|schedule| schedule.next_ns() < over_ns)
        };
        let all_sent = !self.publishers.iter().any(is_behind);
        all_sent
            || self.is_deserted()
            || (is_over && (self.plan.pace_is_closed() || now_ns >= over_ns + self.plan.drain_ms * MILLI))
    }

    fn due_deliveries(&self) -> u64 {
        self.publishers.iter().map(|publisher| publisher.sent).sum::<u64>() * u64::from(self.plan.fan_out())
    }

    /// Whether all parties have left, or none ever connected.
    fn is_deserted(&self) -> bool {
        self.ready == 0 || self.parties.iter().all(|party| party.connection.is_none())
    }

    fn has_drained(&self, now_ns: u64) -> bool {
        let outcome = &self.books.outcome;
        let is_complete = outcome.groups[1].counts.received >= self.due_deliveries()
            && self.publishers.iter().all(|publisher| publisher.in_flight.is_empty());
        is_complete
            || self.is_deserted()
            || now_ns >= outcome.last_ns.max(outcome.measured_to_ns) + self.plan.drain_ms * MILLI
    }
}

/// The TLS of a plan that asks for it.
fn tls(plan: &ExchangePlan) -> Result<Option<LayerSettings>, LoadError> {
    let agreed = plan.protocol.agreed().filter(|_| plan.tls);
    agreed.map(|agreed| LayerSettings::secured(&Target::tcp(&plan.host, plan.port), agreed)).transpose()
}

/// The system's reason for the end of a connection.
fn broke(error: &std::io::Error) -> Problem {
    // Over UDP this is the only way to find out.
    if error.kind() == std::io::ErrorKind::ConnectionRefused {
        return Problem::new(format!("no answer: {error}; start the broker, or check host and port"));
    }
    Problem::new(format!("the connection broke: {error}; see the broker's log"))
}

impl ExchangePlan {
    const fn pace_is_closed(&self) -> bool {
        matches!(self.pace, Pace::Closed { .. })
    }
}

#[cfg(test)]
mod tests;
