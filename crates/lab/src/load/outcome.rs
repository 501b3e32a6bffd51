//! The result of a plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use super::rounds::Rounds;

/// Most distinct problems in a result; a run with more has one cause in truth.
const PROBLEMS_MOST: usize = 20;

/// The result of a plan, in exact numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// The run's zero on the system's clock, in nanoseconds since 1970: the first client dials then. All other times
    /// are nanoseconds since this one.
    pub zero_unix_ns: u64,
    /// When publishing began, warm-up included.
    pub began_ns: u64,
    /// When measuring began: earlier scheduled messages are not counted below.
    pub measured_from_ns: u64,
    /// When the last measured message was scheduled, at the latest.
    pub measured_to_ns: u64,
    /// The last receipt of a measured message, or the last acknowledgement without subscribers.
    pub last_ns: u64,
    /// The longest time while measuring in which no client received a message, in nanoseconds; of several processes,
    /// the shortest of their values. `None` when no message was received.
    #[serde(default)]
    pub silence_ns: Option<u64>,
    /// Messages.
    pub counts: Counts,
    /// Why messages did not arrive.
    pub losses: Losses,
    /// Connections.
    pub connections: Connections,
    /// From the scheduled time to the receipt by a subscriber or requester.
    pub latency: Histogram,
    /// From the scheduled time to PUBACK or PUBCOMP.
    pub acknowledgement: Histogram,
    /// From dialling to the answer to CONNECT.
    pub connecting: Histogram,
    /// From SUBSCRIBE to SUBACK.
    pub subscribing: Histogram,
    /// The same for each group, in the order of the plan.
    pub groups: Vec<GroupOutcome>,
    /// Second by second, from the run's zero.
    pub series: Vec<Second>,
    /// The generator itself.
    pub generator: Generator,
    /// Problems with connections and refusals of the broker, each with a remedy, and how often.
    #[serde(default)]
    pub problems: BTreeMap<String, u64>,
    /// The broker's product name and version, if the protocol has them.
    #[serde(default)]
    pub product: Option<String>,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
}

