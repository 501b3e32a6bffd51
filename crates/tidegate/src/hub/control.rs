//! The admin API's view of pipelines, and its commands to them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tidegate_console::Unavailable;
use tidegate_console::api::ControlError;
use tidegate_engine::ClientQuery;
use tidegate_hub::{Hub, PipelineStatus};

use crate::status::BrokerStatus;
use tidegate_config::hub::CLIENT_PREFIX;

/// The pipelines that run here, for the admin API and for metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct HubApi {
    running: Arc<Mutex<Option<Arc<Hub>>>>,
    /// Deliveries to sinks of the pipelines that ran here before.
    ended_deliveries: Arc<AtomicU64>,
}

impl HubApi {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { running: Arc::new(Mutex::new(Some(hub))), ended_deliveries: Arc::default() }
    }

    /// Puts others in the place of the running pipelines, and returns these.
    pub(super) fn set(&self, hub: Option<Arc<Hub>>) -> Option<Arc<Hub>> {
        std::mem::replace(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner), hub)
    }

    fn hub(&self) -> Option<Arc<Hub>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How each pipeline does.
    pub(crate) fn status(&self) -> Vec<PipelineStatus> {
        self.hub().map(|hub| hub.status()).unwrap_or_default()
    }

    /// Messages that sinks have confirmed since the start of the process, each counted for each sink.
    pub(crate) fn sink_deliveries(&self) -> u64 {
        self.ended_deliveries.load(Ordering::Acquire) + deliveries(&self.status())
    }

    /// These pipelines have ended, and their deliveries still count.
    pub(super) fn add_ended(&self, ended: &Hub) {
        self.ended_deliveries.fetch_add(deliveries(&ended.status()), Ordering::AcqRel);
    }

    /// Pauses or resumes a pipeline; false when no pipeline has the name.
    pub(crate) fn pause(&self, name: &str, paused: bool) -> bool {
        self.hub().is_some_and(|hub| hub.pause(name, paused))
    }
}

fn deliveries(pipelines: &[PipelineStatus]) -> u64 {
    pipelines.iter().map(|pipeline| pipeline.numbers.sink_deliveries).sum()
}

/// Sessions of pipelines that are looked at.
const MAX_SESSIONS: usize = 1_000;

/// The state of a broker's pipelines, with the queues of their sessions.
///
/// # Errors
/// When the broker does not answer.
pub(crate) fn status_of(broker: &BrokerStatus) -> Result<Value, ControlError> {
    let Some(pipelines) = broker.pipelines() else { return Ok(Value::Object(Map::new())) };
    let query = ClientQuery { containing: CLIENT_PREFIX.to_owned(), after: None, limit: MAX_SESSIONS, filters: 0 };
    // A hub without a broker has no node: its broker knows the queue.
    let sessions = match broker.node() {
        Ok(node) => node.clients(&query).map_err(|_| Unavailable)?,
        Err(_) => Vec::new(),
    };
    let queued = |name: &str| {
        let is_it = |client_id: &str| client_id.strip_prefix(CLIENT_PREFIX) == Some(name);
        sessions.iter().find(|(session, _)| is_it(&session.client_id)).map_or(0, |(session, _)| session.queued_messages)
    };
    Ok(view(&pipelines.status(), queued))
}

/// An object from pipeline to its numbers. `queued` says how much waits at the broker for a client id.
fn view(pipelines: &[PipelineStatus], queued: impl Fn(&str) -> u64) -> Value {
    let one = |pipeline: &PipelineStatus| {
        let numbers = pipeline.numbers;
        let held = u64::try_from(pipeline.held).unwrap_or(u64::MAX);
        let value = json!({
            "state": pipeline.state.label(),
            "in": numbers.taken,
            "out": numbers.delivered,
            "filtered": numbers.filtered,
            "failed": numbers.failed,
            "retried": numbers.retried,
            "dropped": numbers.dropped,
            "waiting": held + queued(&pipeline.name),
            "lag_s": seconds(pipeline.lag_ms),
            "error": pipeline.error,
        });
        (pipeline.name.clone(), value)
    };
    Value::Object(pipelines.iter().map(one).collect::<Map<_, _>>())
}

/// Milliseconds as seconds.
fn seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}
