//! The core's clients on real sockets: one thread, one event loop.

mod clock;
mod connection;
mod coordinator;
mod deadlines;
mod dial;
mod files;
mod layers;
mod link;
mod quic;
mod tls;
mod wait;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use mio::event::Event;
use mio::{Events, Token};

pub(crate) use clock::Clock;
pub(crate) use connection::{Brought, Connection};
pub(crate) use coordinator::{Alone, Coordinator};
use deadlines::Deadlines;
pub(crate) use dial::{dial, resolve};
pub(crate) use layers::LayerSettings;
use link::{Link, LinkSettings};
pub(crate) use wait::Waiter;

use super::core::{Action, Core, Phase, Totals};
use super::error::LoadError;
use super::outcome::LoadOutcome;
use super::plan::LoadPlan;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 * 1024;
/// How often a connection is read before others have their turn.
const READS: usize = 4;
/// The loop wakes no more often than this for timers alone, in nanoseconds, so that messages due close together are sent
/// together.
const QUANTUM_NS: u64 = 50_000;
/// How long the end of connections is waited for, in nanoseconds.
const LINGER_NS: u64 = 2_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// For shorter times, the share of a core says nothing.
const SHORTEST_SHARE_NS: u64 = 10_000_000;

/// The clients of one process, running.
pub(crate) struct Shell<'a> {
    core: Core,
    plan: Rc<LoadPlan>,
    coordinator: &'a mut dyn Coordinator,
    clock: Clock,
    waiter: Waiter,
    connections: Vec<Option<Link>>,
    open: usize,
    /// The nodes of the broker; the core assigns clients to them.
    addresses: Vec<SocketAddr>,
    links: LinkSettings,
    deadlines: Deadlines,
    buffer: Vec<u8>,
    /// Connections that had more to read than their turn allowed.
    unread: Vec<u32>,
    dirty: Vec<u32>,
    next_source: usize,
    /// Whether any client reads slowly on purpose.
    has_slow: bool,
    totals: Totals,
    second_ends_ns: u64,
    cpu_ns: u64,
    measured: Measured,
    /// Connections that could not be made, by the error of the system, whose kinds are few.
    unmade: BTreeMap<String, u64>,
}

/// The resources that this process used in the measured time.
#[derive(Default)]
struct Measured {
    from: Option<(u64, u64)>,
    to: Option<(u64, u64)>,
}

impl<'a> Shell<'a> {
    /// The clients of worker number `worker`; the run's zero is the clock's.
    ///
    /// # Errors
    /// When the plan cannot be carried out, or the system refuses a resource of the loop.
    pub(crate) fn new(
        plan: LoadPlan,
        worker: u32,
        clock: Clock,
        coordinator: &'a mut dyn Coordinator,
    ) -> Result<Self, LoadError> {
        let plan = Rc::new(plan);
        let mut core = Core::new(&plan, worker)?;
        files::enough(core.clients().count() as u64)?;
        let mut subscribing = plan.groups.iter().filter_map(|group| group.role.subscribing());
        let has_slow = subscribing.any(|subscribing| subscribing.slow.is_some());
        let connections = (0..core.clients().count() * 2).map(|_| None).collect();
        Ok(Self {
            addresses: plan.target.places().map(|(host, port)| resolve(host, port)).collect::<Result<_, _>>()?,
            links: LinkSettings::of(&plan)?,
            deadlines: Deadlines::new(clock),
            core,
            plan,
            coordinator,
            clock,
            waiter: Waiter::new()?,
            connections,
            open: 0,
            buffer: vec![0; READ_BYTES],
            unread: Vec::new(),
            dirty: Vec::new(),
            next_source: worker as usize,
            has_slow,
            totals: Totals::new(),
            second_ends_ns: SECOND_NS,
            cpu_ns: Clock::cpu_ns(),
            measured: Measured::default(),
            unmade: BTreeMap::new(),
        })
    }

    /// Runs to the end of the plan.
    ///
    /// # Errors
    /// If the poll of the system fails.
    pub(crate) fn run(mut self) -> Result<LoadOutcome, LoadError> {
        let mut events = Events::with_capacity(1024);
        let mut over_ns = u64::MAX;
        loop {
            let now_ns = self.clock.now_ns();
            self.core.advance(now_ns);
            self.core.turn(now_ns);
            self.on_deadlines(now_ns);
            self.act(now_ns);
            self.flush_dirty();
            self.phases(now_ns)?;
            self.seconds(now_ns);
            if self.core.phase() == Phase::Over {
                over_ns = over_ns.min(now_ns + LINGER_NS);
                if self.open == 0 || now_ns >= over_ns {
                    return Ok(self.conclude());
                }
            }
            let next_ns = self.next_ns(now_ns);
            self.waiter.wait(&mut events, self.clock, next_ns)?;
            for connection in std::mem::take(&mut self.unread) {
                self.read(connection);
            }
            for event in &events {
                if event.token() != Waiter::TIMER {
                    self.on_event(event);
                }
            }
        }
    }

