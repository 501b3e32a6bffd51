//! `/api/v1/fleet`: the brokers behind an orchestrator, and `/api/v1/drain`: sending its clients elsewhere.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use tidegate_admin::fleet::{BrokerAddress, RemoveOptions};
use tidegate_admin::{COMMAND_HEADER, Done, DrainRequest, read_body, read_query};

use super::answers::{answer, refusal};
use super::body::WholeBody;
use super::{Control, FleetControl as _, waiting};

/// The value of [`COMMAND_HEADER`] that says that a change is meant. No web page of another origin can send it.
const COMMAND: &str = "fleet";

pub(super) async fn get<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || source.fleet().status()).await)
}

pub(super) async fn set_broker<S: Control>(
    State(source): State<Arc<S>>,
    Path(name): Path<String>,
    WholeBody(body): WholeBody,
) -> Response {
    let settings = read_body::<BrokerAddress>(&body);
    answer(waiting(move || source.fleet().set_broker(&name, &settings?).map(done)).await)
}

pub(super) async fn drain_broker<S: Control>(State(source): State<Arc<S>>, Path(name): Path<String>) -> Response {
    answer(waiting(move || source.fleet().drain_broker(&name).map(done)).await)
}

pub(super) async fn remove_broker<S: Control>(
    State(source): State<Arc<S>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let options = read_query::<RemoveOptions>(query.as_deref());
    answer(waiting(move || source.fleet().remove_broker(&name, options?.force).map(done)).await)
}

pub(super) async fn drain_status<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || source.fleet().drain_status()).await)
}

pub(super) async fn drain<S: Control>(State(source): State<Arc<S>>, WholeBody(body): WholeBody) -> Response {
    let request = read_body::<DrainRequest>(&body);
    answer(waiting(move || source.fleet().drain(&request?).map(done)).await)
}

pub(super) async fn end_drain<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || source.fleet().end_drain().map(done)).await)
}

fn done((): ()) -> Done {
    Done {}
}

/// Refuses a change of a fleet without the confirmation.
pub(super) async fn guard_changes(request: Request, next: Next) -> Response {
    let meant = request.headers().get(COMMAND_HEADER).is_some_and(|given| given.as_bytes() == COMMAND.as_bytes());
    if meant || request.method() == axum::http::Method::GET || request.method() == axum::http::Method::HEAD {
        return next.run(request).await;
    }
    let text = format!("send the header `{COMMAND_HEADER}: {COMMAND}` with requests that change the fleet");
    refusal(StatusCode::FORBIDDEN, &text)
}
