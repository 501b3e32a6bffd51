//! Orchestrators that are members of one cluster.
//!
//! The table of the cluster says which of them works which partition of the clients, and the cluster decides about it
//! alone. The manager asks a member to take a share when it serves all brokers, since the messages of a broker that it
//! does not know would not reach the sessions that move there; and it asks a member that leaves to hand over all that it
//! has.

use std::collections::BTreeMap;

use super::action::{Action, Kind};
use super::advance::Progress;
use super::book::Phase;
use super::command::Command;
use super::machine::Manager;
use super::sight::{BrokerState, Sight};
use crate::level::Level;
use crate::provider::{Condition, ResourceName};

/// A cluster as one of its members sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// Whether it is a member, with a lease.
    pub is_member: bool,
    /// Whether it decides about the table.
    pub leads: bool,
    /// Whether it takes partitions; otherwise it hands over its own.
    pub wants_share: bool,
    /// The epoch of the table that it knows.
    pub epoch: u64,
    /// How many partitions each member works.
    pub partitions: BTreeMap<String, usize>,
    /// Moves that are under way in the whole cluster.
    pub moves: usize,
    /// Moves of this member that are under way, or whose later messages it still forwards.
    pub own_moves: u64,
}

impl Sight {
    /// The newest view of the cluster; `None` where no orchestrator is a member of one.
    pub fn cluster(&self) -> Option<&ClusterView> {
        let views = self.orchestrators.values().filter_map(|view| view.cluster.as_ref());
        views.max_by_key(|view| view.epoch)
    }

    /// How many partitions an orchestrator works, by the newest table; `None` where it is not in the table.
    pub fn partitions(&self, name: &ResourceName) -> Option<usize> {
        self.cluster()?.partitions.get(name.as_str()).copied()
    }
}

impl Manager {
    /// Asks orchestrators that serve all brokers to take a share of the partitions: new ones, and ones that were started
    /// again. One that another controller removes hands over its partitions.
    pub(super) fn ask_for_shares(&mut self, sight: &Sight) {
        for at in self.book.names(Level::Orchestrator, &[Phase::Joining, Phase::Serving]) {
            if sight.condition(&at) == Some(&Condition::Stopping) {
                continue;
            }
            let asked = sight.orchestrators.get(&at).and_then(|view| view.cluster.as_ref());
            if asked.is_some_and(|cluster| !cluster.wants_share) && self.missing_broker(&at, sight).is_none() {
                self.command(Command::SetShare { at, wanted: true });
            }
        }
    }

    /// Why an orchestrator does not serve all brokers yet.
    pub(super) fn missing_broker(&self, at: &ResourceName, sight: &Sight) -> Option<String> {
        let brokers = living_brokers(self, sight);
        if brokers.is_empty() {
            return Some("no broker serves yet".to_owned());
        }
        let Some(view) = sight.orchestrators.get(at) else { return Some(format!("{at} does not answer")) };
        let serves =
            |broker: &ResourceName| view.brokers.get(broker).is_some_and(|known| known.state == BrokerState::Serving);
        let missing = brokers.iter().find(|broker| !serves(broker))?;
        Some(super::advance::said(at, missing, view.brokers.get(missing)))
    }

    /// Asks orchestrators that leave to hand over their partitions, and does not ask again.
    pub(super) fn hand_over(&mut self, action: &Action, sight: &Sight) {
        for at in &action.targets {
            let cluster = sight.orchestrators.get(at).and_then(|view| view.cluster.as_ref());
            if cluster.is_some_and(|cluster| cluster.wants_share) {
                self.command(Command::SetShare { at: at.clone(), wanted: false });
            }
        }
    }

    /// True if another member serves, which takes over the partitions of a dead one.
    pub(super) fn has_heirs(&self, sight: &Sight) -> bool {
        let serving = self.book.names(Level::Orchestrator, &[Phase::Serving]);
        let is_member = |name: &ResourceName| {
            let cluster = sight.orchestrators.get(name).and_then(|view| view.cluster.as_ref());
            cluster.is_some_and(|cluster| cluster.is_member)
        };
        serving.iter().any(|name| is_member(name) && !self.is_dead(name, sight))
    }
}

/// The brokers that serve and are not known to be dead.
pub(super) fn living_brokers(manager: &Manager, sight: &Sight) -> Vec<ResourceName> {
    let mut brokers = manager.book.names(Level::Broker, &[Phase::Serving]);
    brokers.retain(|broker| !manager.is_dead(broker, sight));
    brokers
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
        let is_alone = cluster.partitions.keys().all(|name| name == at.as_str());
        if is_alone {
            continue;
        }
        let own = cluster.partitions.get(at.as_str()).copied().unwrap_or_default();
        if cluster.wants_share || own > 0 {
            return Progress::Wait(format!("{at} still has {own} partitions"));
        }
        if cluster.own_moves > 0 {
            return Progress::Wait(format!("{at} forwards messages of sessions that have moved"));
        }
    }
    Progress::Done
}
