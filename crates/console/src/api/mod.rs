//! The admin API below `/api/v1/`: what people and scripts ask and tell a running broker.
//!
//! | request | what it does |
//! | --- | --- |
//! | `GET /api/v1/why?client=ID` (or `topic=NAME`, `address=ADDRESS`) | what happened lately, oldest first |
//! | `GET /api/v1/slow` (`?limit=N`) | who reads slowly or does not acknowledge |
//! | `GET /api/v1/clients` (`?containing=TEXT&limit=N&filters=N&after=ID`) | who is there |
//! | `GET /api/v1/bans` | all bans |
//! | `POST /api/v1/bans` with `{"client": ID, "reason": TEXT, "for_seconds": N}` (or `user`, `address`) | bans |
//! | `DELETE /api/v1/bans?client=ID` (or `user`, `address`) | ends a ban |
//! | `GET /api/v1/hub` | how pipelines do |
//! | `POST /api/v1/hub/NAME/pause`, `.../resume` | pauses a pipeline, or has it go on |
//! | `GET /api/v1/fleet` | an orchestrator's brokers |
//! | `PUT /api/v1/fleet/brokers/NAME` with `{"address": "mqtt://HOST:PORT"}` | adds a broker |
//! | `POST /api/v1/fleet/brokers/NAME/drain` | gives a broker nothing any more |
//! | `DELETE /api/v1/fleet/brokers/NAME` (`?force=true`) | takes a broker out |
//! | `GET /api/v1/cluster` | how the node stands in its cluster; see `cluster` |
//! | `GET`, `PUT /api/v1/homes`, `POST /api/v1/homes/move`, ... | which orchestrator works which partition; see `homes` |
//! | `GET`, `POST`, `DELETE /api/v1/drain` | sends the clients of an orchestrator elsewhere |
//!
//! Answers are JSON; an error is `{"error": TEXT}`. [`Access`] says who may ask.

mod access;
mod advice;
mod answers;
mod bans;
mod clients;
mod cluster;
mod fleet;
mod homes;
mod hub;
mod slow;
mod why;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::{get, post, put};
use tidegate_engine::SlowSession;

use crate::status::Unavailable;

pub use access::{Access, MIN_TOKEN_LEN, TokenError};
pub(crate) use access::{guard_api, guard_metrics};
pub use bans::{BanEntry, BanRequest, BanTarget, MAX_BAN_SECONDS};
pub use clients::{ClientEntry, ClientsRequest};
pub use fleet::{BrokerStatus, DrainRequest, DrainStatus, FleetStatus};
pub use homes::{Homes, MAX_PARCEL};
pub use why::{Story, StoryEvent, Subject};

/// Longest body of a request, bytes.
const MAX_BODY: usize = 256 * 1024;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The broker does not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// What was asked for is not possible at the moment.
    #[error("{0}")]
    Refused(String),
}

/// Whoever can be asked and told more than its numbers. Every call is made on a thread that may wait, for a bounded
/// time.
pub trait Control: crate::status::StatusSource {
    /// What happened lately to a subject.
    ///
    /// # Errors
    /// When the broker does not answer, or the subject is no address.
    fn why(&self, subject: &Subject) -> Result<Story, ControlError>;

    /// The clients that hold most up, the worst first, `limit` at most.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn slow(&self, limit: usize) -> Result<Vec<SlowSession>, ControlError>;

    /// The clients that are asked for, in the order of tenants and client ids.
    ///
    /// # Errors
    /// When the broker does not answer, or there is no such tenant.
    fn clients(&self, request: &ClientsRequest) -> Result<Vec<ClientEntry>, ControlError>;

    /// All bans that hold.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn bans(&self) -> Result<Vec<BanEntry>, ControlError>;

    /// Bans, and closes the connections that the ban is about; says how many.
    ///
    /// # Errors
    /// When the broker does not answer, or the ban is not possible.
    fn ban(&self, request: BanRequest) -> Result<u64, ControlError>;

