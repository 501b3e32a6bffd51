//! `/api/v1/hub`: pipelines.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_admin::{Done, GetHub, PausePipeline, Request, ResumePipeline};

use super::answers::answer;
use super::{Control, waiting};

/// The paths of pipelines.
pub(super) fn router<S: Control>() -> Router<Arc<S>> {
    Router::new()
        .route(GetHub::ROUTE, get(view::<S>))
        .route(PausePipeline::ROUTE, post(pause::<S>))
        .route(ResumePipeline::ROUTE, post(resume::<S>))
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
    answer(waiting(move || source.pause_pipeline(&name, paused).map(|()| Done {})).await)
}
