//! `/api/v1/bans`: who may not come in.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::answers::refusal;
use super::{Control, ControlError, answer, only_pair, waiting};

/// Longest ban that ends, seconds: a hundred years.
pub const MAX_BAN_SECONDS: u64 = 100 * 365 * 24 * 3600;

/// Whom a ban is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanTarget {
    /// An address or network.
    Address(String),
    /// A client id.
    Client(String),
    /// A user name.
    User(String),
}

/// A ban as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanRequest {
    /// Whom it is about.
    pub target: BanTarget,
    /// Why; may be empty.
    pub reason: String,
    /// How long, at most [`MAX_BAN_SECONDS`]; `None` is until it is removed.
    pub seconds: Option<u64>,
}

/// A ban as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanEntry {
    /// Whom it is about.
    pub target: BanTarget,
    /// The tenant of the client or user.
    pub tenant: u16,
    /// Why.
    pub reason: String,
    /// Who banned, a word such as `operator`.
    pub origin: &'static str,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// Until when, milliseconds since 1970; `None` is until it is removed.
    pub until_ms: Option<u64>,
}

impl BanTarget {
    /// Its kind and its name.
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Address(name) => ("address", name),
            Self::Client(name) => ("client", name),
            Self::User(name) => ("user", name),
        }
    }

    fn of(kind: &str, name: String) -> Option<Self> {
        match kind {
            "address" => Some(Self::Address(name)),
            "client" => Some(Self::Client(name)),
            "user" => Some(Self::User(name)),
            _ => None,
        }
    }
}

pub(super) async fn list<S: Control>(State(source): State<Arc<S>>) -> Response {
    let bans = waiting(move || source.bans()).await;
    answer(bans.map(|bans| json!({ "bans": bans.iter().map(entry_json).collect::<Vec<Value>>() })))
}

fn entry_json(ban: &BanEntry) -> Value {
    let (kind, name) = ban.target.parts();
    json!({
        "kind": kind,
        "name": name,
        "tenant": ban.tenant,
        "reason": ban.reason,
        "origin": ban.origin,
        "since_ms": ban.since_ms,
        "until_ms": ban.until_ms,
    })
}

pub(super) async fn add<S: Control>(State(source): State<Arc<S>>, headers: HeaderMap, body: Bytes) -> Response {
    // A web page can send a form, but not this type, without being asked first whether it may.
    let json_body =
        headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !json_body {
        return refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON with `Content-Type: application/json`");
    }
    let request = read_request(&body);
    let closed = waiting(move || source.ban(request?)).await;
    answer(closed.map(|closed| json!({ "closed": closed })))
}

fn read_request(body: &[u8]) -> Result<BanRequest, ControlError> {
    let invalid = |text: &str| ControlError::Invalid(text.to_owned());
    let value: Value =
        serde_json::from_slice(body).map_err(|error| ControlError::Invalid(format!("no JSON: {error}")))?;
    let Value::Object(fields) = value else { return Err(invalid("send a JSON object")) };
    let (mut target, mut reason, mut seconds) = (None, String::new(), None);
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("reason", Value::String(text)) => reason = text,
            ("for_seconds", Value::Null) => {}
            ("for_seconds", value) => match value.as_u64().filter(|seconds| (1..=MAX_BAN_SECONDS).contains(seconds)) {
                Some(number) => seconds = Some(number),
                None => return Err(ControlError::Invalid(format!("`for_seconds` is 1 to {MAX_BAN_SECONDS}"))),
            },
            (kind, Value::String(name)) => match BanTarget::of(kind, name) {
                Some(named) if target.is_none() => target = Some(named),
                Some(_) => return Err(whom_to_name()),
                None => return Err(ControlError::Invalid(format!("`{kind}` is not known"))),
            },
            (key, _) => return Err(ControlError::Invalid(format!("`{key}` is not known or of another type"))),
        }
    }
    Ok(BanRequest { target: target.ok_or_else(whom_to_name)?, reason, seconds })
}

fn whom_to_name() -> ControlError {
    ControlError::Invalid("name one of address, client and user".to_owned())
}

pub(super) async fn remove<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let target = only_pair(query.as_deref()).and_then(|(kind, name)| BanTarget::of(&kind, name));
    let removed = waiting(move || {
        if source.unban(&target.ok_or_else(whom_to_name)?)? {
            return Ok(());
        }
        Err(ControlError::Refused("there is no such ban".to_owned()))
    });
    answer(removed.await.map(|()| json!({ "removed": true })))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_request_names_one_target_and_nothing_unknown() {
        let read = |text: &str| read_request(text.as_bytes());
        let request = read(r#"{"client": "c", "reason": "why", "for_seconds": 60}"#).unwrap();
        let target = BanTarget::Client("c".to_owned());
        assert_eq!(request, BanRequest { target, reason: "why".to_owned(), seconds: Some(60) });
        assert_eq!(read(r#"{"user": "u", "for_seconds": null}"#).unwrap().seconds, None);
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"client": 1}"#,
            r#"{"client": "a", "user": "b"}"#,
            r#"{"client": "a", "for_seconds": 0}"#,
            r#"{"client": "a", "for_seconds": -1}"#,
            r#"{"client": "a", "for_seconds": 3153600001}"#,
            r#"{"client": "a", "forever": true}"#,
        ] {
            assert!(matches!(read(wrong), Err(ControlError::Invalid(_))), "{wrong}");
        }
    }
}
