//! The bodies that the API takes for changes.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::Response;

use super::answers::refusal;

/// Longest body of a request, bytes.
pub(super) const MAX_BODY: usize = 256 * 1024;

/// The body of a request, of at most [`MAX_BODY`] bytes.
pub(super) struct WholeBody(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for WholeBody {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        Bytes::from_request(request, state).await.map(Self).map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                refusal(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body has more than {MAX_BODY} bytes"))
            }
            status => refusal(status, "the body did not arrive whole"),
        })
    }
}

/// A body that says that it is JSON. A web page can send a form, but not this type, without being asked first whether it
/// may.
pub(super) struct JsonBody(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let WholeBody(body) = WholeBody::from_request(request, state).await?;
        let refused = || refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON with `Content-Type: application/json`");
        if is_json { Ok(Self(body)) } else { Err(refused()) }
    }
}
