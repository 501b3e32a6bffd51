//! Pipelines as a part of the broker's status: their numbers, the admin API's view of them, and its commands.

use std::sync::Arc;

use tidegate_admin::{
    FailedMessage, PipelineCommand, PipelineCounts, PipelineOrder, PipelineReport, Pipelines, SinkError, SinkReport,
};
use tidegate_administration::{Part, PipelinesPart};
use tidegate_console::api::ControlError;
use tidegate_console::{PipelineNumbers, Status, Unavailable};
use tidegate_engine::{ClientQuery, ClientSummary};
use tidegate_hub::{Hub, LastFailure, Numbers, PipelineState, PipelineStatus, SinkStatus, rfc3339};
use tidegate_node::NodeHandle;

use tidegate_config::hub::CLIENT_PREFIX;

/// Sessions of pipelines that are looked at.
pub(super) const MAX_SESSIONS: usize = 1_000;

/// The pipelines, as a part of the broker's status.
#[derive(Clone, Debug)]
pub struct HubPart(pub(crate) Arc<Hub>);

impl Part for HubPart {
    fn add_to(&self, status: &mut Status) {
        status.pipelines = numbers_of(self.0.status());
        for pipeline in &mut status.pipelines {
            pipeline.counts.dropped += status.counters.pipeline_drops.get(&*pipeline.name).copied().unwrap_or_default();
        }
    }
}

impl PipelinesPart for HubPart {
    fn view(&self, node: Option<&NodeHandle>) -> Result<Pipelines, ControlError> {
        let query = ClientQuery { containing: CLIENT_PREFIX.to_owned(), after: None, limit: MAX_SESSIONS, filters: 0 };
        // A hub without a broker has no node: its broker knows the queue.
        let sessions = match node {
            Some(node) => node.clients().list(&query).map_err(|_| Unavailable)?,
            None => Vec::new(),
        };
        let at_broker = |name: &str| {
            let is_it = |client_id: &str| client_id.strip_prefix(CLIENT_PREFIX) == Some(name);
            let session = sessions.iter().find(|(session, _)| is_it(&session.client_id));
            session.map(|(session, _)| AtBroker::of(session)).unwrap_or_default()
        };
        // Behind the sessions: a message that has left its session was confirmed by all sinks before.
        let mut pipelines = view(&self.0.status(), at_broker);
        if let Some(node) = node {
            let counters = node.report().map_err(|_| Unavailable)?.counters;
            for (name, dropped) in &counters.pipeline_drops {
                if let Some(pipeline) = pipelines.get_mut(&**name) {
                    pipeline.counts.dropped += dropped;
                }
            }
        }
        Ok(pipelines)
    }

    fn start_waits_for(&self) -> Option<String> {
        let pipelines = self.0.status();
        let it = pipelines.iter().find(|pipeline| pipeline.state == PipelineState::Connecting)?;
        let why = it.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        Some(format!("it waits for the subscriptions of pipeline `{}`{why}", it.name))
    }

    fn names(&self) -> Vec<String> {
        self.0.names().map(str::to_owned).collect()
    }

    fn order(&self, order: &PipelineOrder) -> Result<bool, ControlError> {
        let PipelineOrder { name, command, .. } = order;
        match command {
            PipelineCommand::Pause => Ok(self.0.pause(name, true)),
            PipelineCommand::Resume => Ok(self.0.pause(name, false)),
            PipelineCommand::Replay(from) => {
                self.0.replay(name, *from).map_err(|error| ControlError::Refused(error.to_string()))
            }
        }
    }
}

/// The messages that the session of a pipeline has at the broker.
#[derive(Clone, Copy, Debug, Default)]
struct AtBroker {
    /// In its queue.
    queued: u64,
    /// Sent and not acknowledged. The pipeline has not read all of them yet.
    sent: u64,
}

impl AtBroker {
    fn of(session: &ClientSummary) -> Self {
        Self { queued: session.queued_messages, sent: session.inflight_messages }
    }
}

