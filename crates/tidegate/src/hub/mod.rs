//! Pipelines in the broker: their configuration, how they come in, and the running ones.
//!
//! Each is a session of the broker with a client id that no client can have. It comes in by a listener of its own at
//! loopback, with a password that only this process knows.

mod control;
mod door;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_console::PipelineNumbers;
use tidegate_hub::{Hub, PipelineStatus};
use tidegate_node::Node;

pub(crate) use self::control::{HubApi, status_of};
pub(crate) use self::door::{Door, with_door};
use crate::status::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::hub::{CLIENT_PREFIX, Way};
use tidegate_placement::Placement;

/// How long batches under way may take when pipelines move to another process.
const HANDOVER: Duration = Duration::from_secs(5);

/// How long the start waits for the subscriptions of pipelines.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(30);

/// The pipelines of a broker, a node or an orchestrator.
#[derive(Debug, Default)]
pub(crate) struct Pipelines(Option<Placed>);

/// The pipelines of the configuration, and the running ones.
#[derive(Debug)]
struct Placed {
    config: Config,
    way: Way,
    placement: Placement,
    api: HubApi,
    /// Names of the pipelines that run here.
    running: Mutex<BTreeSet<String>>,
}

impl Pipelines {
    /// Starts the pipelines of the configuration that are placed here, and waits until each has its subscriptions: from
    /// then on, they get each message that the broker acknowledges.
    ///
    /// # Errors
    /// In words for people, when messages would not be kept, a file cannot be read, or a pipeline cannot subscribe.
    pub(crate) fn start(
        config: &Config,
        node: &Node,
        door: Option<&Door>,
        placement: Placement,
        status: &BrokerStatus,
    ) -> Result<Self, String> {
        let Some(door) = door else { return Ok(Self::default()) };
        let (config, way, api) = (config.clone(), door.way(node)?, HubApi::default());
        // A mistake is an error at the start, even where another process runs the pipeline.
        config.pipeline_settings(&way)?;
        let placed = Placed { config, way, placement, api: api.clone(), running: Mutex::default() };
        if !placed.placement.may_change() {
            placed.run(placed.wanted())?;
        }
        status.has_pipelines(api);
        Ok(Self(Some(placed)))
    }

    /// Starts the pipelines that have come to this process, and stops the others.
    pub(crate) fn follow(&self) {
        let Some(placed) = self.0.as_ref().filter(|placed| placed.placement.may_change()) else { return };
        let wanted = placed.wanted();
        if *placed.running() == wanted {
            return;
        }
        let names = wanted.iter().cloned().collect::<Vec<_>>().join(", ");
        if let Err(error) = placed.run(wanted) {
            // It is tried again with the next look.
            tracing::warn!(pipelines = names, error, "pipelines cannot be started");
            placed.end(HANDOVER);
        }
    }

    /// Ends the batches under way, within `grace`.
    pub(crate) fn stop(&self, grace: Duration) {
        if let Some(placed) = &self.0 {
            placed.end(grace);
        }
    }
}

impl Placed {
    fn running(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pipelines whose sessions belong to this process.
    fn wanted(&self) -> BTreeSet<String> {
        let names = self.config.pipelines.iter().map(|pipeline| &pipeline.name);
        names.filter(|name| self.placement.is_here(&format!("{CLIENT_PREFIX}{name}"))).cloned().collect()
    }

    /// Runs these and no others. They share sinks, so all stop before the others start.
    fn run(&self, wanted: BTreeSet<String>) -> Result<(), String> {
        self.end(HANDOVER);
        if wanted.is_empty() {
            return Ok(());
        }
        let mut config = self.config.clone();
        config.pipelines.retain(|pipeline| wanted.contains(&pipeline.name));
        let settings = config.pipeline_settings(&self.way)?;
        let hub = Arc::new(Hub::start(&settings).map_err(|error| error.to_string())?);
        self.api.set(Some(Arc::clone(&hub)));
        if !hub.wait_until_subscribed(Instant::now() + SUBSCRIBED_WITHIN) {
            let error = hub.status().into_iter().find_map(|pipeline| pipeline.error);
            return Err(format!("a pipeline cannot subscribe: {}", error.unwrap_or_default()));
        }
        *self.running() = wanted;
        Ok(())
    }

    fn end(&self, grace: Duration) {
        self.running().clear();
        if let Some(hub) = self.api.set(None) {
            hub.stop(grace);
            self.api.add_ended(&hub);
        }
    }
}

/// The numbers of pipelines, for metrics.
pub(crate) fn numbers_of(pipelines: Vec<PipelineStatus>) -> Vec<PipelineNumbers> {
    let numbers = |pipeline: PipelineStatus| PipelineNumbers {
        name: pipeline.name,
        taken: pipeline.numbers.taken,
        delivered: pipeline.numbers.delivered,
        filtered: pipeline.numbers.filtered,
        failed: pipeline.numbers.failed,
        retried: pipeline.numbers.retried,
        dropped: pipeline.numbers.dropped,
        held: u64::try_from(pipeline.held).unwrap_or(u64::MAX),
        lag_ms: pipeline.lag_ms,
    };
    pipelines.into_iter().map(numbers).collect()
}
