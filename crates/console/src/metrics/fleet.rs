//! Metrics of an orchestrator's brokers. Without a fleet they have no samples. The label `broker` has as many
//! values as the fleet has brokers, whatever the load.

use tidegate_admin::{BrokerState, BrokerStatus};

use super::Kind::{Counter, Gauge};
use super::{Metric, Reading, Samples};

/// Every metric of a fleet, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "tidegate_fleet_brokers",
        kind: Gauge,
        labels: &["state"],
        help: "Brokers of the fleet by how far they are.",
        read: |it, out| {
            let fleet = &it.status.fleet;
            for state in BrokerState::ALL.iter().filter(|_| !fleet.is_empty()) {
                out.add(&[state.name()], fleet.iter().filter(|broker| broker.state == *state).count() as u64);
            }
        },
    },
    Metric {
        name: "tidegate_fleet_owed_messages",
        kind: Gauge,
        labels: &["broker"],
        help: "Messages accepted from clients that a broker has not settled.",
        read: |it, out| each(it, out, |broker| broker.owed),
    },
    Metric {
        name: "tidegate_fleet_filters_refused",
        kind: Gauge,
        labels: &["broker"],
        help: "Filters that a broker refuses, or whose SUBSCRIBE makes it close the connection.",
        read: |it, out| each(it, out, |broker| broker.filters_refused),
    },
    counter("tidegate_fleet_acknowledged_total", "Messages that a broker has acknowledged.", |it, out| {
        each(it, out, |broker| broker.acknowledged);
    }),
    counter(
        "tidegate_fleet_returned_total",
        "Own messages that returned after a broker had acknowledged them.",
        |it, out| {
            each(it, out, |broker| broker.returned);
        },
    ),
    counter("tidegate_fleet_resent_total", "Messages taken from a broker and dealt again.", |it, out| {
        each(it, out, |broker| broker.resent);
    }),
    counter("tidegate_fleet_received_total", "Messages received from a broker.", |it, out| {
        each(it, out, |broker| broker.received);
    }),
    counter("tidegate_fleet_duplicates_total", "Of those, messages that had come before.", |it, out| {
        each(it, out, |broker| broker.duplicates);
    }),
    counter(
        "tidegate_fleet_beyond_window_total",
        "Of those, messages beyond the Receive Maximum announced to the broker.",
        |it, out| each(it, out, |broker| broker.beyond_window),
    ),
    counter(
        "tidegate_fleet_delivered_here_total",
        "Messages delivered without the broker that has acknowledged them and does not bring them back.",
        |it, out| each(it, out, |broker| broker.delivered_here),
    ),
    counter(
        "tidegate_fleet_set_aside_total",
        "Messages given to no broker any more, since this one closed the connection each time that it got them.",
        |it, out| each(it, out, |broker| broker.set_aside),
    ),
];

const fn counter(name: &'static str, help: &'static str, read: fn(&Reading<'_>, &mut Samples<'_>)) -> Metric {
    Metric { name, kind: Counter, labels: &["broker"], help, read }
}

fn each(it: &Reading<'_>, out: &mut Samples<'_>, number: impl Fn(&BrokerStatus) -> u64) {
    for broker in &it.status.fleet {
        out.add(&[&broker.name], number(broker));
    }
}
