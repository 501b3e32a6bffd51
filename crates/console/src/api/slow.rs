//! `GET /api/v1/slow`: who reads slowly or does not acknowledge.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde_json::{Value, json};
use tidegate_engine::SlowSession;

use super::{Control, ControlError, answer, only_pair, waiting};

/// Clients in an answer unless more or fewer are asked for.
const DEFAULT_LIMIT: usize = 20;
/// Most clients in an answer.
const MAX_LIMIT: usize = 1000;

pub(super) async fn get<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let limit = limit_of(query.as_deref());
    let slow = waiting(move || source.slow(limit?)).await;
    answer(slow.map(|slow| json!({ "clients": slow.iter().map(json).collect::<Vec<Value>>() })))
}

fn limit_of(query: Option<&str>) -> Result<usize, ControlError> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(DEFAULT_LIMIT) };
    let limit = only_pair(Some(query)).filter(|(key, _)| key == "limit").and_then(|(_, value)| value.parse().ok());
    limit
        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        .ok_or_else(|| ControlError::Invalid(format!("the one thing to ask for is limit=N, 1 to {MAX_LIMIT}")))
}

fn json(slow: &SlowSession) -> Value {
    json!({
        "client": slow.client_id,
        "tenant": slow.tenant.0,
        "connected": slow.connected,
        "unacknowledged_packet_id": slow.unacknowledged,
        "inflight_messages": slow.inflight_messages,
        "waiting_ms": slow.waiting_ms,
        "queued_messages": slow.queued_messages,
        "queued_bytes": slow.queued_bytes,
        "blocked_publishers": slow.blocked_publishers,
    })
}
