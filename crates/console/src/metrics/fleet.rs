//! Metrics of an orchestrator's brokers. Without a fleet they have no samples. The label `broker` has as many
//! values as the fleet has brokers, whatever the load.

use tidegate_admin::{BrokerState, BrokerStatus};

use super::{Reading, Samples};

metrics! { |it, out|
    /// Every metric of a fleet, in the order in which they are written.
    Gauge "tidegate_fleet_brokers" ["state"] => {
        let fleet = &it.status.fleet;
        for state in BrokerState::ALL.iter().filter(|_| !fleet.is_empty()) {
            out.add(&[state.name()], fleet.iter().filter(|broker| broker.state == *state).count() as u64);
        }
    }, "Brokers of the fleet by how far they are.";
    Gauge "tidegate_fleet_owed_messages" ["broker"] => each(it, out, |broker| broker.owed),
        "Messages accepted from clients that a broker has not settled.";
    Gauge "tidegate_fleet_filters_refused" ["broker"] => each(it, out, |broker| broker.filters_refused),
        "Filters that a broker refuses, or whose SUBSCRIBE makes it close the connection.";
    Counter "tidegate_fleet_acknowledged_total" ["broker"] => each(it, out, |broker| broker.acknowledged),
        "Messages that a broker has acknowledged.";
    Counter "tidegate_fleet_returned_total" ["broker"] => each(it, out, |broker| broker.returned),
        "Own messages that returned after a broker had acknowledged them.";
    Counter "tidegate_fleet_resent_total" ["broker"] => each(it, out, |broker| broker.resent),
        "Messages taken from a broker and dealt again.";
    Counter "tidegate_fleet_received_total" ["broker"] => each(it, out, |broker| broker.received),
        "Messages received from a broker.";
    Counter "tidegate_fleet_duplicates_total" ["broker"] => each(it, out, |broker| broker.duplicates),
        "Of those, messages that had come before.";
    Counter "tidegate_fleet_beyond_window_total" ["broker"] => each(it, out, |broker| broker.beyond_window),
        "Of those, messages beyond the Receive Maximum announced to the broker.";
    Counter "tidegate_fleet_delivered_here_total" ["broker"] => each(it, out, |broker| broker.delivered_here),
        "Messages delivered without the broker that has acknowledged them and does not bring them back.";
    Counter "tidegate_fleet_set_aside_total" ["broker"] => each(it, out, |broker| broker.set_aside),
        "Messages given to no broker any more, since this one closed the connection each time that it got them.";
}

fn each(it: &Reading<'_>, out: &mut Samples<'_>, number: impl Fn(&BrokerStatus) -> u64) {
    for broker in &it.status.fleet {
        out.add(&[&broker.name], number(broker));
    }
}
