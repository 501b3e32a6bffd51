//! All clients of one process as a state machine: bytes and times go in, bytes and wishes come out. It owns no socket
//! and reads no clock, so that tests run it on a clock of their own against a broker whose every delay is known.

mod client;
mod conclude;
mod connect;
mod disturb;
pub(crate) mod meter;
mod packets;
mod populate;
mod publish;
mod receive;
mod refusals;
mod work;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tidegate_mqtt::Version;

pub(crate) use client::{Client, Output, State};
pub(crate) use conclude::Totals;
use meter::Meter;
use publish::Publisher;
use receive::Receiver;
use refusals::Refusals;
use work::Work;

use super::directory::Directory;
use super::ledger::Ledger;
use super::outcome::{LoadOutcome, Second};
use super::plan::{Begin, LoadPlan};
use super::rounds::RoundBooks;
use super::stamp::Marks;
use super::timers::{Timer, Timers};

/// No publisher, no receiver.
const NONE: u32 = u32::MAX;

/// A request of the core to the network. A connection has the number of its client times two, plus one for every other
/// connection of a client, so that a client can have a new one before the old one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Open this connection.
    Dial(u32),
    /// Write the pending output and a farewell, then close.
    Close(u32),
    /// Close without a farewell.
    Cut(u32),
    /// Read at most so many bytes of a connection that is read on request only.
    Read(u32, usize),
}

/// How an attempt to connect failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The CONNACK said no.
    Refused,
    /// There was no answer in time.
    TimedOut,
    /// The connection ended.
    Broken,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Clients connect; no messages are published.
    Gathering,
    /// Messages are published.
    Publishing,
    /// All messages are sent; missing ones are awaited.
    Draining,
    /// Clients leave.
    Leaving,
    /// All work is done.
    Over,
}

/// The times of a run, in nanoseconds since its zero; the greatest until they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) began: u64,
    pub(crate) measured_from: u64,
    pub(crate) measured_to: u64,
}

impl Times {
    const UNKNOWN: Self = Self { began: u64::MAX, measured_from: u64::MAX, measured_to: u64::MAX };
}

/// All clients of one process.
pub(crate) struct Core {
    plan: Rc<LoadPlan>,
    version: Version,
    marks: Marks,
    directory: Directory,
    clients: Vec<Client>,
    publishers: Vec<Publisher>,
    receivers: Vec<Receiver>,
    /// Which publisher of this process has a stream.
    owners: Vec<u32>,
    /// How many messages a respondent has sent on each stream of its own, and the number of respondents by client.
    answered: HashMap<u32, u32>,
    respondents: HashMap<u32, u32>,
    /// Messages that the broker has refused, by stream.
    refused: HashMap<u32, u32>,
    refusals: Refusals,
    /// Packet ids of QoS 2 that a client has received and that were not released.
    held: HashMap<u32, HashSet<u16>>,
    /// Publishers that may continue, since one of their messages has arrived.
    eager: Vec<u32>,
    ledger: Ledger,
    timers: Timers,
    phase: Phase,
    times: Times,
    /// The next client of the ramp, connecting clients, and clients that are neither ready nor given up.
    next_dial: usize,
    on_their_way: u32,
    pending: u32,
    next_to_leave: usize,
    /// Deliveries that are still due, once it is known how many there are.
    outstanding: Option<u64>,
    publishing: u32,
    connected: u64,
    /// The filler of payloads, by group.
    fillers: Vec<Vec<u8>>,
    /// The document of the message that is being sent.
    document: Vec<u8>,
    books: LoadOutcome,
    meter: Meter,
    actions: Vec<Action>,
    dirty: Vec<u32>,
    /// Round trips, by group, where they are asked for.
    rounds: Vec<Option<RoundBooks>>,
    /// Relays that have work to do with each message.
    at_work: HashMap<u32, Work>,
}

impl Core {
    /// The requests to the network since the last time.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Connections with output since the last time; exchanged for an empty list, whose memory is used again.
    pub(crate) fn take_dirty(&mut self, into: &mut Vec<u32>) {
        into.clear();
        std::mem::swap(into, &mut self.dirty);
        for connection in into.iter() {
            self.clients[(connection / 2) as usize].queued = false;
        }
    }

    /// The output of a connection; `None` when its client has another one by now.
    pub(crate) fn output(&mut self, connection: u32) -> Option<&mut Output> {
        let client = &mut self.clients[(connection / 2) as usize];
        (client.connection(connection / 2) == connection).then_some(&mut client.out)
    }

    /// Attempts to connect so far.
    #[cfg(test)]
    pub(crate) const fn dialled(&self) -> u64 {
        self.books.connections.dialled
    }

    /// The last packet of a client: DISCONNECT.
    pub(crate) const FAREWELL: [u8; 2] = [0xE0, 0];

    /// The target address of a connection.
    pub(crate) fn place_of(&self, connection: u32) -> usize {
        usize::from(self.clients[(connection / 2) as usize].place)
    }

    /// The number of clients.
    pub(crate) fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Whether a connection is read on request only: a slow reader is quick until it has subscribed.
    pub(crate) fn reads_on_request(&self, connection: u32) -> bool {
        let client = &self.clients[(connection / 2) as usize];
        let role = &self.plan.groups[usize::from(client.group)].role;
        client.state == State::Ready
            && super::directory::subscribing(role).is_some_and(|subscribing| subscribing.slow.is_some())
    }

    /// How far the run is.
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// Its times, as far as they are known.
    pub(crate) const fn times(&self) -> Times {
        self.times
    }

