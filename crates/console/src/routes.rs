//! The answer of each path.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
#[cfg(feature = "page")]
use axum::http::HeaderMap;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tidegate_admin::{ReloadRequest, Request};

use crate::api::operations::{self, Offered};
use crate::api::{self, Access, Control, ControlError};
use crate::metrics;
#[cfg(feature = "page")]
use crate::page;
use crate::status::{Phase, StatusSource};

/// The media type of the text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// The paths that the index lists.
const PATHS: [&str; 15] = [
    "/metrics",
    "/healthz",
    "/readyz",
    "/api/v1/why",
    "/api/v1/slow",
    "/api/v1/clients",
    "/api/v1/totals",
    "/api/v1/meter",
    "/api/v1/bans",
    "/api/v1/kick",
    "/api/v1/drain",
    "/api/v1/reload",
    "/api/v1/hub",
    "/api/v1/fleet",
    "/api/v1/cluster",
];

/// All paths of the console.
pub(crate) fn router<S: Control>(source: Arc<S>, access: &Access, operations: Offered) -> Router {
    let metrics = get(metrics_text::<S>).layer(middleware::from_fn_with_state(access.clone(), api::guard_metrics));
    let asked = Router::new().route(ReloadRequest::ROUTE, post(operations::reload::<S>)).with_state((
        access.clone(),
        operations,
        Arc::clone(&source),
    ));
    pages()
        .merge(api::router::<S>().layer(middleware::from_fn_with_state(access.clone(), api::guard_api)))
        .route("/metrics", metrics)
        .route("/healthz", get(health))
        .route("/readyz", get(readiness::<S>))
        .fallback(not_found)
        .with_state(source)
        .merge(asked)
}

pub(crate) fn text(status: StatusCode, content_type: &'static str, body: impl Into<String>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        // An answer holds for this moment, and only its declared type counts.
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body.into()).into_response()
}

/// A page for a browser, the paths for other clients.
#[cfg(feature = "page")]
fn pages<S: Control>() -> Router<Arc<S>> {
    let index = |headers: HeaderMap| async move { if page::is_wanted(&headers) { page::html() } else { paths() } };
    Router::new().route("/", get(index)).route("/console.css", get(page::style)).route("/console.js", get(page::script))
}

/// The paths, for a browser, too: this program was built without the page.
#[cfg(not(feature = "page"))]
fn pages<S: Control>() -> Router<Arc<S>> {
    Router::new().route("/", get(async || paths()))
}

fn paths() -> Response {
    text(StatusCode::OK, TEXT, format!("tidegate\n\n{}\n", PATHS.join("\n")))
}

async fn metrics_text<S: StatusSource>(State(source): State<Arc<S>>) -> Response {
    match api::waiting(move || source.status().map_err(ControlError::from)).await {
        Ok(status) => text(StatusCode::OK, METRICS_TYPE, metrics::exposition(&status)),
        Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{error}\n")),
    }
}

async fn health() -> Response {
    text(StatusCode::OK, TEXT, "ok\n")
}

async fn readiness<S: StatusSource>(State(source): State<Arc<S>>) -> Response {
    match source.phase() {
        Phase::Ready => match source.block_reason() {
            None => text(StatusCode::OK, TEXT, "ready\n"),
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        Phase::Starting => {
            let why = source.block_reason().map_or_else(String::new, |why| format!(": {why}"));
            text(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("starting{why}\n"))
        }
        Phase::Stopping => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, "stopping\n"),
    }
}

async fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, TEXT, format!("there is {}\n", PATHS.join(", ")))
}