    /// Time of the next work.
    fn next_ns(&self, now_ns: u64) -> u64 {
        if self.core.is_eager() || !self.unread.is_empty() {
            return now_ns;
        }
        self.core
            .next_timer_ns()
            .unwrap_or(u64::MAX)
            .min(self.deadlines.next_ns())
            .max(now_ns + QUANTUM_NS)
            .min(self.second_ends_ns)
    }

    fn phases(&mut self, now_ns: u64) -> Result<(), LoadError> {
        if self.coordinator.is_stopped() && matches!(self.core.phase(), Phase::Gathering | Phase::Publishing) {
            self.core.stop(now_ns);
        }
        let times = self.core.times();
        if self.measured.from.is_none() && now_ns >= times.measured_from {
            self.measured.from = Some((now_ns, Clock::cpu_ns()));
        }
        if self.core.phase() == Phase::Gathering
            && self.core.gathered()
            && let Some(at_ns) = self.coordinator.gathered(now_ns)?
        {
            self.core.begin(at_ns);
        }
        if self.core.phase() == Phase::Publishing && self.core.all_sent(now_ns) {
            if self.totals.is_empty() {
                self.totals = self.core.totals();
            }
            if let Some(totals) = self.coordinator.all_sent(&self.totals)? {
                // Not before: a process that has only subscribers has sent everything at once, and works as long as the
                // others.
                self.measured.to.get_or_insert_with(|| (now_ns, Clock::cpu_ns()));
                self.totals = totals;
                self.core.drain(&self.totals, now_ns);
            }
        }
        Ok(())
    }

    fn seconds(&mut self, now_ns: u64) {
        while now_ns >= self.second_ends_ns {
            self.second_ends_ns += SECOND_NS;
            let cpu_ns = Clock::cpu_ns();
            let second = self.core.end_second(cpu_ns - self.cpu_ns);
            self.cpu_ns = cpu_ns;
            self.coordinator.second(&second);
        }
    }

    fn conclude(mut self) -> LoadOutcome {
        let now_ns = self.clock.now_ns();
        let cpu_ns = Clock::cpu_ns() - self.cpu_ns;
        self.core.end_second(cpu_ns);
        let mut outcome = self.core.conclude(&self.totals, now_ns);
        outcome.zero_unix_ns = self.clock.zero_unix_ns();
        for (why, times) in &self.unmade {
            outcome.note_problem(&format!("a connection could not be made: {why}"), *times);
        }
        if let (Some(from), Some(to)) = (self.measured.from, self.measured.to) {
            #[expect(clippy::cast_precision_loss, reason = "a share needs no more than a float has")]
            let share = to.1.saturating_sub(from.1) as f64 / to.0.saturating_sub(from.0).max(1) as f64;
            outcome.generator.cpu_ns = to.1.saturating_sub(from.1);
            if to.0.saturating_sub(from.0) >= SHORTEST_SHARE_NS {
                outcome.generator.busiest = share;
            }
        }
        outcome
    }

