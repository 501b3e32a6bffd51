//! All clients of one process as a state machine: bytes and times go in, bytes and wishes come out. It owns no socket
//! and reads no clock, so that tests run it on a clock of their own against a broker whose every delay is known.

mod arrivals;
mod client;
mod clients;
mod conclude;
mod connect;
mod departures;
mod disturb;
pub(crate) mod meter;
mod packets;
mod populate;
mod publish;
mod publisher;
mod receive;
mod refusals;
mod run;
mod work;

use arrivals::Arrivals;
pub(crate) use client::Output;
use client::{Client, State};
use clients::Clients;
pub(crate) use conclude::Totals;
use departures::Departures;
use meter::Meter;
use publish::Publishers;
use receive::Receivers;
use refusals::Refusals;
use run::RunState;

use super::outcome::Second;
use super::timers::Timer;

/// Nanoseconds in a millisecond.
const MILLI: u64 = 1_000_000;

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
    /// Read at most this number of bytes of a connection that is read on request only.
    Read(u32, usize),
}

/// How an attempt to connect failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The CONNACK refused.
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
    run: RunState,
    publishers: Publishers,
    receivers: Receivers,
    refusals: Refusals,
    arrivals: Arrivals,
    departures: Departures,
}

impl Core {
    /// The last packet of a client: DISCONNECT.
    pub(crate) const FAREWELL: [u8; 2] = [0xE0, 0];

    /// The clients: requests to the network, and output.
    pub(crate) const fn clients(&mut self) -> &mut Clients {
        &mut self.run.clients
    }

    /// Attempts to connect so far.
    #[cfg(test)]
    pub(crate) const fn dialled(&self) -> u64 {
        self.run.books.connections.dialled
    }

    /// Whether a connection is read on request only.
    pub(crate) fn reads_on_request(&self, connection: u32) -> bool {
        self.run.reads_on_request(connection)
    }

    /// Whether publishers may go on at once.
    pub(crate) fn is_eager(&self) -> bool {
        self.publishers.is_eager()
    }

    /// A connection has taken its output: its publisher may go on.
    pub(crate) fn drained(&mut self, connection: u32) {
        self.publishers.drained(self.run.clients[connection / 2].publisher);
    }

    /// How far the run is.
    pub(crate) const fn phase(&self) -> Phase {
        self.run.phase
    }

    /// Its times, as far as they are known.
    pub(crate) const fn times(&self) -> Times {
        self.run.times
    }

    /// Whether all clients are connected and subscribed, or have failed to be.
    pub(crate) const fn gathered(&self) -> bool {
        self.arrivals.is_over()
    }

    /// Whether all messages are sent. Without publishers, clients stay for the measured time.
    pub(crate) fn all_sent(&self, now_ns: u64) -> bool {
        let no_publishers = !self.publishers.has_streams() && !self.run.books.stopped;
        self.publishers.are_finished() && (!no_publishers || now_ns >= self.run.times.measured_to)
    }

    /// The next deadline.
    pub(crate) fn next_timer_ns(&self) -> Option<u64> {
        self.run.next_timer_ns()
    }

    /// Publishing begins.
    pub(crate) fn begin(&mut self, at_ns: u64) {
        let run = &mut self.run;
        let measured_from = at_ns + run.plan.warm_up_ms * MILLI;
        let measured_to = measured_from + run.plan.duration_ms * MILLI;
        run.times = Times { began: at_ns, measured_from, measured_to };
        run.phase = Phase::Publishing;
        self.receivers.note_subscribed(run, |stream| self.publishers.add_subscriber(stream));
        self.publishers.start_all(run, at_ns);
        run.set_disturbances(at_ns);
        run.timers.set(measured_to, Timer::TimeIsOver);
    }

    /// Does all work due by now.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while let Some((at_ns, timer)) = self.run.timers.due(now_ns) {
            match timer {
                Timer::Ramp => self.arrivals.dial_due(&mut self.run, now_ns),
                Timer::Publish(publisher) => self.publishers.on_timer(&mut self.run, publisher, at_ns, now_ns),
                Timer::Ping { client, epoch } => self.run.ping(client, epoch, now_ns),
                Timer::Timeout { client, epoch } => self.timed_out(client, epoch, now_ns),
                Timer::Disturb { client, disturbance } => self.disturb(client, disturbance, now_ns),
                Timer::Return { client, epoch } => self.come_back(client, epoch, now_ns),
                Timer::Read { client, epoch } => self.run.read_slowly(client, epoch, now_ns),
                Timer::Worked { client } => self.receivers.worked(&mut self.run, client),
                Timer::TimeIsOver => self.publishers.end_time(&mut self.run, now_ns),
                Timer::Leave => self.departures.leave_next(&mut self.run, now_ns),
            }
        }
        if self.run.phase == Phase::Publishing && now_ns >= self.run.sending_ends_ns() {
            self.publishers.stop();
        }
        let all_settled = self.run.outstanding == Some(0);
        if self.run.phase == Phase::Draining && (all_settled || now_ns >= self.run.drain_ends_ns()) {
            self.leave(now_ns);
        }
    }

    /// Ends a turn: resumes publishers whose messages have returned.
    pub(crate) fn turn(&mut self, now_ns: u64) {
        self.publishers.turn(&mut self.run, now_ns);
    }

    /// Stops before the end: no more messages are sent.
    pub(crate) fn stop(&mut self, now_ns: u64) {
        let run = &mut self.run;
        run.books.stopped = true;
        run.times.measured_to = run.times.measured_to.min(now_ns);
        if run.phase == Phase::Gathering {
            run.times = Times { began: now_ns, measured_from: now_ns, measured_to: now_ns };
            run.phase = Phase::Publishing;
        }
        self.publishers.stop();
    }

    /// Ends a second; returns its numbers.
    pub(crate) fn end_second(&mut self, cpu_ns: u64) -> Second {
        self.run.end_second(cpu_ns)
    }
}
