//! Pipelines in the broker: their configuration, how they come in, and the running ones.
//!
//! Each is a session of the broker with a client id that no client can have. It comes in by a listener of its own at
//! loopback, with a password that only this process knows.

mod control;
mod door;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_console::PipelineNumbers;
use tidegate_hub::{Hub, PipelineStatus};
use tidegate_node::Node;

pub(crate) use self::control::{HubApi, status_of};
pub(crate) use self::door::{Door, with_door};
use crate::status::BrokerStatus;
use tidegate_config::Config;

/// How long the start waits for the subscriptions of pipelines.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(30);

/// The pipelines of a broker.
#[derive(Debug, Default)]
pub(crate) struct Pipelines(Option<Arc<Hub>>);

impl Pipelines {
    /// Starts the pipelines of the configuration, and waits until each has its subscriptions: from then on, they get
    /// each message that the broker acknowledges.
    ///
    /// # Errors
    /// In words for people, when messages would not be kept, a file cannot be read, or a pipeline cannot subscribe.
    pub(crate) fn start(
        config: &Config,
        node: &Node,
        door: Option<&Door>,
        status: &BrokerStatus,
    ) -> Result<Self, String> {
        let Some(door) = door else { return Ok(Self::default()) };
        let way = door.way(node)?;
        let settings = config.pipeline_settings(&way)?;
        let hub = Hub::start(&settings).map_err(|error| error.to_string())?;
        if !hub.wait_until_subscribed(Instant::now() + SUBSCRIBED_WITHIN) {
            let error = hub.status().into_iter().find_map(|pipeline| pipeline.error);
            return Err(format!("a pipeline cannot subscribe: {}", error.unwrap_or_default()));
        }
        let hub = Arc::new(hub);
        status.has_pipelines(HubApi::new(Arc::clone(&hub)));
        Ok(Self(Some(hub)))
    }

    /// Ends the batches under way, within `grace`.
    pub(crate) fn stop(&self, grace: Duration) {
        if let Some(hub) = &self.0 {
            hub.stop(grace);
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
