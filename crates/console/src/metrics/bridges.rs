//! Metrics of bridges to other brokers. Without a bridge they have no samples. Names of bridges come from the
//! configuration, which has a limited number of them.

use super::{Reading, Samples};
use crate::status::BridgeNumbers;

metrics! { |it, out|
    /// Every metric of bridges, in the order in which they are written.
    Gauge "tidegate_bridge_connected" ["bridge", "end"] =>
        each(it, out, |it| [("local", it.local.connected.into()), ("remote", it.remote.connected.into())]),
        "1 while the bridge is connected to this broker (`local`) or to the other one (`remote`), 0 otherwise.";
    Counter "tidegate_bridge_messages_total" ["bridge", "direction"] =>
        each(it, out, |it| [("out", it.remote.carried), ("in", it.local.carried)]),
        "Messages that the broker at the other end has taken; at QoS 0, that were sent to it.";
    Counter "tidegate_bridge_dropped_total" ["bridge", "direction"] =>
        each(it, out, |it| [("out", it.remote.dropped), ("in", it.local.dropped)]),
        "Messages that the broker at the other end has refused or can never take, and messages of QoS 0 while it was not reached.";
    Counter "tidegate_bridge_looped_total" ["bridge", "direction"] =>
        each(it, out, |it| [("out", it.remote.looped), ("in", it.local.looped)]),
        "Messages that the bridge has not carried, because it had carried them before: bridges form a loop. Also messages that have passed 16 bridges.";
    Counter "tidegate_bridge_beyond_window_total" ["bridge", "end"] =>
        each(it, out, |it| [("local", it.local.beyond_window), ("remote", it.remote.beyond_window)]),
        "Messages that a broker has sent to the bridge although `window` messages were not acknowledged. The bridge carries them.";
}

fn each(it: &Reading<'_>, out: &mut Samples<'_>, numbers: impl Fn(&BridgeNumbers) -> [(&'static str, u64); 2]) {
    for bridge in &it.status.bridges {
        for (which, number) in numbers(bridge) {
            out.add(&[&bridge.name, which], number);
        }
    }
}
