//! What can be said of a run in one number.

use serde::{Deserialize, Serialize};

use super::Run;
use crate::sample::Sampled;

/// One number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Deliveries in a second, or acknowledged messages if there are no subscribers.
    Throughput,
    /// The share of the due deliveries that arrived.
    Delivered,
    /// Due deliveries that never arrived.
    Lost,
    /// Deliveries due that never came, for each five minutes of measuring (LAV-07).
    LostInFiveMinutes,
    /// The share of due messages that were late, lost, or never sent.
    DeadlineMisses,
    /// Deliveries that arrived again.
    Duplicates,
    /// Deliveries out of order.
    Reordered,
    /// The median latency from the scheduled time.
    LatencyP50,
    /// The latency that 99 % do not exceed.
    LatencyP99,
    /// The latency that 99.9 % do not exceed.
    LatencyP999,
    /// The longest latency.
    LatencyMax,
    /// The mean latency.
    LatencyMean,
    /// The shortest latency.
    LatencyMin,
    /// From the scheduled time to the acknowledgement: 99 % do not exceed it.
    AcknowledgedP99,
    /// CPU time of the broker for a delivery (or for a sent message if there are no subscribers).
    CpuPerDelivery,
    /// CPU time of the broker in a second of measuring, in cores.
    CpuMean,
    /// The most memory of the broker at a time.
    MemoryPeak,
    /// The growth of the broker's memory from before the first client to all of them, for each.
    MemoryPerClient,
    /// The broker's memory before the first client.
    MemoryIdle,
    /// Connections accepted.
    Accepted,
    /// The share of the connections dialled that were accepted.
    AcceptedShare,
    /// Connections that the broker ended.
    ConnectionsLost,
    /// From dialling to CONNACK: 99 % do not exceed it.
    ConnectP99,
    /// Connections accepted in a second while clients came.
    ConnectRate,
    /// Bytes of payload that the broker was given in a second.
    BytesIn,
    /// Bytes of payload that the broker delivered in a second.
    BytesOut,
    /// From the start of the broker to its first answer.
    ReadyAfter,
    /// The longest time without a delivery while publishers published.
    Silence,
    /// The share of the offered round trips that returned: the delivery rate TE of study CTX. A message that could not
    /// be sent has not returned; a late one has, and a duplicate counts once.
    Returned,
    /// The share of the nodes whose round trips all came back.
    NodesComplete,
    /// The standard deviation of the latency.
    LatencyDeviation,
    /// Clients sent to another gateway.
    HandedOver,
    /// How far the gateway that is farthest from an equal share of the clients is from it, at the end of publishing.
    Imbalance,
}

/// Which direction is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
}

impl Measure {
    /// All of them, in the order in which tables show them.
    pub const ALL: &[Self] = &[
        Self::Throughput,
        Self::Delivered,
        Self::Lost,
        Self::LostInFiveMinutes,
        Self::DeadlineMisses,
        Self::Duplicates,
        Self::Reordered,
        Self::LatencyP50,
        Self::LatencyP99,
        Self::LatencyP999,
        Self::LatencyMax,
        Self::LatencyMean,
        Self::LatencyMin,
        Self::AcknowledgedP99,
        Self::CpuPerDelivery,
        Self::CpuMean,
        Self::MemoryPeak,
        Self::MemoryPerClient,
        Self::MemoryIdle,
        Self::Accepted,
        Self::AcceptedShare,
        Self::ConnectionsLost,
        Self::ConnectP99,
        Self::ConnectRate,
        Self::BytesIn,
        Self::BytesOut,
        Self::ReadyAfter,
        Self::Silence,
        Self::Returned,
        Self::NodesComplete,
        Self::LatencyDeviation,
        Self::HandedOver,
        Self::Imbalance,
    ];

