//! A manager's view of its fleet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use tidegate_admin::BrokerState;

use super::cluster_view::ClusterView;
use crate::provider::{Condition, Observed, ResourceName};

/// A broker as an orchestrator sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokerView {
    /// Its state.
    pub state: BrokerState,
    /// Messages that the orchestrator has for it, or waits for from it.
    #[serde(default)]
    pub owed: u64,
    /// Messages sent to it so far.
    #[serde(default)]
    pub sent: u64,
    /// The last error.
    #[serde(default)]
    pub last_error: Option<String>,
}

/// An orchestrator that answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrchestratorView {
    /// Its own name.
    pub calls_itself: String,
    /// Clients that are connected.
    pub clients: u64,
    /// Messages accepted and not settled, over all brokers.
    pub owed: u64,
    /// How late its loop is, milliseconds.
    pub loop_lag_ms: Option<f64>,
    /// Messages that came in so far.
    pub messages_in: u64,
    /// Messages that went out so far.
    pub messages_out: u64,
    /// Messages that its clients did not get so far, since a queue was full; `None` if it does not report that.
    pub dropped: Option<u64>,
    /// Messages that it did not accept so far, since too many were pending for brokers; `None` if it does not report
    /// that.
    pub dropped_fleet_full: Option<u64>,
    /// Whether it is leaving.
    pub draining: bool,
    /// The cluster as it sees it; `None` if it is in none.
    pub cluster: Option<ClusterView>,
    /// Its brokers.
    pub brokers: BTreeMap<ResourceName, BrokerView>,
}

/// Everything that was seen at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    /// The provider's resources. `None` when it did not answer: then no resource counts as absent.
    pub resources: Option<BTreeMap<ResourceName, Observed>>,
    /// The orchestrators that answered.
    pub orchestrators: BTreeMap<ResourceName, OrchestratorView>,
}

impl Sight {
    /// A resource, when the provider answered and has it.
    pub fn resource(&self, name: &ResourceName) -> Option<&Observed> {
        self.resources.as_ref()?.get(name)
    }

    /// Whether the provider answered and does not have it.
    pub fn is_absent(&self, name: &ResourceName) -> bool {
        self.resources.as_ref().is_some_and(|resources| !resources.contains_key(name))
    }

    /// The condition of a resource.
    pub fn condition(&self, name: &ResourceName) -> Option<&Condition> {
        self.resource(name).map(|observed| &observed.condition)
    }

    /// Whether a resource is online, or an orchestrator that answered for itself.
    pub fn is_online(&self, name: &ResourceName) -> bool {
        self.condition(name) == Some(&Condition::Online)
    }

    /// Whether a resource answers: its probe, or an orchestrator itself. The probe of a pod fails until all partitions of
    /// the cluster are served, and they are served only after the manager has asked for that.
    pub fn answers(&self, name: &ResourceName) -> bool {
        self.is_online(name) || self.orchestrators.contains_key(name)
    }

    /// Messages pending to or from a broker, over all orchestrators that answered.
    pub fn owed(&self, broker: &ResourceName) -> u64 {
        self.orchestrators.values().filter_map(|view| view.brokers.get(broker)).map(|broker| broker.owed).sum()
    }
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

/// An orchestrator's state of a broker that it does not serve yet.
pub(super) fn said(at: &ResourceName, broker: &ResourceName, known: Option<&BrokerView>) -> String {
    let Some(known) = known else { return format!("{at} does not know {broker} yet") };
    let why = known.last_error.as_deref().filter(|why| !why.is_empty());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{at} says `{}` of {broker}{why}", known.state.name())
}
