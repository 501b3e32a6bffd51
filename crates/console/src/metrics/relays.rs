//! Metrics of clients that are relayed to the member that serves them.

use super::Kind::{self, Counter, Gauge};
use super::{Metric, Reading, Samples};

/// Every metric of relays, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    one("tidegate_relays", Gauge, "Clients relayed now to the node that serves them.", |it, out| {
        out.add(&[], it.status.shell.relayed.saturating_sub(it.status.shell.relays_ended));
    }),
    one("tidegate_relays_total", Counter, "Clients relayed to the node that serves them.", |it, out| {
        out.add(&[], it.status.shell.relayed);
    }),
    one(
        "tidegate_relays_failed_total",
        Counter,
        "Clients refused because the node that serves them could not be reached.",
        |it, out| out.add(&[], it.status.shell.relays_failed),
    ),
    one(
        "tidegate_connections_departed_total",
        Counter,
        "Connections that have left this node for the new home of their client.",
        |it, out| out.add(&[], it.status.shell.moved),
    ),
    one(
        "tidegate_connections_continued_total",
        Counter,
        "Connections that have come from another node and continue here.",
        |it, out| out.add(&[], it.status.shell.continued),
    ),
    one(
        "tidegate_connections_not_continued_total",
        Counter,
        "Connections that have come from another node and were refused: their session, credential or terms do not hold here.",
        |it, out| out.add(&[], it.status.shell.not_continued),
    ),
];

const fn one(name: &'static str, kind: Kind, help: &'static str, read: fn(&Reading<'_>, &mut Samples<'_>)) -> Metric {
    Metric { name, kind, labels: &[], help, read }
}
