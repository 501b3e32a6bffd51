//! `/api/v1/hub`: pipelines.

use serde::{Deserialize, Serialize};

use crate::request::{Body, Done, Method, Request, with_name};

/// `GET /api/v1/hub`: an object from the name of each pipeline to its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetHub;

impl Request for GetHub {
    type Answer = serde_json::Value;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/hub";
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
