//! `GET /api/v1/slow`: clients that read slowly or do not acknowledge.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use tidegate_admin::{SlowClients, SlowRequest, read_query};

use super::answers::answer;
use super::{Control, waiting};

pub(super) async fn get<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<SlowRequest>(query.as_deref());
    answer(waiting(move || Ok(SlowClients { clients: source.slow(request?.limit as usize)? })).await)
}
