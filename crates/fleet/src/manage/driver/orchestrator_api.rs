//! The admin API of orchestrators, as their manager uses it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::{Method, Request};

use crate::manage::sight::{BrokerView, OrchestratorView};
use crate::provider::{Resource, ResourceName};

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Longest answer, bytes.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;
/// The header that an orchestrator requires for changes.
const COMMAND: (&str, &str) = ("tidegate-command", "fleet");

/// Why a request to an orchestrator failed.
#[derive(Debug, thiserror::Error)]
pub enum OrchestratorError {
    /// The file of the token cannot be read.
    #[error("cannot read the token in {}: {source}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// It does not answer.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// It refuses.
    #[error("it answers {0}: {1}")]
    Refused(u16, String),
    /// Its answer is malformed.
    #[error("its answer is not understood: {0}")]
    Strange(String),
}

/// Asks orchestrators.
#[derive(Clone, Debug)]
pub(super) struct OrchestratorApi {
    agent: ureq::Agent,
    /// Read for each request: it may be changed while the manager works.
    token_file: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Fleet {
    #[serde(default)]
    orchestrator: String,
    #[serde(default)]
    clients: u64,
    #[serde(default)]
    owed: u64,
    #[serde(default)]
    loop_lag_ms: Option<f64>,
    #[serde(default)]
    messages_in: u64,
    #[serde(default)]
    messages_out: u64,
    #[serde(default)]
    dropped: Option<u64>,
    #[serde(default)]
    dropped_fleet_full: Option<u64>,
    brokers: Vec<Broker>,
}

#[derive(Deserialize)]
struct Broker {
    name: String,
    #[serde(flatten)]
    view: BrokerView,
}

#[derive(Deserialize)]
struct Drain {
    draining: bool,
    #[serde(default)]
    owed: u64,
}

impl OrchestratorApi {
    pub(super) fn new(token_file: Option<PathBuf>) -> Self {
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Self { agent, token_file }
    }

    /// An orchestrator's state of itself and of its brokers. Brokers with names that this fleet cannot have given are
    /// left out.
    pub(super) fn view(&self, asked: &Resource, admin: &str) -> Result<OrchestratorView, OrchestratorError> {
        let strange = |error: serde_json::Error| OrchestratorError::Strange(error.to_string());
        let fleet: Fleet =
            serde_json::from_value(self.ask(Method::GET, admin, "/api/v1/fleet", None)?).map_err(strange)?;
        let drain: Drain =
            serde_json::from_value(self.ask(Method::GET, admin, "/api/v1/drain", None)?).map_err(strange)?;
        let named = fleet.brokers.into_iter().filter_map(|broker| Some((broker.name.parse().ok()?, broker.view)));
        Ok(OrchestratorView {
            calls_itself: fleet.orchestrator,
            clients: fleet.clients,
            // Only the drain reports the pending messages of sessions.
            owed: fleet.owed.max(drain.owed),
            loop_lag_ms: fleet.loop_lag_ms,
            messages_in: fleet.messages_in,
            messages_out: fleet.messages_out,
            dropped: fleet.dropped,
            dropped_fleet_full: fleet.dropped_fleet_full,
            draining: drain.draining,
            // An orchestrator that accepts no relayed clients cannot be in a table.
            homes: if asked.relay.is_some() { self.homes(&asked.name, admin)? } else { None },
            brokers: named.collect(),
        })
    }

    pub(super) fn add(
        &self,
        admin: &str,
        broker: &ResourceName,
        address: &str,
        replaces: &[ResourceName],
    ) -> Result<(), OrchestratorError> {
        let path = format!("/api/v1/fleet/brokers/{broker}");
        let body = json!({"address": address, "replaces": replaces});
        self.ask(Method::PUT, admin, &path, Some(&body)).map(drop)
    }

    pub(super) fn drain_broker(&self, admin: &str, broker: &ResourceName) -> Result<(), OrchestratorError> {
        self.ask(Method::POST, admin, &format!("/api/v1/fleet/brokers/{broker}/drain"), Some(&json!({}))).map(drop)
    }

    pub(super) fn remove(&self, admin: &str, broker: &ResourceName, force: bool) -> Result<(), OrchestratorError> {
        let query = if force { "?force=true" } else { "" };
        self.ask(Method::DELETE, admin, &format!("/api/v1/fleet/brokers/{broker}{query}"), None).map(drop)
    }

    pub(super) fn evict(&self, admin: &str, body: &Value) -> Result<(), OrchestratorError> {
        self.ask(Method::POST, admin, "/api/v1/drain", Some(body)).map(drop)
    }

    pub(super) fn end_eviction(&self, admin: &str) -> Result<(), OrchestratorError> {
        self.ask(Method::DELETE, admin, "/api/v1/drain", None).map(drop)
    }

    /// The value of the header that opens the API.
    fn bearer(&self) -> Result<Option<String>, OrchestratorError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let token =
            super::logins::read(path).map_err(|source| OrchestratorError::Token { path: path.clone(), source })?;
        Ok(Some(format!("Bearer {}", token.trim())))
    }

    pub(super) fn ask(
        &self,
        method: Method,
        admin: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, OrchestratorError> {
        let unreachable = |error: ureq::Error| OrchestratorError::Unreachable(error.to_string());
        let request = Request::builder().method(method).uri(format!("{admin}{path}")).header(COMMAND.0, COMMAND.1);
        let request = match self.bearer()? {
            Some(token) => request.header("authorization", token),
            None => request,
        };
        let request =
            request.header("content-type", "application/json").body(body.map(Value::to_string).unwrap_or_default());
        let request = request.map_err(|error| OrchestratorError::Strange(error.to_string()))?;
        let mut response = self.agent.run(request).map_err(unreachable)?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(MAX_ANSWER).read_to_string().map_err(unreachable)?;
        let value: Result<Value, _> = serde_json::from_str(&text);
        if (200..300).contains(&status) {
            return if text.trim().is_empty() {
                Ok(Value::Null)
            } else {
                value.map_err(|error| OrchestratorError::Strange(error.to_string()))
            };
        }
        let said = value.ok().and_then(|value| Some(value.get("error")?.as_str()?.to_owned()));
        Err(OrchestratorError::Refused(status, said.unwrap_or_else(|| text.chars().take(200).collect())))
    }
}
