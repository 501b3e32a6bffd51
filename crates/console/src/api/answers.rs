//! JSON answers.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::ControlError;

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, format!("{value}\n")).into_response()
}

/// An answer that says what was wrong.
pub(crate) fn refusal(status: StatusCode, text: &str) -> Response {
    json(status, &json!({ "error": text }))
}

/// The answer for an error.
pub(crate) fn error(error: &ControlError) -> Response {
    let status = match error {
        ControlError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        ControlError::Invalid(_) => StatusCode::BAD_REQUEST,
        ControlError::Refused(_) => StatusCode::CONFLICT,
    };
    refusal(status, &error.to_string())
}
