//! Pipelines in the broker: their configuration, how they come in, and the running ones.
//!
//! Each is a session of the broker with a client id that no client can have. It comes in by a listener without a socket,
//! through a pipe, with a password that only this process knows.

mod control;
mod door;
mod histories;
mod removed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_engine::TenantId;
pub use tidegate_hub::{HistoryPlace, HistoryQuery};
use tidegate_hub::{Hub, HubError};
use tidegate_node::Node;

pub use self::control::HubPart;
pub use self::door::{Door, with_door};
pub use self::histories::{Histories, HistoryAnswer, Others, ReadHistoryError};
use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::hub::{CLIENT_PREFIX, PipelineError};
use tidegate_config::sections::hub::Pipeline;
use tidegate_placement::{Attempts, Placement};

/// How long the start of a broker that is alone waits for the subscriptions of pipelines.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(30);

/// Why pipelines do not start.
#[derive(Debug, thiserror::Error)]
pub enum StartPipelinesError {
    /// The settings of a pipeline cannot be made.
    #[error(transparent)]
    Settings(#[from] PipelineError),
    /// A pipeline does not start.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// A pipeline cannot subscribe.
    #[error("a pipeline cannot subscribe: {0}")]
    Subscribe(String),
}

/// The pipelines of a broker, a node or an orchestrator.
#[derive(Debug, Default)]
pub struct Pipelines(Option<Placed>);

/// The pipelines of the configuration, and which of them run here.
#[derive(Debug)]
struct Placed {
    hub: Arc<Hub>,
    /// The tenants of pipelines, by name.
    tenants: BTreeMap<String, (String, TenantId)>,
    placement: Placement,
    attempts: Mutex<Attempts>,
}

impl Pipelines {
    /// Takes up the pipelines of the configuration. Where their placement cannot change, starts all, and waits until
    /// each has its subscriptions: from then on, they get each message that the broker acknowledges.
    ///
    /// # Errors
    /// When a file cannot be read, a sink cannot be used, or a pipeline cannot subscribe.
    pub fn start(
        config: &Config,
        node: &Node,
        door: Option<&Door>,
        placement: Placement,
        status: &BrokerStatus,
    ) -> Result<Self, StartPipelinesError> {
        removed::warn_of_removed(&config.pipelines, &node.handle());
        let Some(door) = door else { return Ok(Self::default()) };
        // A mistake is an error at the start, even where another process runs the pipeline.
        let settings = config.pipeline_settings(&door.way(node))?;
        let hub = if placement.may_change() { Hub::new(settings) } else { Hub::start(settings) };
        let hub = Arc::new(hub?);
        // Before the wait, so that an operator sees its reason.
        status.parts().register_pipelines(Arc::new(HubPart(Arc::clone(&hub))));
        if !hub.wait_until_subscribed(Instant::now() + SUBSCRIBED_WITHIN) {
            let error = hub.status().into_iter().find_map(|pipeline| pipeline.error);
            return Err(StartPipelinesError::Subscribe(error.unwrap_or_default()));
        }
        let tenant = |pipeline: &Pipeline| {
            let tenant = (pipeline.tenant_name().to_owned(), pipeline.tenant_number(&config.tenants));
            (pipeline.name.clone(), tenant)
        };
        let tenants = config.pipelines.iter().map(tenant).collect();
        Ok(Self(Some(Placed { hub, tenants, placement, attempts: Mutex::default() })))
    }

    /// True if there are pipelines and another member may get or give them.
    pub fn may_move(&self) -> bool {
        self.0.as_ref().is_some_and(|placed| placed.placement.may_change())
    }

    /// Starts each pipeline that has come to this process, and stops each that has gone. Waits for none of them.
    pub fn follow(&self) {
        if let Some(placed) = self.0.as_ref().filter(|placed| placed.placement.may_change()) {
            placed.hub.names().for_each(|name| placed.follow(name));
        }
    }

    /// Reads how many records sinks have taken, by the name of the tenant; the default tenant has an empty one.
    pub fn sink_deliveries(&self) -> impl Fn() -> BTreeMap<String, u64> + Send + Sync + 'static {
        let found = self.0.as_ref().map(|placed| (Arc::clone(&placed.hub), placed.tenants.clone()));
        move || {
            let mut sums = BTreeMap::new();
            let Some((hub, tenants)) = &found else { return sums };
            for (pipeline, deliveries) in hub.sink_deliveries() {
                let tenant = tenants.get(&pipeline).map(|(name, _)| name.clone()).unwrap_or_default();
                *sums.entry(tenant).or_default() += deliveries;
            }
            sums
        }
    }

    /// Ends the batches under way, within `grace`.
    pub fn stop(&self, grace: Duration) {
        if let Some(placed) = &self.0 {
            placed.hub.stop(grace);
        }
    }
}

impl Placed {
    fn follow(&self, name: &str) {
        let tenant = self.tenants.get(name).map_or(TenantId::DEFAULT, |(_, tenant)| *tenant);
        let is_here = self.placement.is_here(tenant, &format!("{CLIENT_PREFIX}{name}"));
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
                    tracing::warn!(pipeline = name, error, "cannot start the pipeline; retrying");
                }
            }
        }
    }
}
