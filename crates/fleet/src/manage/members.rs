//! Orchestrators that are members of one cluster.
//!
//! The table of the cluster says which of them works which partition of the clients, and the cluster decides about it
//! alone. The manager asks a member to take a share when it serves all brokers, since the messages of a broker that it
//! does not know would not reach the sessions that move there; and it asks a member that leaves to hand over all that it
//! has.

use super::action::{Action, Kind};
use super::book::Phase;
use super::cluster_view::ClusterView;
use super::command::Command;
use super::progress_state::Progress;
use super::sight::{BrokerState, Sight, said};
use super::turn::FleetSeen;
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

impl FleetSeen<'_> {
    /// Asks orchestrators that serve all brokers to take a share of the partitions: new ones, and ones that were started
    /// again. One that another controller removes hands over its partitions.
    pub(super) fn requests_for_shares(&self) -> Vec<Command> {
        let mut members = self.book.names(Level::Orchestrator, &[Phase::Joining, Phase::Serving]);
        members.retain(|at| {
            let asked = self.sight.orchestrators.get(at).and_then(|view| view.cluster.as_ref());
            self.sight.condition(at) != Some(&Condition::Stopping)
                && asked.is_some_and(|cluster| !cluster.wants_share)
                && self.missing_broker(at).is_none()
        });
        members.into_iter().map(|at| Command::SetShare { at, wanted: true }).collect()
    }

    /// The reason why an orchestrator does not serve all brokers yet.
    pub(super) fn missing_broker(&self, at: &ResourceName) -> Option<String> {
        let brokers = self.living_brokers();
        if brokers.is_empty() {
            return Some("no broker serves yet".to_owned());
        }
        let Some(view) = self.sight.orchestrators.get(at) else { return Some(format!("{at} does not answer")) };
        let serves =
            |broker: &ResourceName| view.brokers.get(broker).is_some_and(|known| known.state == BrokerState::Serving);
        let missing = brokers.iter().find(|broker| !serves(broker))?;
        Some(said(at, missing, view.brokers.get(missing)))
    }

    /// True if another member serves, which takes over the partitions of a dead one.
    pub(super) fn has_heirs(&self) -> bool {
        let is_member = |name: &ResourceName| {
            let cluster = self.sight.orchestrators.get(name).and_then(|view| view.cluster.as_ref());
            cluster.is_some_and(|cluster| cluster.is_member)
        };
        self.living_orchestrators().iter().any(is_member)
    }
}

/// Asks orchestrators that leave to hand over their partitions, and does not ask again.
pub(super) fn requests_to_hand_over(action: &Action, sight: &Sight) -> Vec<Command> {
    let wants_share = |at: &&ResourceName| {
        let cluster = sight.orchestrators.get(*at).and_then(|view| view.cluster.as_ref());
        cluster.is_some_and(|cluster| cluster.wants_share)
    };
    let asked = action.targets.iter().filter(wants_share);
    asked.map(|at| Command::SetShare { at: at.clone(), wanted: false }).collect()
}

/// Why an orchestrator that serves all brokers is no member of the cluster yet.
pub(super) fn missing_membership(at: &ResourceName, sight: &Sight) -> Option<String> {
    let cluster = sight.orchestrators.get(at)?.cluster.as_ref()?;
    let is_in_table = cluster.partitions.contains_key(at.as_str());
    let is_there = cluster.is_member && cluster.wants_share && is_in_table;
    (!is_there).then(|| format!("{at} is not yet a member of the cluster of orchestrators"))
}

/// How far orchestrators that leave have handed over.
pub(super) fn handed_over(action: &Action, sight: &Sight) -> Progress {
    let is_over =
        |at: &ResourceName| action.kind == Kind::Evacuate && sight.condition(at) != Some(&Condition::Stopping);
    for at in action.targets.iter().filter(|at| !is_over(at)) {
        let Some(view) = sight.orchestrators.get(at) else {
            return Progress::Wait(format!("{at} does not answer"));
        };
        let Some(cluster) = &view.cluster else { continue };
        if let Some(why) = still_owns(at, cluster, sight) {
            return Progress::Wait(why);
        }
    }
    Progress::Done
}

/// Why an orchestrator still has something to hand over, by its own view and by the newest table that any of them has read.
fn still_owns(at: &ResourceName, own: &ClusterView, sight: &Sight) -> Option<String> {
    let newest = sight.cluster().unwrap_or(own);
    if newest.partitions.is_empty() {
        return Some(format!("{at} has not read the table of the cluster of orchestrators yet"));
    }
    if newest.partitions.keys().all(|name| name == at.as_str()) {
        // There is no other one.
        return None;
    }
    let partitions = newest.partitions.get(at.as_str()).copied();
    if partitions.is_some() && !(own.is_member && own.partitions.contains_key(at.as_str())) {
        // Its process is new, and has not read its partitions yet.
        return Some(format!("{at} is not a member of the cluster of orchestrators again yet"));
    }
    let partitions = partitions.unwrap_or_default();
    if own.wants_share || partitions > 0 {
        return Some(format!("{at} still has {partitions} partitions"));
    }
    (own.own_moves > 0).then(|| format!("{at} still forwards messages of brokers for sessions at other orchestrators"))
}