    /// Whether all clients are connected and subscribed, or have failed to be.
    pub(crate) const fn gathered(&self) -> bool {
        self.pending == 0
    }

    /// Whether all messages are sent. Without publishers, clients stay for the measured time.
    pub(crate) fn all_sent(&self, now_ns: u64) -> bool {
        let no_publishers = self.directory.primary() == 0 && !self.books.stopped;
        self.publishing == 0 && (!no_publishers || now_ns >= self.times.measured_to)
    }

    /// The next deadline.
    pub(crate) fn next_timer_ns(&self) -> Option<u64> {
        let phase_ends = match self.phase {
            Phase::Publishing => Some(self.sending_ends_ns()),
            Phase::Draining => Some(self.drain_ends_ns()),
            Phase::Gathering | Phase::Leaving | Phase::Over => None,
        };
        [self.timers.next_ns(), phase_ends].into_iter().flatten().min()
    }

    /// Publishing begins.
    pub(crate) fn begin(&mut self, at_ns: u64) {
        let millis = 1_000_000;
        let measured_from = at_ns + self.plan.warm_up_ms * millis;
        let measured_to = measured_from + self.plan.duration_ms * millis;
        self.times = Times { began: at_ns, measured_from, measured_to };
        self.phase = Phase::Publishing;
        self.note_who_is_there();
        for publisher in 0..self.publishers.len() as u32 {
            let client = self.publishers[publisher as usize].client;
            if self.plan.begin == Begin::WhenReady || self.clients[client as usize].state == State::Ready {
                self.start(publisher, at_ns);
            }
        }
        self.set_disturbances(at_ns);
        self.timers.set(measured_to, Timer::TimeIsOver);
    }

    /// Does all work due by now.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while let Some((at_ns, timer)) = self.timers.due(now_ns) {
            match timer {
                Timer::Ramp => self.dial_due(now_ns),
                Timer::Publish(publisher) => {
                    if !self.publishers[publisher as usize].is_closed() {
                        self.note_lag(at_ns, now_ns);
                    }
                    self.publishers[publisher as usize].armed = false;
                    self.pump(publisher, now_ns);
                }
                Timer::Ping { client, epoch } => self.ping(client, epoch, now_ns),
                Timer::Timeout { client, epoch } => self.timed_out(client, epoch, now_ns),
                Timer::Disturb { client, disturbance } => self.disturb(client, disturbance, now_ns),
                Timer::Return { client, epoch } => self.come_back(client, epoch, now_ns),
                Timer::Read { client, epoch } => self.read_slowly(client, epoch, now_ns),
                Timer::Worked { client } => self.worked(client),
                Timer::TimeIsOver => self.end_time(now_ns),
                Timer::Leave => self.leave_next(now_ns),
            }
        }
        if self.phase == Phase::Publishing && now_ns >= self.sending_ends_ns() {
            self.publishing = 0;
        }
        if self.phase == Phase::Draining && (self.outstanding == Some(0) || now_ns >= self.drain_ends_ns()) {
            self.leave(now_ns);
        }
    }

    /// No more messages are scheduled: publishers without pending messages are done, and so are blocked ones.
    fn end_time(&mut self, now_ns: u64) {
        for publisher in 0..self.publishers.len() as u32 {
            let client = self.publishers[publisher as usize].client;
            match self.clients[client as usize].state {
                State::Gone | State::Waiting => self.finish(publisher),
                _ => self.pump(publisher, now_ns),
            }
        }
    }

    /// Ends a turn: publishers go on whose messages have come.
    pub(crate) fn turn(&mut self, now_ns: u64) {
        let mut eager = std::mem::take(&mut self.eager);
        for publisher in eager.drain(..) {
            self.publishers[publisher as usize].eager = false;
            self.pump(publisher, now_ns);
        }
        if self.eager.is_empty() {
            self.eager = eager;
        }
    }

    /// Stops before the end: no more messages are sent.
    pub(crate) fn stop(&mut self, now_ns: u64) {
        self.books.stopped = true;
        self.times.measured_to = self.times.measured_to.min(now_ns);
        if self.phase == Phase::Gathering {
            self.times = Times { began: now_ns, measured_from: now_ns, measured_to: now_ns };
            self.phase = Phase::Publishing;
        }
        self.publishing = 0;
    }

    /// The time until which publishers may send the messages scheduled before the end.
    fn sending_ends_ns(&self) -> u64 {
        self.times.measured_to.saturating_add(self.plan.drain_ms * 1_000_000)
    }

    /// The time after which missing messages count as lost.
    fn drain_ends_ns(&self) -> u64 {
        self.books.last_ns.max(self.times.measured_to).saturating_add(self.plan.drain_ms * 1_000_000)
    }

    fn note_lag(&mut self, at_ns: u64, now_ns: u64) {
        let lag_ns = now_ns - at_ns;
        self.meter.current.lag_ns = self.meter.current.lag_ns.max(lag_ns);
        if (self.times.measured_from..self.times.measured_to).contains(&at_ns) {
            self.books.generator.lag.record(lag_ns);
        }
    }

    /// Ends a second; returns its numbers.
    pub(crate) fn end_second(&mut self, cpu_ns: u64) -> Second {
        let second = self.meter.end_second(self.connected, cpu_ns);
        self.books.series.push(second);
        second
    }

    /// Marks a client's connection as having output.
    fn touch(&mut self, client: u32) {
        let place = &mut self.clients[client as usize];
        if !place.queued {
            place.queued = true;
            self.dirty.push(place.connection(client));
        }
    }
}
