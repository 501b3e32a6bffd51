//! The admin API's view of pipelines, and its commands to them.

use serde_json::{Map, Value, json};
use tidegate_console::Unavailable;
use tidegate_console::api::ControlError;
use tidegate_engine::ClientQuery;
use tidegate_hub::{LastFailure, PipelineStatus, SinkStatus};

use crate::status::BrokerStatus;
use tidegate_config::hub::CLIENT_PREFIX;

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
            "dead_letters": numbers.dead_letters,
            "retried": numbers.retried,
            "batches": numbers.batches,
            "batch_s": seconds(numbers.batch_ms),
            "dropped": numbers.dropped,
            "waiting": held + pipeline.waiting + queued(&pipeline.name),
            "lag_s": seconds(pipeline.lag_ms),
            "error": pipeline.error,
            "sinks": pipeline.sinks.iter().map(sink).collect::<Vec<_>>(),
            "last_failure": pipeline.last_failure.as_ref().map(failure),
        });
        (pipeline.name.clone(), value)
    };
    Value::Object(pipelines.iter().map(one).collect::<Map<_, _>>())
}

fn sink(sink: &SinkStatus) -> Value {
    let last = sink.last_error.as_ref().map(|(at, why)| json!({ "at_ms": at, "why": why }));
    json!({ "name": sink.name, "waiting": sink.waiting, "error": sink.error, "last_error": last })
}

fn failure(failure: &LastFailure) -> Value {
    json!({ "at_ms": failure.at, "topic": failure.topic, "why": failure.why, "dead_letter": failure.kept })
}

/// Milliseconds as seconds.
fn seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}
