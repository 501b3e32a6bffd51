//! `/api/v1/hub`: pipelines.

use crate::request::{Done, Method, Request, with_name};

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
