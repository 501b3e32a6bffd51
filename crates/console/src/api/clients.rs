//! `GET /api/v1/clients`: clients that are connected, and sessions of clients that are away.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use tidegate_admin::{Clients, ClientsRequest, read_query};

use super::answers::answer;
use super::{Control, ControlError, waiting};

pub(super) async fn get<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<ClientsRequest>(query.as_deref());
    answer(waiting(move || page(&*source, &request?)).await)
}

/// A page of the clients of this process.
fn page<S: Control>(source: &S, request: &ClientsRequest) -> Result<Clients, ControlError> {
    let limit = request.limit as usize;
    // One more tells whether there are more.
    let mut clients = source.clients(request, limit + 1)?;
    let more = clients.len() > limit;
    clients.truncate(limit);
    Ok(Clients { clients, more })
}
