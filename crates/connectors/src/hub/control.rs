//! Pipelines as a part of the broker's status: their numbers, the admin API's view of them, and its commands.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_administration::{Part, PipelinesPart};
use tidegate_console::api::ControlError;
use tidegate_console::{PipelineNumbers, Status, Unavailable};
use tidegate_engine::ClientQuery;
use tidegate_hub::{Hub, PipelineStatus};
use tidegate_node::NodeHandle;

use tidegate_config::hub::CLIENT_PREFIX;

/// Sessions of pipelines that are looked at.
const MAX_SESSIONS: usize = 1_000;

/// The pipelines, as a part of the broker's status.
#[derive(Clone, Debug)]
pub struct HubPart(pub(crate) Arc<Hub>);

impl Part for HubPart {
    fn add_to(&self, status: &mut Status) {
        status.pipelines = numbers_of(self.0.status());
    }
}

impl PipelinesPart for HubPart {
    fn view(&self, node: Option<&NodeHandle>) -> Result<Value, ControlError> {
        let query = ClientQuery { containing: CLIENT_PREFIX.to_owned(), after: None, limit: MAX_SESSIONS, filters: 0 };
        // A hub without a broker has no node: its broker knows the queue.
        let sessions = match node {
            Some(node) => node.clients(&query).map_err(|_| Unavailable)?,
            None => Vec::new(),
        };
        let queued = |name: &str| {
            let is_it = |client_id: &str| client_id.strip_prefix(CLIENT_PREFIX) == Some(name);
            let session = sessions.iter().find(|(session, _)| is_it(&session.client_id));
            session.map_or(0, |(session, _)| session.queued_messages)
        };
        Ok(view(&self.0.status(), queued))
    }

    fn pause(&self, name: &str, paused: bool) -> bool {
        self.0.pause(name, paused)
    }
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

/// The numbers of pipelines, for metrics.
fn numbers_of(pipelines: Vec<PipelineStatus>) -> Vec<PipelineNumbers> {
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
