//! The numbers of a run, from its counts and samples.

use super::Run;
use crate::measure::Measure;
use crate::sample::Sampled;

impl Measure {
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

/// The work done: deliveries, or messages acknowledged, or messages sent.
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
