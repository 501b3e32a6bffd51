//! The brokers of a fleet, for all users.

use tidegate_engine::{UplinkReport, UplinkState};

use super::{Identities, shown};
use crate::handle::NodeHandle;
use crate::uplink::{BrokerSettings, FleetReport};

impl Identities {
    /// The nodes of all users.
    pub(super) fn handles(&self) -> Vec<(String, NodeHandle)> {
        let state = self.state();
        let running =
            state.users.iter().filter_map(|(user, entry)| Some((user.clone(), entry.running()?.node.handle())));
        running.collect()
    }

    /// A broker is added or changed.
    pub(crate) fn set_broker(&self, broker: &BrokerSettings) {
        for (user, entry) in &self.state().users {
            if let Some(running) = entry.running() {
                running.node.handle().fleet().tell_broker(shown(broker.clone(), user, running.password.as_ref()));
            }
        }
    }

    /// Drains a broker on all nodes of users: it gets no more messages. Nodes that do not know the broker ignore it.
    pub(crate) fn drain_broker(&self, name: &str) {
        for (_, node) in self.handles() {
            drop(node.fleet().drain_broker(name));
        }
    }

    /// Removes a broker from all nodes of users: other brokers get its pending messages. Nodes that do not know the
    /// broker ignore it.
    pub(crate) fn remove_broker(&self, name: &str) {
        for (_, node) in self.handles() {
            drop(node.fleet().remove_broker(name, true));
        }
    }

    /// Messages of users that a broker has not settled.
    pub(crate) fn owed_by(&self, name: &str) -> u64 {
        let reports = self.reports();
        let brokers = reports.iter().flat_map(|fleet| &fleet.brokers).filter(|broker| broker.uplink.name == name);
        brokers.map(|broker| broker.uplink.owed()).sum()
    }

    fn reports(&self) -> Vec<FleetReport> {
        // A node that ends meanwhile is skipped.
        self.handles().iter().filter_map(|(_, node)| node.fleet().report().ok()).collect()
    }

    /// Adds the users' connections to brokers to the report of a fleet.
    pub(crate) fn add_to(&self, fleet: &mut FleetReport) {
        for of_user in self.reports() {
            fleet.identities += 1;
            fleet.filters += of_user.filters;
            for broker in of_user.brokers {
                let known = fleet.brokers.iter_mut().find(|known| known.uplink.name == broker.uplink.name);
                if let Some(known) = known {
                    add(&mut known.uplink, &broker.uplink);
                }
            }
        }
    }
}

/// Adds one user's connection to a broker to the report of that broker. Whether the broker is reachable is decided by
/// the orchestrator's own connection.
fn add(all: &mut UplinkReport, one: &UplinkReport) {
    all.filters += one.filters;
    all.filters_pending += one.filters_pending;
    all.filters_refused += one.filters_refused;
    all.queued += one.queued;
    all.in_flight += one.in_flight;
    all.unreturned += one.unreturned;
    all.counters.add(&one.counters);
    if all.state == UplinkState::Drained && one.state != UplinkState::Drained {
        all.state = UplinkState::Draining;
    }
    if all.last_error.is_empty() {
        all.last_error.clone_from(&one.last_error);
    }
}
