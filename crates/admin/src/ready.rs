//! Whether a broker takes clients. The answer is text, not JSON, and needs no token.

use crate::request::{Done, Method, Request};

/// The answer of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It takes clients.
    Ready,
    /// It does not, for this reason.
    Not(String),
}

/// The answer of a broker that takes clients, without the end of its line.
pub(crate) const READY: &str = "ready";
/// Answers of processes that work, without the end of the line: of a broker, and of a manager.
pub(crate) const ALIVE: [&str; 2] = ["ok", "{}"];

/// Asks whether a broker takes clients: 200, or 503 with the reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadinessRequest;

impl Request for ReadinessRequest {
    type Answer = Done;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/readyz";
}
