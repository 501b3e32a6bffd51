//! `/api/v1/homes`: which orchestrator works which partition of the clients, and moves of partitions (BRK-27).

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post, put};
use serde_json::Value;

use super::fleet::refused;
use super::{Control, ControlError, answer, waiting};

/// Largest body that brings partitions from another orchestrator, bytes.
pub const MAX_PARCEL: usize = 256 * 1024 * 1024;

/// An orchestrator that knows its homes. Requests and answers are JSON as docs/orchestrators.md says; what is called
/// may wait, for a bounded time.
pub trait Homes: Send + Sync {
    /// The table, the lease, moves under way and what moved so far.
    ///
    /// # Errors
    /// When the node does not answer.
    fn view(&self) -> Result<Value, ControlError>;

    /// Puts a table in force, or renews the lease on the one in force.
    ///
    /// # Errors
    /// When it is older, or none.
    fn set(&self, table: &Value) -> Result<Value, ControlError>;

    /// Moves partitions to another orchestrator.
    ///
    /// # Errors
    /// When they stay.
    fn start_move(&self, request: &Value) -> Result<Value, ControlError>;

    /// Begins to move everything to others.
    ///
    /// # Errors
    /// When nobody can take it.
    fn move_all(&self, request: &Value) -> Result<Value, ControlError>;

    /// Brings a move to its end that was left between two steps.
    ///
    /// # Errors
    /// When the other side does not answer; everything is as before then.
    fn resume(&self) -> Result<Value, ControlError>;

    /// Takes partitions in that another orchestrator gives away.
    ///
    /// # Errors
    /// When they cannot be taken; then they are not here.
    fn arrive(&self, id: &str, parcel: &[u8]) -> Result<Value, ControlError>;

    /// Takes in what came for them meanwhile, and serves them from now on.
    ///
    /// # Errors
    /// When they are not here.
    fn complete(&self, id: &str, rest: &[u8]) -> Result<Value, ControlError>;

    /// How far a move to here is.
    ///
    /// # Errors
    /// When nobody knows.
    fn arrival(&self, id: &str) -> Result<Value, ControlError>;

    /// Gives a move to here up, unless it has come to its end.
    ///
    /// # Errors
    /// When it has.
    fn discard(&self, id: &str) -> Result<Value, ControlError>;
}

fn homes<S: Control>(source: &Arc<S>) -> Result<Arc<dyn Homes>, ControlError> {
    let none = || ControlError::Refused("this is no orchestrator with homes: run `tidegate orchestrator`".to_owned());
    source.homes().ok_or_else(none)
}

fn object(body: &[u8]) -> Result<Value, ControlError> {
    if body.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    serde_json::from_slice(body).map_err(|error| ControlError::Invalid(format!("no JSON: {error}")))
}

/// The paths of homes.
pub(super) fn router<S: Control>() -> Router<Arc<S>> {
    let parcels = put(arrive::<S>).post(complete::<S>).get(arrival::<S>).delete(discard::<S>);
    Router::new()
        .route("/api/v1/homes", get(view::<S>).put(set::<S>))
        .route("/api/v1/homes/move", post(start_move::<S>))
        .route("/api/v1/homes/move-all", post(move_all::<S>))
        .route("/api/v1/homes/resume", post(resume::<S>))
        .route("/api/v1/homes/moves/{id}", parcels.layer(DefaultBodyLimit::max(MAX_PARCEL)))
}

async fn view<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || homes(&source)?.view()).await)
}

async fn set<S: Control>(State(source): State<Arc<S>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || homes(&source)?.set(&object(&body)?)).await)
}

async fn start_move<S: Control>(State(source): State<Arc<S>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || homes(&source)?.start_move(&object(&body)?)).await)
}

async fn move_all<S: Control>(State(source): State<Arc<S>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || homes(&source)?.move_all(&object(&body)?)).await)
}

async fn resume<S: Control>(State(source): State<Arc<S>>, headers: HeaderMap) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || homes(&source)?.resume()).await)
}

async fn arrive<S: Control>(
    State(source): State<Arc<S>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || homes(&source)?.arrive(&id, &body)).await)
}

async fn complete<S: Control>(
    State(source): State<Arc<S>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || homes(&source)?.complete(&id, &body)).await)
}

async fn arrival<S: Control>(State(source): State<Arc<S>>, Path(id): Path<String>) -> Response {
    answer(waiting(move || homes(&source)?.arrival(&id)).await)
}

async fn discard<S: Control>(State(source): State<Arc<S>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || homes(&source)?.discard(&id)).await)
}