/// The reports of pipelines. `at_broker` knows the session of a pipeline.
fn view(pipelines: &[PipelineStatus], at_broker: impl Fn(&str) -> AtBroker) -> Pipelines {
    let one = |pipeline: &PipelineStatus| {
        let numbers = pipeline.numbers;
        let held = u64::try_from(pipeline.held).unwrap_or(u64::MAX);
        let AtBroker { queued, sent } = at_broker(&pipeline.name);
        let report = PipelineReport {
            node: None,
            state: pipeline.state.label().to_owned(),
            since: Some(rfc3339(pipeline.since)),
            counts: counts(&numbers),
            batch_s: seconds(numbers.batch_ms),
            // A message that the pipeline holds is also one that the session has sent, unless it has QoS 0.
            waiting: held.max(sent).saturating_add(pipeline.waiting).saturating_add(queued),
            lag_s: seconds(pipeline.lag_ms),
            error: pipeline.error.clone(),
            sinks: pipeline.sinks.iter().map(sink).collect(),
            last_failure: pipeline.last_failure.as_ref().map(failure),
        };
        (pipeline.name.clone(), report)
    };
    pipelines.iter().map(one).collect()
}

fn sink(sink: &SinkStatus) -> SinkReport {
    let last_error = sink.last_error.as_ref().map(|(at, why)| SinkError { at_ms: *at, why: why.clone() });
    let waiting = u64::try_from(sink.waiting).unwrap_or(u64::MAX);
    SinkReport { name: sink.name.clone(), waiting, error: sink.error.clone(), last_error }
}

fn failure(failure: &LastFailure) -> FailedMessage {
    let (topic, why) = (failure.topic.clone(), failure.why.clone());
    FailedMessage { at_ms: failure.at, topic, why, dead_letter: failure.kept }
}

fn counts(numbers: &Numbers) -> PipelineCounts {
    PipelineCounts {
        taken: numbers.taken,
        delivered: numbers.delivered,
        filtered: numbers.filtered,
        failed: numbers.failed,
        dead_letters: numbers.dead_letters,
        looped: numbers.looped,
        ended_early: numbers.ended_early,
        retried: numbers.retried,
        batches: numbers.batches,
        dropped: numbers.dropped,
    }
}

/// Milliseconds as seconds.
fn seconds(millis: u64) -> f64 {
    std::time::Duration::from_millis(millis).as_secs_f64()
}

/// The numbers of pipelines, for metrics.
fn numbers_of(pipelines: Vec<PipelineStatus>) -> Vec<PipelineNumbers> {
    let numbers = |pipeline: PipelineStatus| PipelineNumbers {
        name: pipeline.name,
        counts: counts(&pipeline.numbers),
        batch_ms: pipeline.numbers.batch_ms,
        held: u64::try_from(pipeline.held).unwrap_or(u64::MAX),
        waiting: pipeline.waiting,
        lag_ms: pipeline.lag_ms,
    };
    pipelines.into_iter().map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_on_their_way_to_a_pipeline_wait() {
        let waiting = |held, at_broker| {
            let pipeline = PipelineStatus {
                name: "hot".to_owned(),
                state: PipelineState::Running,
                since: 0,
                numbers: Numbers::default(),
                held,
                lag_ms: 0,
                waiting: 3,
                error: None,
                sinks: Vec::new(),
                last_failure: None,
            };
            view(&[pipeline], |_| at_broker)["hot"].waiting
        };
        assert_eq!(waiting(0, AtBroker::default()), 3, "in the log on the bus");
        assert_eq!(waiting(0, AtBroker { queued: 10, sent: 20 }), 33, "none was read yet");
        assert_eq!(waiting(15, AtBroker { queued: 10, sent: 20 }), 33, "some were read");
        assert_eq!(waiting(25, AtBroker { queued: 0, sent: 20 }), 28, "five have QoS 0");
    }
}
