//! The endpoint of a fleet's manager on loopback. Its answers are documents for people and scripts, which
//! docs/manager.md describes.

use serde_json::Value;

use crate::request::{Method, Request};

/// `GET /api/v1/status`: the fleet as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetStatus;

impl Request for GetStatus {
    type Answer = Value;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/status";
}

/// `GET /api/v1/plan`: the action that would begin now, or the cause of none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetPlan;

impl Request for GetPlan {
    type Answer = Value;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/plan";
}

/// `GET /healthz`: refused while the manager does not look at its fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetHealth;

impl Request for GetHealth {
    type Answer = crate::Done;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/healthz";
}
