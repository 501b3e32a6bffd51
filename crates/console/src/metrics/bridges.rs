//! Metrics of bridges to other brokers. Without a bridge they have no samples. Names of bridges come from the
//! configuration, which has a limited number of them.

use super::Kind::{Counter, Gauge};
use super::{Metric, Reading, Samples};
use crate::status::BridgeNumbers;

/// Every metric of bridges, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "tidegate_bridge_connected",
        kind: Gauge,
        labels: &["bridge", "end"],
        help: "1 while the bridge is connected to this broker (`local`) or to the other one (`remote`), 0 otherwise.",
        read: |it, out| {
            each(it, out, |it| [("local", it.local_connected.into()), ("remote", it.remote_connected.into())]);
        },
    },
    Metric {
        name: "tidegate_bridge_messages_total",
        kind: Counter,
        labels: &["bridge", "direction"],
        help: "Messages that the broker at the other end has taken; at QoS 0, that were sent to it.",
        read: |it, out| {
            each(it, out, |it| [("out", it.carried_out), ("in", it.carried_in)]);
        },
    },
    Metric {
        name: "tidegate_bridge_dropped_total",
        kind: Counter,
        labels: &["bridge", "direction"],
        help: "Messages that the broker at the other end has refused or can never take, and messages of QoS 0 while it was not reached.",
        read: |it, out| {
            each(it, out, |it| [("out", it.dropped_out), ("in", it.dropped_in)]);
        },
    },
    Metric {
        name: "tidegate_bridge_looped_total",
        kind: Counter,
        labels: &["bridge", "direction"],
        help: "Messages that the bridge has not carried, because it had carried them before: bridges form a loop. Also messages that have passed 16 bridges.",
        read: |it, out| {
            each(it, out, |it| [("out", it.looped_out), ("in", it.looped_in)]);
        },
    },
    Metric {
        name: "tidegate_bridge_beyond_window_total",
        kind: Counter,
        labels: &["bridge", "end"],
        help: "Messages that a broker has sent to the bridge although `window` messages were not acknowledged. The bridge carries them.",
        read: |it, out| {
            each(it, out, |it| [("local", it.beyond_window_local), ("remote", it.beyond_window_remote)]);
        },
    },
];

fn each(it: &Reading<'_>, out: &mut Samples<'_>, numbers: impl Fn(&BridgeNumbers) -> [(&'static str, u64); 2]) {
    for bridge in &it.status.bridges {
        for (which, number) in numbers(bridge) {
            out.add(&[&bridge.name, which], number);
        }
    }
}
