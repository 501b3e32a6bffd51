//! `/api/v1/cluster`: the state of a node in its cluster.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use super::answers::answer;
use super::{Control, ControlError, waiting};

/// The path of the cluster.
pub(super) fn router<S: Control>() -> Router<Arc<S>> {
    Router::new().route("/api/v1/cluster", get(view::<S>))
}

async fn view<S: Control>(State(source): State<Arc<S>>) -> Response {
    let none = || ControlError::Refused("this is no node of a cluster: give it --node and --bus".to_owned());
    answer(waiting(move || source.cluster().ok_or_else(none)).await)
}