    /// Its name, and its unit.
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Throughput => ("Throughput", "messages/s"),
            Self::Delivered => ("Delivered", "%"),
            Self::Lost => ("Lost", "deliveries"),
            Self::LostInFiveMinutes => ("Lost in 5 minutes", "deliveries"),
            Self::DeadlineMisses => ("Deadline missed", "%"),
            Self::Duplicates => ("Duplicates", "deliveries"),
            Self::Reordered => ("Out of order", "deliveries"),
            Self::LatencyP50 => ("Latency, median", "ms"),
            Self::LatencyP99 => ("Latency, p99", "ms"),
            Self::LatencyP999 => ("Latency, p99.9", "ms"),
            Self::LatencyMax => ("Latency, longest", "ms"),
            Self::LatencyMean => ("Latency, mean", "ms"),
            Self::LatencyMin => ("Latency, shortest", "ms"),
            Self::AcknowledgedP99 => ("Acknowledged, p99", "ms"),
            Self::CpuPerDelivery => ("Broker CPU per delivery", "µs"),
            Self::CpuMean => ("Broker CPU", "cores"),
            Self::MemoryPeak => ("Broker memory, peak", "MiB"),
            Self::MemoryPerClient => ("Broker memory per client", "KiB"),
            Self::MemoryIdle => ("Broker memory, idle", "MiB"),
            Self::Accepted => ("Connections accepted", "clients"),
            Self::AcceptedShare => ("Connections accepted", "%"),
            Self::ConnectionsLost => ("Connections ended by the broker", "clients"),
            Self::ConnectP99 => ("Connecting, p99", "ms"),
            Self::ConnectRate => ("Connections", "clients/s"),
            Self::BytesIn => ("Payload in", "MB/s"),
            Self::BytesOut => ("Payload out", "MB/s"),
            Self::ReadyAfter => ("Ready after", "s"),
            Self::Silence => ("Longest silence", "s"),
            Self::Returned => ("Round trips complete (TE)", "%"),
            Self::NodesComplete => ("Nodes with every round trip", "%"),
            Self::LatencyDeviation => ("Latency, standard deviation", "ms"),
            Self::HandedOver => ("Handovers", "clients"),
            Self::Imbalance => ("Gateway farthest from its share", "%"),
        }
    }

    /// Which direction is good.
    pub const fn better(self) -> Better {
        match self {
            Self::Throughput
            | Self::Delivered
            | Self::Accepted
            | Self::AcceptedShare
            | Self::ConnectRate
            | Self::BytesIn
            | Self::Returned
            | Self::NodesComplete
            | Self::BytesOut => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// The number; `None` where the run has none, such as a latency without deliveries.
    pub fn of(self, run: &Run) -> Option<f64> {
        let (counts, seconds) = (&run.load.counts, run.load.measured_seconds());
        let rate = |number: u64| (seconds > 0.0).then(|| float(number) / seconds);
        let latency = |share: f64| (run.load.latency.count() > 0).then(|| float(run.load.latency.at(share)) / 1e6);
        match self {
            Self::Throughput => rate(deliveries(run)),
            Self::Delivered => share(counts.received, counts.due),
            Self::Lost => Some(float(counts.lost())),
            Self::LostInFiveMinutes => rate(counts.lost()).map(|lost| lost * 300.0),
            Self::DeadlineMisses => {
                run.plan.deadline_ms?;
                share(counts.deadline_misses, counts.due.max(counts.deadline_misses))
            }
            Self::Duplicates => Some(float(counts.duplicates)),
            Self::Reordered => Some(float(counts.reordered)),
            Self::LatencyP50 => latency(0.5),
            Self::LatencyP99 => latency(0.99),
            Self::LatencyP999 => latency(0.999),
            Self::LatencyMax => latency(1.0),
            Self::LatencyMean => (run.load.latency.count() > 0).then(|| run.load.latency.mean() / 1e6),
            Self::LatencyMin => (run.load.latency.count() > 0).then(|| float(run.load.latency.min()) / 1e6),
            Self::AcknowledgedP99 => {
                let acknowledged = &run.load.acknowledgement;
                (acknowledged.count() > 0).then(|| float(acknowledged.at(0.99)) / 1e6)
            }
            Self::BytesIn => rate(counts.bytes_sent).map(|bytes| bytes / 1e6),
            Self::BytesOut => rate(counts.bytes_received).map(|bytes| bytes / 1e6),
            Self::ReadyAfter => run.ready_after_s,
            Self::Silence => run.load.silence_ns.map(|silence_ns| float(silence_ns) / 1e9).or_else(|| silence(run)),
            Self::Returned => rounds(run).and_then(|(offered, returned, ..)| share(returned, offered)),
            Self::NodesComplete => rounds(run).and_then(|(.., nodes, complete)| share(complete, nodes)),
            Self::LatencyDeviation => (run.load.latency.count() > 0).then(|| run.load.latency.deviation() / 1e6),
            _ => self.of_connections(run).or_else(|| self.of_resources(run)),
        }
    }

    fn of_connections(self, run: &Run) -> Option<f64> {
        let connections = &run.load.connections;
        match self {
            Self::Accepted => Some(float(connections.accepted)),
            Self::AcceptedShare => share(connections.accepted, connections.dialled),
            Self::ConnectionsLost => Some(float(connections.lost)),
            Self::HandedOver => (!connections.at_places.is_empty()).then(|| float(connections.handed_over)),
            Self::Imbalance => imbalance(&connections.at_places),
            Self::ConnectP99 => (run.load.connecting.count() > 0).then(|| float(run.load.connecting.at(0.99)) / 1e6),
            Self::ConnectRate => {
                let busy: Vec<u64> =
                    run.load.series.iter().map(|second| second.accepted).filter(|accepted| *accepted > 0).collect();
                (!busy.is_empty()).then(|| float(busy.iter().sum()) / float(busy.len() as u64))
            }
            _ => None,
        }
    }

    fn of_resources(self, run: &Run) -> Option<f64> {
        let broker = &run.broker;
        let peak = broker.rss.iter().copied().max().filter(|rss| *rss > 0)?;
        let idle = before_load(run, &broker.rss);
        match self {
            Self::CpuPerDelivery => {
                let deliveries = deliveries(run);
                (deliveries > 0).then(|| cpu_while_measured(run).map(|cpu| cpu * 1e6 / float(deliveries)))?
            }
            Self::CpuMean => {
                let seconds = run.load.measured_seconds();
                (seconds > 0.0).then(|| cpu_while_measured(run).map(|cpu| cpu / seconds))?
            }
            Self::MemoryPeak => Some(float(peak) / f64::from(1 << 20)),
            Self::MemoryIdle => idle.map(|rss| float(rss) / f64::from(1 << 20)),
            Self::MemoryPerClient => {
                let clients = run.load.connections.most;
                (clients > 0).then_some(float(peak.saturating_sub(idle?)) / float(clients) / 1024.0)
            }
            _ => None,
        }
    }
}

/// Round trips offered and returned, nodes, and nodes with all of them returned.
fn rounds(run: &Run) -> Option<(u64, u64, u64, u64)> {
    let groups = run.load.groups.iter().filter_map(|group| group.rounds.as_ref());
    groups.fold(None, |sum, rounds| {
        let (offered, returned, nodes, complete) = sum.unwrap_or_default();
        let nodes = nodes + rounds.nodes;
        Some((offered + rounds.offered, returned + rounds.returned, nodes, complete + rounds.complete))
    })
}

/// The greatest distance from the mean, in percent of it.
fn imbalance(clients: &[u64]) -> Option<f64> {
    let mean = float(clients.iter().sum()) / float(clients.len() as u64);
    let distances = clients.iter().map(|count| (float(*count) - mean).abs());
    (mean > 0.0).then(|| distances.fold(0.0, f64::max) * 100.0 / mean)
}

/// What counts as work done: deliveries, or messages acknowledged, or messages sent.
fn deliveries(run: &Run) -> u64 {
    let counts = &run.load.counts;
    if counts.due > 0 { counts.received } else { counts.acknowledged.max(counts.sent) }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| float(part) * 100.0 / float(whole))
}