    fn act(&mut self, now_ns: u64) {
        // Acting may lead to more to do: a connection that the system refuses is closed at once.
        loop {
            let actions = self.core.clients().actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                match action {
                    Action::Dial(connection) => self.dial(connection, now_ns),
                    Action::Close(connection) => self.say_goodbye(connection),
                    Action::Cut(connection) => self.forget(connection),
                    Action::Read(connection, bytes) => {
                        self.read_once(connection, bytes);
                    }
                }
            }
        }
    }

    fn on_event(&mut self, event: &Event) {
        let connection = event.token().0 as u32;
        let Some(place) = &mut self.connections[connection as usize] else { return };
        if !place.is_connected() && !self.open_if_connected(connection) {
            return;
        }
        if event.is_writable() {
            self.flush(connection);
        }
        if event.is_read_closed()
            && let Some(place) = &mut self.connections[connection as usize]
        {
            place.note_end();
        }
        if event.is_readable() || event.is_error() || event.is_read_closed() {
            self.read(connection);
        }
    }

    fn read(&mut self, connection: u32) {
        if self.has_slow && self.core.reads_on_request(connection) {
            return;
        }
        for _ in 0..READS {
            if !self.read_once(connection, usize::MAX) {
                return;
            }
        }
        self.unread.push(connection);
    }

    /// Reads once; whether there is more.
    fn read_once(&mut self, connection: u32, limit: usize) -> bool {
        let Some(place) = &mut self.connections[connection as usize] else { return false };
        let read = place.read(&mut self.buffer, limit);
        let now_ns = self.clock.now_ns();
        let taken =
            read.as_ref().ok().and_then(|read| self.core.received(connection, &self.buffer[..read.len], now_ns));
        let (Ok(read), Some(taken), Some(place)) = (read, taken, &mut self.connections[connection as usize]) else {
            self.end(connection, now_ns);
            return false;
        };
        place.keep(&self.buffer[taken..read.len]);
        if place.has_opened() {
            self.core.opened(connection);
        }
        if read.is_closed {
            self.end(connection, now_ns);
            return false;
        }
        if place.has_own_output() {
            self.flush(connection);
        }
        self.arm(connection);
        read.is_full
    }

    fn end(&mut self, connection: u32, now_ns: u64) {
        self.forget(connection);
        self.core.closed(connection, now_ns);
    }

    fn forget(&mut self, connection: u32) {
        if let Some(mut place) = self.connections[connection as usize].take() {
            self.open -= 1;
            place.deregister(self.waiter.registry());
        }
    }

    fn dial(&mut self, connection: u32, now_ns: u64) {
        self.forget(connection);
        let source = match self.plan.sources.len() {
            0 => None,
            count => {
                self.next_source += 1;
                Some(self.plan.sources[self.next_source % count])
            }
        };
        let address = self.addresses[self.core.clients().address_of(connection)];
        let at = (self.waiter.registry(), Token(connection as usize));
        match self.links.dial(address, source, at) {
            Ok(link) => {
                self.connections[connection as usize] = Some(link);
                self.open += 1;
            }
            Err(error) => {
                self.note_unmade(&error);
                self.core.closed(connection, now_ns);
            }
        }
    }

    /// The system has not made a connection: there is no listener, or it has no ports or descriptors left.
    fn note_unmade(&mut self, error: &io::Error) {
        *self.unmade.entry(error.to_string()).or_default() += 1;
    }

    /// Whether a connection has been made; it is forgotten when it has failed.
    fn open_if_connected(&mut self, connection: u32) -> bool {
        let Some(place) = &mut self.connections[connection as usize] else { return false };
        match place.connect() {
            Ok(false) => {
                self.arm(connection);
                false
            }
            Ok(true) => {
                if place.has_opened() {
                    self.core.opened(connection);
                }
                self.flush(connection);
                true
            }
            Err(error) => {
                self.note_unmade(&error);
                self.end(connection, self.clock.now_ns());
                false
            }
        }
    }

    /// Handles the due timers of QUIC links.
    fn on_deadlines(&mut self, now_ns: u64) {
        while let Some(connection) = self.deadlines.next(now_ns) {
            let Some(Link::Quic(quic)) = &mut self.connections[connection as usize] else { continue };
            quic.armed_ns = u64::MAX;
            quic.on_time();
            if quic.is_connected() {
                // A link that was given up is found by reading.
                self.read(connection);
            } else {
                self.open_if_connected(connection);
            }
        }
    }

    /// Keeps in mind when a link of QUIC has something to do.
    fn arm(&mut self, connection: u32) {
        if let Some(Link::Quic(quic)) = &mut self.connections[connection as usize] {
            self.deadlines.arm(connection, quic);
        }
    }

    fn flush_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.core.clients().take_dirty(&mut dirty);
        for connection in &dirty {
            self.flush(*connection);
        }
        self.dirty = dirty;
    }

    fn flush(&mut self, connection: u32) {
        let Some(place) = &mut self.connections[connection as usize] else { return };
        let keep = self.core.clients().writes_often(connection);
        let written = match self.core.clients().output(connection) {
            Some(output) => place.flush(output, keep),
            None => place.flush_own(),
        };
        if written.is_err() {
            self.end(connection, self.clock.now_ns());
        } else {
            self.core.drained(connection);
            self.arm(connection);
        }
    }

    /// A client leaves: the rest of its output, then its farewell. The broker closes the connection.
    fn say_goodbye(&mut self, connection: u32) {
        self.flush(connection);
        let Some(place) = &mut self.connections[connection as usize] else { return };
        if place.say_last(&Core::FAREWELL).is_err() {
            self.forget(connection);
        }
    }
}
