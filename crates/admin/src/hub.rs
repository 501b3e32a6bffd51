//! `/api/v1/hub`: pipelines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::request::{Body, Done, Method, Request, with_name};

/// `GET /api/v1/hub`: an object from the name of each pipeline to its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetHub;

impl Request for GetHub {
    type Answer = Pipelines;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/hub";
}

/// The reports of pipelines by their names.
pub type Pipelines = BTreeMap<String, PipelineReport>;

/// A pipeline: its state, and its numbers since `since`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineReport {
    /// The member that runs it, where several answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `running`, `retrying`, `paused`, `connecting`, or `unknown` where no member that answers runs it.
    pub state: String,
    /// Start of the pipeline in its process, RFC 3339.
    pub since: Option<String>,
    /// The messages and batches counted.
    #[serde(flatten)]
    pub counts: PipelineCounts,
    /// The time that answers of sinks to batches took, seconds.
    pub batch_s: f64,
    /// Messages that it works on, or that wait for it.
    pub waiting: u64,
    /// Age of the oldest message that it works on, seconds.
    pub lag_s: f64,
    /// Why a sink does not take batches, or the source gives no messages.
    pub error: Option<String>,
    /// Its sinks, in the order of `to`; behind them the sink of dead letters.
    pub sinks: Vec<SinkReport>,
    /// The last message that was not delivered.
    pub last_failure: Option<FailedMessage>,
}

/// The messages and batches of a pipeline since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineCounts {
    /// Messages that it has taken.
    #[serde(rename = "in")]
    pub taken: u64,
    /// Messages that all its sinks have.
    #[serde(rename = "out")]
    pub delivered: u64,
    /// Messages that a step has left out.
    pub filtered: u64,
    /// Messages that were not delivered.
    pub failed: u64,
    /// The failed messages that became dead letters.
    pub dead_letters: u64,
    /// The failed messages that had passed as many pipelines as they may.
    pub looped: u64,
    /// Windows that ended before their time, as there was no room for more messages.
    pub ended_early: u64,
    /// Batches that were tried once more.
    pub retried: u64,
    /// Batches that sinks have answered.
    pub batches: u64,
    /// Messages that it has not got: its queue was full or they expired there, they have QoS 0 and it had no room, a bus has
    /// removed them unread, or they waited for topics that it does not take any more.
    pub dropped: u64,
}

impl PipelineCounts {
    /// Adds the counts of another process.
    pub(crate) fn add(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.taken, other.taken),
            (&mut self.delivered, other.delivered),
            (&mut self.filtered, other.filtered),
            (&mut self.failed, other.failed),
            (&mut self.dead_letters, other.dead_letters),
            (&mut self.looped, other.looped),
            (&mut self.ended_early, other.ended_early),
            (&mut self.retried, other.retried),
            (&mut self.batches, other.batches),
            (&mut self.dropped, other.dropped),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// A sink of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkReport {
    /// Its name.
    pub name: String,
    /// Records that wait for it.
    pub waiting: u64,
    /// Why it takes none.
    pub error: Option<String>,
    /// Its last error.
    pub last_error: Option<SinkError>,
}

/// The last error of a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkError {
    /// When it occurred, Unix milliseconds.
    pub at_ms: u64,
    /// The error.
    pub why: String,
}

/// A message that a pipeline has not delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedMessage {
    /// When it failed, Unix milliseconds.
    pub at_ms: u64,
    /// Its topic.
    pub topic: String,
    /// The error.
    pub why: String,
    /// Whether it became a dead letter.
    pub dead_letter: bool,
}

/// `POST /api/v1/hub/{name}/pause`: messages of a pipeline wait at the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausePipeline {
    /// The pipeline.
    pub name: String,
}

impl Request for PausePipeline {
    type Answer = Done;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/hub/{name}/pause";

    fn path(&self) -> String {
        with_name(Self::ROUTE, &self.name)
    }
}

/// `POST /api/v1/hub/{name}/resume`: a paused pipeline resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePipeline {
    /// The pipeline.
    pub name: String,
}

impl Request for ResumePipeline {
    type Answer = Done;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/hub/{name}/resume";

    fn path(&self) -> String {
        with_name(Self::ROUTE, &self.name)
    }
}

/// `POST /api/v1/hub/{name}/replay`: messages come again that the broker took at a time or later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayPipeline {
    /// The pipeline.
    #[serde(skip)]
    pub name: String,
    /// The time, Unix milliseconds.
    pub from_ms: u64,
}

impl Request for ReplayPipeline {
    type Answer = Done;
    const METHOD: Method = Method::Post;
    const ROUTE: &'static str = "/api/v1/hub/{name}/replay";

    fn path(&self) -> String {
        with_name(Self::ROUTE, &self.name)
    }

    fn body(&self) -> Body<'_> {
        Body::json(self)
    }
}

/// A command to a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineCommand {
    /// Messages wait from now on.
    Pause,
    /// Messages are taken again.
    Resume,
    /// Messages come again from this time on, Unix milliseconds.
    Replay(u64),
}

/// An order of an operator to a pipeline, for all members of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineOrder {
    /// The pipeline.
    pub name: String,
    /// The command.
    pub command: PipelineCommand,
}
