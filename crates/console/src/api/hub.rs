//! `/api/v1/hub`: pipelines.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::json;

use super::{Control, answer, waiting};

/// The paths of pipelines.
pub(super) fn router<S: Control>() -> Router<Arc<S>> {
    Router::new()
        .route("/api/v1/hub", get(view::<S>))
        .route("/api/v1/hub/{name}/pause", post(pause::<S>))
        .route("/api/v1/hub/{name}/resume", post(resume::<S>))
}

async fn view<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || source.hub()).await)
}

async fn pause<S: Control>(State(source): State<Arc<S>>, Path(name): Path<String>) -> Response {
    set(source, name, true).await
}

async fn resume<S: Control>(State(source): State<Arc<S>>, Path(name): Path<String>) -> Response {
    set(source, name, false).await
}

async fn set<S: Control>(source: Arc<S>, name: String, paused: bool) -> Response {
    answer(waiting(move || source.pause_pipeline(&name, paused).map(|()| json!({ "paused": paused }))).await)
}
