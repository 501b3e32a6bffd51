//! Which bodies the API takes for changes.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;

use super::answers::refusal;

/// The answer to a body that does not say that it is JSON. A web page can send a form, but not this type, without being
/// asked first whether it may.
pub(super) fn not_json(headers: &HeaderMap) -> Option<Response> {
    let is_json =
        headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    (!is_json).then(|| refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON with `Content-Type: application/json`"))
}
