//! Pipelines in the broker: their configuration, how they come in, and the running ones.
//!
//! Each is a session of the broker with a client id that no client can have. It comes in by a listener of its own at
//! loopback, with a password that only this process knows.

mod control;
mod door;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_console::PipelineNumbers;
use tidegate_hub::{Hub, PipelineStatus};
use tidegate_node::Node;

pub(crate) use self::control::status_of;
pub(crate) use self::door::{Door, with_door};
use crate::status::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::hub::CLIENT_PREFIX;
use tidegate_placement::{Attempts, Placement};

/// How long the start of a broker that is alone waits for the subscriptions of pipelines.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(30);

/// The pipelines of a broker, a node or an orchestrator.
#[derive(Debug, Default)]
pub(crate) struct Pipelines(Option<Placed>);

/// The pipelines of the configuration, and which of them run here.
#[derive(Debug)]
struct Placed {
    hub: Arc<Hub>,
    placement: Placement,
    attempts: Mutex<Attempts>,
}

impl Pipelines {
    /// Takes up the pipelines of the configuration. Where their placement cannot change, starts all, and waits until
    /// each has its subscriptions: from then on, they get each message that the broker acknowledges.
    ///
    /// # Errors
    /// In words for people, when messages would not be kept, a file cannot be read, a sink cannot be used, or a
    /// pipeline cannot subscribe.
    pub(crate) fn start(
        config: &Config,
        node: &Node,
        door: Option<&Door>,
        placement: Placement,
        status: &BrokerStatus,
    ) -> Result<Self, String> {
        let Some(door) = door else { return Ok(Self::default()) };
        // A mistake is an error at the start, even where another process runs the pipeline.
        let settings = config.pipeline_settings(&door.way(node)?)?;
        let hub = if placement.may_change() { Hub::new(settings) } else { Hub::start(settings) };
        let hub = Arc::new(hub.map_err(|error| error.to_string())?);
        if !hub.wait_until_subscribed(Instant::now() + SUBSCRIBED_WITHIN) {
            let error = hub.status().into_iter().find_map(|pipeline| pipeline.error);
            return Err(format!("a pipeline cannot subscribe: {}", error.unwrap_or_default()));
        }
        status.has_pipelines(Arc::clone(&hub));
        Ok(Self(Some(Placed { hub, placement, attempts: Mutex::default() })))
    }

    /// Starts each pipeline that has come to this process, and stops each that has gone. Waits for none of them.
    pub(crate) fn follow(&self) {
        if let Some(placed) = self.0.as_ref().filter(|placed| placed.placement.may_change()) {
            placed.hub.names().for_each(|name| placed.follow(name));
        }
    }

    /// Ends the batches under way, within `grace`.
    pub(crate) fn stop(&self, grace: Duration) {
        if let Some(placed) = &self.0 {
            placed.hub.stop(grace);
        }
    }
}

impl Placed {
    fn follow(&self, name: &str) {
        let is_here = self.placement.is_here(&format!("{CLIENT_PREFIX}{name}"));
        if is_here && !self.hub.runs(name) {
            self.begin(name);
        } else if !is_here {
            if self.hub.runs(name) {
                self.hub.end(name);
                tracing::info!(pipeline = name, "the pipeline moves to another member");
            }
            self.attempts.lock().unwrap_or_else(PoisonError::into_inner).forget(name);
        }
    }

    fn begin(&self, name: &str) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if !attempts.is_due(name, Instant::now()) {
            return;
        }
        match self.hub.begin(name) {
            Ok(true) => {
                attempts.forget(name);
                tracing::info!(pipeline = name, "the pipeline starts at this member");
            }
            // Its last run ends here: the next look tries again.
            Ok(false) => {}
            Err(error) => {
                let error = error.to_string();
                if attempts.fail(name, Instant::now(), &error) {
                    tracing::warn!(pipeline = name, error, "the pipeline cannot be started; it is tried again");
                }
            }
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
        dead_letters: pipeline.numbers.dead_letters,
        batches: pipeline.numbers.batches,
        batch_ms: pipeline.numbers.batch_ms,
        retried: pipeline.numbers.retried,
        dropped: pipeline.numbers.dropped,
        held: u64::try_from(pipeline.held).unwrap_or(u64::MAX),
        waiting: pipeline.waiting,
        lag_ms: pipeline.lag_ms,
    };
    pipelines.into_iter().map(numbers).collect()
}
