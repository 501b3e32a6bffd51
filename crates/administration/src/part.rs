//! The seams at which features join the status of a broker.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;
use tidegate_admin::{PipelineOrder, Pipelines};
use tidegate_config::Config;
use tidegate_console::Status;
use tidegate_console::api::ControlError;
use tidegate_node::NodeHandle;

/// A part of a broker, as far as its status is concerned.
pub trait Part: Send + Sync + 'static {
    /// Why the broker is not ready because of this part, in one line. Never waits.
    fn block_reason(&self) -> Option<String> {
        None
    }

    /// Adds the numbers of this part. May wait for a bounded time.
    fn add_to(&self, status: &mut Status);
}

/// The membership of a node in its cluster.
pub trait ClusterPart: Part {
    /// The state of the node and of its cluster.
    fn view(&self) -> Value;

    /// Has the node take a share of the partitions, or hand over all that it has to other nodes.
    fn want_share(&self, wanted: bool);

    /// Answers a question of the node `from` that begins with [`PIECE`], [`INHERITED`], [`FORMER_LIFE`], [`AHEAD`] or
    /// [`SERVED_QUESTION`].
    fn take_piece(&self, from: &str, question: &[u8]) -> Vec<u8>;
}

/// The first byte of a question that brings messages for partitions that have moved. Other questions
/// begin with another byte of this file, [`RETAINED_QUESTION`](tidegate_node::RETAINED_QUESTION), 4, or
/// [`QUOTAS_ANNOUNCEMENT`](tidegate_node::QUOTAS_ANNOUNCEMENT), 6, [`USERS_ANNOUNCEMENT`](tidegate_node::USERS_ANNOUNCEMENT),
/// 9, or are JSON texts, which begin with none of these.
pub const PIECE: u8 = 1;

/// The same for messages that the connection of a dead orchestrator to a broker has brought.
pub const INHERITED: u8 = 2;

/// The same for the question which connections of the asking member's last life are worked off.
pub const FORMER_LIFE: u8 = 3;

/// The same for a part of a queue whose session moves here later.
pub const AHEAD: u8 = 7;

/// The same for messages of a history.
pub const HISTORY_QUESTION: u8 = 5;

/// The same for the question how many partitions a node serves now. The answer is two bytes, little-endian.
pub const SERVED_QUESTION: u8 = 8;

/// The histories that pipelines write at a node.
pub trait HistoriesPart: Send + Sync + 'static {
    /// Answers a question of another node, which begins with [`HISTORY_QUESTION`]. An answer that is empty is not sent.
    fn answer(&self, question: &[u8]) -> Vec<u8>;
}

/// The pipelines of a broker.
pub trait PipelinesPart: Part {
    /// An object from pipeline to its state and numbers. A process without a broker has no node.
    ///
    /// # Errors
    /// When the node does not answer.
    fn view(&self, node: Option<&NodeHandle>) -> Result<Pipelines, ControlError>;

    /// The condition that the start of the broker waits for, in one line. Never waits.
    fn start_waits_for(&self) -> Option<String>;

    /// The names of all pipelines.
    fn names(&self) -> Vec<String>;

    /// Carries out an order. Returns whether there is a pipeline of its name.
    ///
    /// # Errors
    /// When the pipeline cannot carry it out.
    fn order(&self, order: &PipelineOrder) -> Result<bool, ControlError>;
}

/// The registered parts of a broker. Each `register_...` for one kind is called once.
#[derive(Default)]
pub struct Parts {
    all: Mutex<Vec<Arc<dyn Part>>>,
    /// The services of a process that has no node.
    services: OnceLock<Arc<dyn Part>>,
    cluster: OnceLock<Arc<dyn ClusterPart>>,
    fleet: OnceLock<Config>,
    pipelines: OnceLock<Arc<dyn PipelinesPart>>,
    histories: OnceLock<Arc<dyn HistoriesPart>>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl Parts {
    /// Registers a part.
    pub fn register(&self, part: Arc<dyn Part>) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    /// Registers the membership in a cluster.
    pub fn register_cluster(&self, cluster: Arc<dyn ClusterPart>) {
        self.register(Arc::clone(&cluster) as Arc<dyn Part>);
        let _ = self.cluster.set(cluster);
    }

    /// Registers the configuration of an orchestrator.
    pub fn register_orchestrator(&self, config: Config) {
        let _ = self.fleet.set(config);
    }

    /// Registers pipelines.
    pub fn register_pipelines(&self, pipelines: Arc<dyn PipelinesPart>) {
        self.register(Arc::clone(&pipelines) as Arc<dyn Part>);
        let _ = self.pipelines.set(pipelines);
    }

    /// Registers the histories that other nodes ask for.
    pub fn register_histories(&self, histories: Arc<dyn HistoriesPart>) {
        let _ = self.histories.set(histories);
    }

    /// The histories, if there are any.
    pub(crate) fn histories(&self) -> Option<&Arc<dyn HistoriesPart>> {
        self.histories.get()
    }

    /// Registers the services of a process without a node.
    pub fn register_services(&self, services: Arc<dyn Part>) {
        let _ = self.services.set(services);
    }

    /// The services of a process without a node.
    pub(crate) fn services(&self) -> Option<&Arc<dyn Part>> {
        self.services.get()
    }

    /// The membership in a cluster, if this is a node of one.
    pub(crate) fn cluster(&self) -> Option<&Arc<dyn ClusterPart>> {
        self.cluster.get()
    }

    /// The configuration, if this is an orchestrator.
    pub(crate) fn fleet(&self) -> Option<&Config> {
        self.fleet.get()
    }

    /// The pipelines, if there are any.
    pub(crate) fn pipelines(&self) -> Option<&Arc<dyn PipelinesPart>> {
        self.pipelines.get()
    }

    /// The parts, the last one first: a later part depends on earlier ones, so its reason is the one to report.
    fn all(&self) -> Vec<Arc<dyn Part>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().map(Arc::clone).collect()
    }

    /// Why the broker is not ready because of a part.
    pub(crate) fn block_reason(&self) -> Option<String> {
        self.all().iter().find_map(|part| part.block_reason())
    }

    /// Adds the numbers of all parts.
    pub(crate) fn add_to(&self, status: &mut Status) {
        for part in self.all() {
            part.add_to(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(Option<&'static str>);

    impl Part for Named {
        fn block_reason(&self) -> Option<String> {
            self.0.map(str::to_owned)
        }

        fn add_to(&self, _: &mut Status) {}
    }

    #[test]
    fn the_reason_of_the_last_part_is_reported() {
        let parts = Parts::default();
        assert_eq!(parts.block_reason(), None);
        for why in [Some("the mirror"), Some("the cluster"), None] {
            parts.register(Arc::new(Named(why)));
        }
        assert_eq!(parts.block_reason().as_deref(), Some("the cluster"));
    }
}
