//! The nodes connected to a gateway, from its reports (CR table).

use std::time::Duration;

use crate::latency::ConnectionStatistics;
use crate::messages::{ConnectionReport, NodeLink};

/// Most parts of one report; more than 100 MB of node names is a mistake.
const MAX_PARTS: u32 = 256;

/// The nodes of a gateway.
#[derive(Debug, Default)]
pub(super) struct GatewayNodes {
    /// Of the last report that was complete.
    pub(super) nodes: Vec<NodeLink>,
    /// When the last complete report arrived; zero before the first.
    pub(super) arrived: Duration,
    /// The statistics of the last round of pings.
    pub(super) statistics: ConnectionStatistics,
    /// When that was heard of.
    pub(super) round_ended: Duration,
    pinged_at_ms: u64,
    /// Parts of a report whose other parts are still to come.
    gathered: Option<Gathered>,
}

#[derive(Debug)]
struct Gathered {
    number: u64,
    next: u32,
    nodes: Vec<NodeLink>,
}

impl GatewayNodes {
    /// Processes a report or a part of one. Parts arrive in order, since one gateway appends them to one partition; a
    /// report with a missing part is ignored.
    pub(super) fn take(&mut self, now: Duration, report: ConnectionReport) {
        if report.parts == 0 || report.parts > MAX_PARTS || report.part >= report.parts {
            return;
        }
        if report.part == 0 {
            self.gathered = Some(Gathered { number: report.number, next: 0, nodes: Vec::new() });
        }
        let Some(gathered) = &mut self.gathered else { return };
        if (gathered.number, gathered.next) != (report.number, report.part) {
            self.gathered = None;
            return;
        }
        gathered.next += 1;
        gathered.nodes.extend(report.nodes);
        if gathered.next == report.parts
            && let Some(gathered) = self.gathered.take()
        {
            self.nodes = gathered.nodes;
            self.arrived = now;
            if report.pinged_at_ms != 0 && report.pinged_at_ms != self.pinged_at_ms {
                self.pinged_at_ms = report.pinged_at_ms;
                self.round_ended = now;
                let pongs = self.nodes.iter().filter_map(|node| node.pong_us).map(Duration::from_micros).collect();
                self.statistics = ConnectionStatistics::of(report.pinged, pongs);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64, part: u32, parts: u32, names: &[&str]) -> ConnectionReport {
        let link = |name: &&str| NodeLink { id: (*name).into(), pong_us: Some(1_000), transport_us: None };
        ConnectionReport {
            gateway: "a".into(),
            number,
            part,
            parts,
            pinged_at_ms: number,
            window_ms: 1,
            pinged: 4,
            late: 0,
            nodes: names.iter().map(link).collect(),
        }
    }

    #[test]
    fn a_report_counts_when_all_of_its_parts_are_there() {
        let mut nodes = GatewayNodes::default();
        let at = Duration::from_secs(1);
        nodes.take(at, part(1, 0, 2, &["a", "b"]));
        assert!(nodes.nodes.is_empty());
        nodes.take(at, part(1, 1, 2, &["c"]));
        assert_eq!((nodes.nodes.len(), nodes.statistics.answered, nodes.statistics.pinged), (3, 3, 4));
        nodes.take(at, part(2, 0, 2, &["x"]));
        nodes.take(at, part(3, 1, 2, &["y"]));
        assert_eq!(nodes.nodes.len(), 3, "a report with a missing part is left out");
        nodes.take(at, part(4, 0, 1, &[]));
        assert!(nodes.nodes.is_empty());
        nodes.take(at, part(5, 0, 0, &["x"]));
        nodes.take(at, part(5, 0, MAX_PARTS + 1, &["x"]));
        assert!(nodes.nodes.is_empty());
    }
}