impl LoadOutcome {
    /// Takes in another process's part of the same run.
    pub fn add(&mut self, other: &Self) {
        let is_first = self.groups.is_empty();
        if is_first {
            self.zero_unix_ns = other.zero_unix_ns;
            (self.began_ns, self.measured_from_ns) = (other.began_ns, other.measured_from_ns);
            self.groups.clone_from(&other.groups);
        } else {
            for (group, of_other) in self.groups.iter_mut().zip(&other.groups) {
                group.counts.add(&of_other.counts);
                group.latency.add(&of_other.latency);
                match (&mut group.rounds, &of_other.rounds) {
                    (Some(rounds), Some(of_other)) => rounds.add(of_other),
                    (rounds, of_other) => *rounds = rounds.take().or_else(|| of_other.clone()),
                }
            }
        }
        self.measured_to_ns = self.measured_to_ns.max(other.measured_to_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.silence_ns = match (self.silence_ns, other.silence_ns) {
            (Some(here), Some(there)) => Some(here.min(there)),
            (here, there) => here.or(there),
        };
        self.counts.add(&other.counts);
        self.losses.add(&other.losses);
        self.connections.add(&other.connections);
        self.latency.add(&other.latency);
        self.acknowledgement.add(&other.acknowledgement);
        self.connecting.add(&other.connecting);
        self.subscribing.add(&other.subscribing);
        for (second, of_other) in self.series.iter_mut().zip(&other.series) {
            second.add(of_other);
        }
        let known = self.series.len().min(other.series.len());
        self.series.extend_from_slice(&other.series[known..]);
        self.generator.lag.add(&other.generator.lag);
        self.generator.cpu_ns += other.generator.cpu_ns;
        self.generator.busiest = self.generator.busiest.max(other.generator.busiest);
        self.stopped |= other.stopped;
        other.problems.iter().for_each(|(problem, times)| self.note_problem(problem, *times));
        self.product = self.product.take().or_else(|| other.product.clone());
    }

    /// Notes the receipt of a measured message; `from_ns` is when measuring began.
    #[inline]
    pub(crate) fn note_receipt(&mut self, from_ns: u64, now_ns: u64) {
        let silence_ns = now_ns.saturating_sub(self.last_ns.max(from_ns));
        self.silence_ns = Some(self.silence_ns.unwrap_or_default().max(silence_ns));
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// A receiver without a further message was silent until the end.
    pub(crate) fn note_end(&mut self) {
        let silence_ns = self.measured_to_ns.saturating_sub(self.last_ns.max(self.measured_from_ns));
        self.silence_ns = self.silence_ns.map(|longest| longest.max(silence_ns));
    }

    /// Counts a problem. Of many texts, the first ones are kept.
    pub fn note_problem(&mut self, problem: &str, times: u64) {
        if let Some(known) = self.problems.get_mut(problem) {
            *known += times;
        } else if self.problems.len() < PROBLEMS_MOST {
            self.problems.insert(problem.to_owned(), times);
        }
    }

    /// The measured time in seconds: from the begin of measuring to the last receipt, or to the end of the plan when
    /// that is later.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than a float has")]
    pub fn measured_seconds(&self) -> f64 {
        self.last_ns.max(self.measured_to_ns).saturating_sub(self.measured_from_ns) as f64 / 1e9
    }
}

/// Measured messages. A message to three subscribers is sent once, due three times and received up to three times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Scheduled by the plan.
    pub offered: u64,
    /// Given to a connection.
    pub sent: u64,
    /// Acknowledged by the broker (QoS 1 and 2).
    pub acknowledged: u64,
    /// Refused by the broker in an acknowledgement (MQTT 5).
    pub refused: u64,
    /// Deliveries due: to each subscriber, each message sent that its filters match.
    pub due: u64,
    /// Due deliveries that arrived, each counted once.
    pub received: u64,
    /// Deliveries that had arrived before.
    pub duplicates: u64,
    /// Deliveries that came after a later message of the same publisher and topic.
    pub reordered: u64,
    /// Deliveries that arrived after the deadline.
    pub late: u64,
    /// Deliveries that were due and came late or never, and deliveries of messages offered that were never sent
    /// (LAV-15).
    pub deadline_misses: u64,
    /// Bytes of payload sent.
    pub bytes_sent: u64,
    /// Bytes of payload received.
    pub bytes_received: u64,
    /// Messages that relays have passed on.
    #[serde(default)]
    pub passed_on: u64,
    /// Bytes of payload that relays have passed on.
    #[serde(default)]
    pub bytes_passed_on: u64,
    /// Messages sent to warm up; they count nowhere else.
    pub warm_up: u64,
    /// Retained messages received at the begin of a subscription; they count nowhere else.
    pub retained: u64,
    /// Messages received that are not of this run.
    pub foreign: u64,
}

impl Counts {
    /// Takes in another process's or group's.
    pub fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.due += other.due;
        self.received += other.received;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.late += other.late;
        self.deadline_misses += other.deadline_misses;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.passed_on += other.passed_on;
        self.bytes_passed_on += other.bytes_passed_on;
        self.warm_up += other.warm_up;
        self.retained += other.retained;
        self.foreign += other.foreign;
    }

    /// Due deliveries that never arrived.
    pub const fn lost(&self) -> u64 {
        self.due.saturating_sub(self.received)
    }
}

/// Lost deliveries, by cause. Seen from outside, a cause is a conclusion; without one it is `unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// The broker refused the message in its acknowledgement.
    pub refused: u64,
    /// The subscriber was connected all the time and reads slowly on purpose: its queue was full.
    pub overflow: u64,
    /// The subscriber was away for longer than the message was to be kept.
    pub expiry: u64,
    /// The subscriber was away, or has lost its connection since.
    pub disconnect: u64,
    /// No cause is to be seen.
    pub unknown: u64,
    /// Messages (not deliveries) that were offered and never sent, since the publisher was away or the broker took no
    /// more. They are part of no other number here.
    pub unsent: u64,
}

