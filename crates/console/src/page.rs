//! The page for people with a browser: numbers, a curve, who is there and what happened. It only looks; whatever it
//! shows comes from `/metrics` and the API, asked for by the page itself, under the same [`Access`](crate::api::Access)
//! as everybody's.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

const HTML: &str = include_str!("page/console.html");
const STYLE: &str = include_str!("page/console.css");
const SCRIPT: &str = include_str!("page/console.js");

/// The content policy of the page: it loads its own two files and asks this address only. No other page may embed it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether the client prefers HTML to text: a browser says so, `curl` does not.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html"))
}

pub(crate) fn html() -> Response {
    file("text/html; charset=utf-8", HTML)
}

pub(crate) async fn style() -> Response {
    file("text/css; charset=utf-8", STYLE)
}

pub(crate) async fn script() -> Response {
    file("text/javascript; charset=utf-8", SCRIPT)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        // The next version of the broker may have another page.
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::VARY, "accept"),
    ];
    let mut response = (StatusCode::OK, headers, text).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
