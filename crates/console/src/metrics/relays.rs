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
];

const fn one(name: &'static str, kind: Kind, help: &'static str, read: fn(&Reading<'_>, &mut Samples<'_>)) -> Metric {
    Metric { name, kind, labels: &[], help, read }
}
