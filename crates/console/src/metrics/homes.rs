//! Metrics of the homes of clients. Where there is no orchestrator, only relays have samples.

use super::Kind::{self, Counter, Gauge};
use super::{Metric, Reading, Samples};
use crate::status::HomesNumbers;

/// Every metric of homes, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    one("tidegate_relays", Gauge, "Clients relayed now to the orchestrator that they belong to.", |it, out| {
        out.add(&[], it.status.shell.relayed.saturating_sub(it.status.shell.relays_ended));
    }),
    one("tidegate_relays_total", Counter, "Clients relayed to the orchestrator that they belong to.", |it, out| {
        out.add(&[], it.status.shell.relayed);
    }),
    one(
        "tidegate_relays_failed_total",
        Counter,
        "Clients refused because the orchestrator that they belong to could not be reached.",
        |it, out| out.add(&[], it.status.shell.relays_failed),
    ),
    one("tidegate_homes_epoch", Gauge, "Epoch of the table of homes in force; 0 without one.", |it, out| {
        out.one(of(it, |homes| homes.epoch));
    }),
    one("tidegate_homes_partitions", Gauge, "Partitions at home here.", |it, out| {
        out.one(of(it, |homes| homes.here));
    }),
    one("tidegate_homes_moved_out_total", Counter, "Partitions that went to other orchestrators.", |it, out| {
        out.one(of(it, |homes| homes.moved_out));
    }),
    one("tidegate_homes_moved_in_total", Counter, "Partitions that came from other orchestrators.", |it, out| {
        out.one(of(it, |homes| homes.moved_in));
    }),
    one("tidegate_homes_moves_failed_total", Counter, "Moves of partitions that did not happen.", |it, out| {
        out.one(of(it, |homes| homes.failed));
    }),
    one(
        "tidegate_homes_owed_mismatches_total",
        Counter,
        "Moves given up because other numbers were owed after them than before; an alarm should watch it.",
        |it, out| out.one(of(it, |homes| homes.mismatches)),
    ),
    one(
        "tidegate_homes_taken_anew_total",
        Counter,
        "Partitions taken over without the sessions of the orchestrator that had them.",
        |it, out| out.one(of(it, |homes| homes.taken_anew)),
    ),
    one(
        "tidegate_homes_sessions_given_up_total",
        Counter,
        "Sessions given up because newer copies of them came.",
        |it, out| out.one(of(it, |homes| homes.given_up)),
    ),
];

const fn one(name: &'static str, kind: Kind, help: &'static str, read: fn(&Reading<'_>, &mut Samples<'_>)) -> Metric {
    Metric { name, kind, labels: &[], help, read }
}

fn of(it: &Reading<'_>, number: fn(&HomesNumbers) -> u64) -> Option<u64> {
    it.status.homes.as_ref().map(number)
}
