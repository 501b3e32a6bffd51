//! JSON answers.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate_admin::Refusal;

use super::ControlError;

/// An answer in JSON.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let Ok(text) = serde_json::to_string(value) else {
        // Only a map whose keys are no texts cannot be written, and no answer has one.
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, text + "\n").into_response()
}

/// An answer with the error.
pub(crate) fn refusal(status: StatusCode, text: &str) -> Response {
    json(status, &Refusal { error: text.to_owned() })
}

/// The answer to a request that was carried out, or not.
pub(crate) fn answer<T: Serialize>(result: Result<T, ControlError>) -> Response {
    match result {
        Ok(value) => json(StatusCode::OK, &value),
        Err(error) => {
            let status = match error {
                ControlError::Unavailable(_) | ControlError::Starting(_) => StatusCode::SERVICE_UNAVAILABLE,
                ControlError::Invalid(_) => StatusCode::BAD_REQUEST,
                ControlError::Refused(_) => StatusCode::CONFLICT,
            };
            refusal(status, &error.to_string())
        }
    }
}
