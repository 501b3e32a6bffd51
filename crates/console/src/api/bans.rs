//! `/api/v1/bans`: clients, users and addresses that may not connect.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use tidegate_admin::{BanList, BanRequest, Banned, UnbanRequest, Unbanned, read_body, read_query};

use super::answers::{answer, refusal};
use super::{Control, ControlError, waiting};

pub(super) async fn list<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || Ok(BanList { bans: source.bans()? })).await)
}

pub(super) async fn add<S: Control>(State(source): State<Arc<S>>, headers: HeaderMap, body: Bytes) -> Response {
    // A web page can send a form, but not this type, without being asked first whether it may.
    let json_body =
        headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !json_body {
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON with `Content-Type: application/json`");
    }
    let request = read_body::<BanRequest>(&body);
    answer(waiting(move || Ok(Banned { closed: source.ban(&request?)? })).await)
}

pub(super) async fn remove<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<UnbanRequest>(query.as_deref());
    let removed = waiting(move || {
        if source.unban(&request?)? {
            return Ok(Unbanned { removed: true });
        }
        Err(ControlError::Refused("there is no such ban".to_owned()))
    });
    answer(removed.await)
}
