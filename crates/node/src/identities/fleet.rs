//! The brokers of a fleet, for all users.

use tidegate_engine::{BrokerLinkReport, BrokerLinkState};

use super::Identities;
use crate::broker_link::FleetReport;
use crate::handle::NodeHandle;

impl Identities {
    /// The nodes of all users.
    pub(super) fn handles(&self) -> Vec<(String, NodeHandle)> {
        let state = self.state();
        let running =
            state.users.iter().filter_map(|(user, entry)| Some((user.clone(), entry.running()?.node.handle())));
        running.collect()
    }

    pub(super) fn reports(&self) -> Vec<FleetReport> {
        // A node that ends meanwhile is skipped.
        self.handles().iter().filter_map(|(_, node)| node.fleet().report().ok()).collect()
    }
}

/// Adds one user's connection to a broker to the report of that broker. Whether the broker is reachable is decided by
/// the orchestrator's own connection.
pub(super) fn add(all: &mut BrokerLinkReport, one: &BrokerLinkReport) {
    all.filters += one.filters;
    all.filters_pending += one.filters_pending;
    all.filters_refused += one.filters_refused;
    all.queued += one.queued;
    all.in_flight += one.in_flight;
    all.unreturned += one.unreturned;
    all.counters.add(&one.counters);
    if all.state == BrokerLinkState::Drained && one.state != BrokerLinkState::Drained {
        all.state = BrokerLinkState::Draining;
    }
    if all.last_error.is_empty() {
        all.last_error.clone_from(&one.last_error);
    }
}