    /// Ends a ban in a tenant, which matters for clients and users; the empty name is the default one. Says whether
    /// there was one.
    ///
    /// # Errors
    /// When the broker does not answer, there is no such tenant, or the configuration bans.
    fn unban(&self, target: &BanTarget, tenant: &str) -> Result<bool, ControlError>;

    /// The homes of clients, where this is an orchestrator. Never waits.
    fn homes(&self) -> Option<Arc<dyn Homes>> {
        None
    }

    /// How it stands in its cluster, as JSON, where it is a node of one.
    fn cluster(&self) -> Option<serde_json::Value> {
        None
    }

    /// How its pipelines do, as an object from name to numbers.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn hub(&self) -> Result<serde_json::Value, ControlError> {
        Ok(serde_json::Value::Object(serde_json::Map::new()))
    }

    /// Pauses a pipeline, or has it go on.
    ///
    /// # Errors
    /// When there is none of the name.
    fn pause_pipeline(&self, name: &str, paused: bool) -> Result<(), ControlError> {
        let _ = paused;
        Err(ControlError::Invalid(format!("there is no pipeline `{name}`")))
    }

    /// An orchestrator's brokers.
    ///
    /// # Errors
    /// When the broker does not answer, or is no orchestrator.
    fn fleet(&self) -> Result<FleetStatus, ControlError>;

    /// Adds a broker to the fleet, or changes one. Dead ones that it `replaces` may have had its address.
    ///
    /// # Errors
    /// When the name or the address is none, another broker has the address, or this is no orchestrator.
    fn set_broker(&self, name: &str, address: &str, replaces: &[String]) -> Result<(), ControlError>;

    /// Gives a broker of the fleet nothing any more.
    ///
    /// # Errors
    /// When there is no such broker, or no other.
    fn drain_broker(&self, name: &str) -> Result<(), ControlError>;

    /// Takes a broker out of the fleet.
    ///
    /// # Errors
    /// When it owes messages and is not forced, or there is none of the name.
    fn remove_broker(&self, name: &str, force: bool) -> Result<(), ControlError>;

    /// Begins to send clients elsewhere.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn drain(&self, request: DrainRequest) -> Result<(), ControlError>;

    /// Takes clients again.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn end_drain(&self) -> Result<(), ControlError>;

    /// How far that is.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn drain_status(&self) -> Result<DrainStatus, ControlError>;
}

/// The paths of the API.
pub(crate) fn router<S: Control>() -> Router<Arc<S>> {
    Router::new()
        .route("/api/v1/why", get(why::get::<S>))
        .route("/api/v1/slow", get(slow::get::<S>))
        .route("/api/v1/clients", get(clients::get::<S>))
        .route("/api/v1/bans", get(bans::list::<S>).post(bans::add::<S>).delete(bans::remove::<S>))
        .route("/api/v1/fleet", get(fleet::get::<S>))
        .route("/api/v1/fleet/brokers/{name}", put(fleet::set_broker::<S>).delete(fleet::remove_broker::<S>))
        .route("/api/v1/fleet/brokers/{name}/drain", post(fleet::drain_broker::<S>))
        .route("/api/v1/drain", get(fleet::drain_status::<S>).post(fleet::drain::<S>).delete(fleet::end_drain::<S>))
        .merge(homes::router::<S>())
        .merge(cluster::router::<S>())
        .merge(hub::router::<S>())
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

/// Carries out what may wait on a thread that may, so that health is answered meanwhile.
pub(crate) async fn waiting<T: Send + 'static>(
    action: impl FnOnce() -> Result<T, ControlError> + Send + 'static,
) -> Result<T, ControlError> {
    let ended = tokio::task::spawn_blocking(action).await;
    ended.unwrap_or(Err(ControlError::Unavailable(Unavailable)))
}

/// The one name that a query asks about, with its kind.
fn only_pair(query: Option<&str>) -> Option<(String, String)> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned();
    let pair = pairs.next()?;
    pairs.next().is_none().then_some(pair)
}

/// The answer to a request that was carried out, or not.
fn answer(result: Result<serde_json::Value, ControlError>) -> Response {
    match result {
        Ok(value) => answers::json(axum::http::StatusCode::OK, &value),
        Err(error) => answers::error(&error),
    }
}
