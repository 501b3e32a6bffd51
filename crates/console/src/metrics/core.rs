//! Metrics of a gateway of mobile nodes and the services beside it. Where there are none, none has a sample.

use super::Kind::{self, Counter, Gauge};
use super::{Metric, Reading, Samples};
use crate::status::CoreNumbers;

/// Every metric of the core for mobile nodes, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    one(
        "tidegate_context_gateways",
        Gauge,
        "Active gateways in the last list of the manager of points of access.",
        |it, out| out.one(of(it, |core| core.gateways)),
    ),
    one("tidegate_context_load_reports_total", Counter, "Load reports told by this gateway.", |it, out| {
        out.one(of(it, |core| core.load_reports));
    }),
    one("tidegate_context_connection_reports_total", Counter, "Connection reports told by this gateway.", |it, out| {
        out.one(of(it, |core| core.connection_reports));
    }),
    one("tidegate_context_reports_total", Counter, "Contexts of nodes told by this gateway.", |it, out| {
        out.one(of(it, |core| core.context_reports));
    }),
    one("tidegate_context_pings_total", Counter, "Nodes that were pinged, in rounds that are over.", |it, out| {
        out.one(of(it, |core| core.pings));
    }),
    one("tidegate_context_pongs_total", Counter, "Pongs that came within the window.", |it, out| {
        out.one(of(it, |core| core.pongs));
    }),
    one(
        "tidegate_context_late_pongs_total",
        Counter,
        "Pongs that came after the window, and were discarded.",
        |it, out| out.one(of(it, |core| core.late_pongs)),
    ),
    one(
        "tidegate_context_handovers_total",
        Counter,
        "Nodes that this gateway was asked to send elsewhere.",
        |it, out| out.one(of(it, |core| core.handovers)),
    ),
    one(
        "tidegate_context_handovers_decided_total",
        Counter,
        "Handovers that the manager of points of access in this process has decided.",
        |it, out| out.one(of(it, |core| core.handovers_decided)),
    ),
    one(
        "tidegate_context_group_changes_total",
        Counter,
        "Changes of the groups of nodes that this gateway has made.",
        |it, out| out.one(of(it, |core| core.group_changes)),
    ),
    one(
        "tidegate_context_evaluations_total",
        Counter,
        "Contexts that group definers in this process have looked at.",
        |it, out| out.one(of(it, |core| core.contexts_evaluated)),
    ),
    one("tidegate_context_advertisements_total", Counter, "Changes of groups that they have told.", |it, out| {
        out.one(of(it, |core| core.advertisements));
    }),
    one(
        "tidegate_context_records_out_total",
        Counter,
        "Messages for applications that were put on the bus.",
        |it, out| out.one(of(it, |core| core.records_out)),
    ),
    one(
        "tidegate_context_records_refused_total",
        Counter,
        "Messages for applications that the bus did not take; an alarm should watch it.",
        |it, out| out.one(of(it, |core| core.records_refused)),
    ),
    one(
        "tidegate_context_records_retried_total",
        Counter,
        "Appends of such messages that were tried once more.",
        |it, out| out.one(of(it, |core| core.records_retried)),
    ),
    one(
        "tidegate_context_records_waiting",
        Gauge,
        "Messages for applications that wait for the bus now.",
        |it, out| out.one(of(it, |core| core.records_waiting)),
    ),
    one(
        "tidegate_context_records_in_total",
        Counter,
        "Records of applications that were given to the broker, for nodes.",
        |it, out| out.one(of(it, |core| core.records_in)),
    ),
    one(
        "tidegate_context_records_rejected_total",
        Counter,
        "Records of applications that were no messages, and were put into RejectedRecords; an alarm should watch it.",
        |it, out| out.one(of(it, |core| core.records_rejected)),
    ),
    one(
        "tidegate_context_records_expired_total",
        Counter,
        "Records of applications whose time was over when they were read.",
        |it, out| out.one(of(it, |core| core.records_expired)),
    ),
    Metric {
        name: "tidegate_context_left_out_total",
        kind: Counter,
        labels: &["cause"],
        help: "Contexts of nodes, advertisements of groups and records between services that this process could not use, by cause; an alarm should watch it.",
        read: |it, out| {
            for (cause, count) in it.status.core.iter().flat_map(|core| core.left_out) {
                out.add(&[cause], count);
            }
        },
    },
];

const fn one(name: &'static str, kind: Kind, help: &'static str, read: fn(&Reading<'_>, &mut Samples<'_>)) -> Metric {
    Metric { name, kind, labels: &[], help, read }
}

fn of(it: &Reading<'_>, number: fn(&CoreNumbers) -> u64) -> Option<u64> {
    it.status.core.as_ref().map(number)
}