/// The last value before the load began.
fn before_load(run: &Run, column: &[u64]) -> Option<u64> {
    let place = run.broker.at_s.iter().rposition(|at| *at <= run.load_zero_s).unwrap_or(0);
    column.get(place).copied()
}

/// CPU seconds of the broker from the begin of measuring to the last delivery.
fn cpu_while_measured(run: &Run) -> Option<f64> {
    let time = |ns: u64| run.load_zero_s + float(ns) / 1e9;
    let end = run.load.last_ns.max(run.load.measured_to_ns);
    cpu_between(&run.broker, time(run.load.measured_from_ns), time(end))
}

/// CPU seconds between two times; unknown without a later sample, as in a run that was over before.
fn cpu_between(sampled: &Sampled, from: f64, to: f64) -> Option<f64> {
    sampled.at_s.last().filter(|looked| **looked > from)?;
    Some(cpu_at(sampled, to)? - cpu_at(sampled, from)?)
}

/// CPU seconds at a time, between two looks in proportion.
fn cpu_at(sampled: &Sampled, at: f64) -> Option<f64> {
    let after = sampled.at_s.iter().position(|time| *time >= at);
    let Some(after) = after else { return sampled.cpu_s.last().copied() };
    let (t1, c1) = (*sampled.at_s.get(after)?, *sampled.cpu_s.get(after)?);
    let Some(before) = after.checked_sub(1) else { return Some(c1) };
    let (t0, c0) = (*sampled.at_s.get(before)?, *sampled.cpu_s.get(before)?);
    Some(if t1 > t0 { c0 + (c1 - c0) * (at - t0) / (t1 - t0) } else { c1 })
}

/// Whole seconds in a row in which something was sent and nothing received.
/// In whole seconds, for results that do not say it more exactly.
fn silence(run: &Run) -> Option<f64> {
    let (from, to) = (run.load.measured_from_ns / 1_000_000_000, run.load.measured_to_ns / 1_000_000_000);
    let within = run.load.series.iter().filter(|second| (from..to).contains(&u64::from(second.second)));
    let (mut longest, mut current, mut any) = (0_u32, 0_u32, false);
    for second in within {
        any = true;
        current = if second.received == 0 { current + 1 } else { 0 };
        longest = longest.max(current);
    }
    any.then(|| f64::from(longest))
}

#[expect(clippy::cast_precision_loss, reason = "counts are shown with a few digits")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_between_two_looks_is_in_proportion() {
        let sampled = Sampled { at_s: vec![0.0, 1.0, 2.0], cpu_s: vec![0.0, 0.4, 0.4], ..Sampled::default() };
        let close = |at: f64, due: f64| (cpu_at(&sampled, at).unwrap() - due).abs() < 1e-9;
        assert!(close(0.5, 0.2) && close(1.5, 0.4) && close(9.0, 0.4) && close(0.0, 0.0));
        assert_eq!(cpu_at(&Sampled::default(), 1.0), None);
        assert!(cpu_between(&sampled, 0.5, 3.0).is_some_and(|cpu| (cpu - 0.2).abs() < 1e-9));
        assert_eq!(cpu_between(&sampled, 2.0, 2.1), None, "not nothing");
    }

    #[test]
    fn a_share_of_nothing_is_absent() {
        assert_eq!(share(0, 0), None);
        assert_eq!(share(1, 4), Some(25.0));
    }
}