impl Losses {
    /// Takes in another process's.
    pub fn add(&mut self, other: &Self) {
        self.refused += other.refused;
        self.overflow += other.overflow;
        self.expiry += other.expiry;
        self.disconnect += other.disconnect;
        self.unknown += other.unknown;
        self.unsent += other.unsent;
    }

    /// All deliveries that never arrived.
    pub const fn deliveries(&self) -> u64 {
        self.refused + self.overflow + self.expiry + self.disconnect + self.unknown
    }
}

/// Connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Dialled.
    pub dialled: u64,
    /// Accepted by CONNACK.
    pub accepted: u64,
    /// Refused by CONNACK.
    pub refused: u64,
    /// No connection or no answer within the time.
    pub timed_out: u64,
    /// Ended before the answer: refused by the system, reset, closed, or no TLS or WebSocket.
    pub broken: u64,
    /// Ended by the broker after they had been accepted.
    pub lost: u64,
    /// Subscriptions that the broker refused.
    pub subscriptions_refused: u64,
    /// The most at a time.
    pub most: u64,
    /// Clients that the broker has sent to another of the target's places (MQTT 5).
    #[serde(default)]
    pub handed_over: u64,
    /// Clients at each of the target's places when publishing was over; empty when there is one.
    #[serde(default)]
    pub at_places: Vec<u64>,
}

impl Connections {
    /// Takes in another process's. The greatest numbers at a time are added: they are reached together, or nearly so.
    pub fn add(&mut self, other: &Self) {
        self.dialled += other.dialled;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.broken += other.broken;
        self.lost += other.lost;
        self.subscriptions_refused += other.subscriptions_refused;
        self.most += other.most;
        self.handed_over += other.handed_over;
        self.at_places.resize(self.at_places.len().max(other.at_places.len()), 0);
        for (here, there) in self.at_places.iter_mut().zip(&other.at_places) {
            *here += there;
        }
    }

    /// Attempts that led to no connection.
    pub const fn failed(&self) -> u64 {
        self.refused + self.timed_out + self.broken
    }
}

/// The result of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Its name in the plan.
    pub name: String,
    /// Messages: sent by its clients, due to them, and received. `due` and the values derived from it are known for the
    /// whole run only.
    pub counts: Counts,
    /// From the scheduled time to the receipt.
    pub latency: Histogram,
    /// Round trips by node and order, where the plan asks for them.
    #[serde(default)]
    pub rounds: Option<Rounds>,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// The second, counted from the run's zero.
    pub second: u32,
    /// Messages sent, warm-up included.
    pub sent: u64,
    /// Messages acknowledged.
    pub acknowledged: u64,
    /// Messages received, warm-up and duplicates included.
    pub received: u64,
    /// Clients connected at its end.
    pub connected: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Attempts that led to no connection.
    pub failed: u64,
    /// Connections lost.
    pub lost: u64,
    /// The median latency in nanoseconds; of several processes, the greatest.
    pub p50_ns: u64,
    /// The latency that 99 % do not exceed, in nanoseconds; of several processes, the greatest.
    pub p99_ns: u64,
    /// The greatest latency in nanoseconds.
    pub max_ns: u64,
    /// The greatest delay of the generator behind its schedule, in nanoseconds.
    pub lag_ns: u64,
    /// CPU time of the generator, in nanoseconds.
    pub cpu_ns: u64,
}

impl Second {
    /// Takes in the same second of another process.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.received += other.received;
        self.connected += other.connected;
        self.accepted += other.accepted;
        self.failed += other.failed;
        self.lost += other.lost;
        self.p50_ns = self.p50_ns.max(other.p50_ns);
        self.p99_ns = self.p99_ns.max(other.p99_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.lag_ns = self.lag_ns.max(other.lag_ns);
        self.cpu_ns += other.cpu_ns;
    }
}

/// The generator itself, whose limits would distort the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// How late the generator sent its scheduled messages, while measuring.
    pub lag: Histogram,
    /// CPU time while measuring, of all processes, in nanoseconds.
    pub cpu_ns: u64,
    /// The greatest share of one core that a process took while measuring, 0 to 1.
    pub busiest: f64,
    /// Why the run says more about the generator than about the broker, if it does.
    pub invalid: Option<String>,
}
