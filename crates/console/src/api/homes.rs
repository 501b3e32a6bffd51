//! `/api/v1/homes`: which orchestrator works which partition of the clients, and moves of partitions (BRK-27).

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post, put};
use tidegate_admin::homes::{
    Arrived, Discard, HomesView, MAX_PARCEL, MoveAll, MoveAllBegun, MovePartitions, MoveState, MoveStatus, Moved,
    Resume, Resumed, SetHomes,
};
use tidegate_admin::{Request, read_body};

use super::answers::answer;
use super::fleet::guard_changes;
use super::{Control, ControlError, waiting};

/// An orchestrator that knows its homes. Calls may wait, for a bounded time.
pub trait Homes: Send + Sync {
    /// The table, the lease, moves under way and numbers so far.
    ///
    /// # Errors
    /// When the node does not answer.
    fn view(&self) -> Result<HomesView, ControlError>;

    /// Puts a table in force, or renews the lease on the one in force.
    ///
    /// # Errors
    /// When it is older, or none.
    fn set(&self, request: &SetHomes) -> Result<HomesView, ControlError>;

    /// Moves partitions to another orchestrator.
    ///
    /// # Errors
    /// When they stay.
    fn start_move(&self, request: &MovePartitions) -> Result<Moved, ControlError>;

    /// Begins to move everything to others.
    ///
    /// # Errors
    /// When no other place can take it.
    fn move_all(&self, request: &MoveAll) -> Result<MoveAllBegun, ControlError>;

    /// Ends a move that was left between two steps.
    ///
    /// # Errors
    /// When the other side does not answer; everything is as before then.
    fn resume(&self) -> Result<Resumed, ControlError>;

    /// Takes partitions in that another orchestrator gives away.
    ///
    /// # Errors
    /// When they cannot be taken; then they are not here.
    fn arrive(&self, id: &str, parcel: &[u8]) -> Result<Arrived, ControlError>;

    /// Takes in the messages that came for them meanwhile, and serves them from now on.
    ///
    /// # Errors
    /// When they are not here.
    fn complete(&self, id: &str, rest: &[u8]) -> Result<MoveStatus, ControlError>;

    /// The state of a move to here.
    fn arrival(&self, id: &str) -> MoveState;

    /// Gives a move to here up, unless it has come to its end; returns its state.
    ///
    /// # Errors
    /// When the disk does not take it, or the node does not answer.
    fn discard(&self, id: &str) -> Result<MoveState, ControlError>;
}

fn homes<S: Control>(source: &Arc<S>) -> Result<Arc<dyn Homes>, ControlError> {
    let none = || ControlError::Refused("this is no orchestrator with homes: run `tidegate orchestrator`".to_owned());
    source.homes().ok_or_else(none)
}

/// The paths of homes.
pub(super) fn router<S: Control>() -> Router<Arc<S>> {
    let parcels = put(arrive::<S>).post(complete::<S>).get(arrival::<S>).delete(discard::<S>);
    Router::new()
        .route(SetHomes::ROUTE, get(view::<S>).put(set::<S>))
        .route(MovePartitions::ROUTE, post(start_move::<S>))
        .route(MoveAll::ROUTE, post(move_all::<S>))
        .route(Resume::ROUTE, post(resume::<S>))
        .route(Discard::ROUTE, parcels.layer(DefaultBodyLimit::max(MAX_PARCEL)))
        .layer(middleware::from_fn(guard_changes))
}

async fn view<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || homes(&source)?.view()).await)
}

async fn set<S: Control>(State(source): State<Arc<S>>, body: Bytes) -> Response {
    answer(waiting(move || homes(&source)?.set(&read_body::<SetHomes>(&body)?)).await)
}

async fn start_move<S: Control>(State(source): State<Arc<S>>, body: Bytes) -> Response {
    answer(waiting(move || homes(&source)?.start_move(&read_body::<MovePartitions>(&body)?)).await)
}

async fn move_all<S: Control>(State(source): State<Arc<S>>, body: Bytes) -> Response {
    answer(waiting(move || homes(&source)?.move_all(&read_body::<MoveAll>(&body)?)).await)
}

async fn resume<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || homes(&source)?.resume()).await)
}

async fn arrive<S: Control>(State(source): State<Arc<S>>, Path(id): Path<String>, body: Bytes) -> Response {
    answer(waiting(move || homes(&source)?.arrive(&id, &body)).await)
}

async fn complete<S: Control>(State(source): State<Arc<S>>, Path(id): Path<String>, body: Bytes) -> Response {
    answer(waiting(move || homes(&source)?.complete(&id, &body)).await)
}

async fn arrival<S: Control>(State(source): State<Arc<S>>, Path(id): Path<String>) -> Response {
    answer(waiting(move || Ok(MoveStatus::from(homes(&source)?.arrival(&id)))).await)
}

async fn discard<S: Control>(State(source): State<Arc<S>>, Path(id): Path<String>) -> Response {
    answer(waiting(move || homes(&source)?.discard(&id).map(MoveStatus::from)).await)
}
