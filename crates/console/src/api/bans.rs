//! `/api/v1/bans`: who may not come in.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::answers::refusal;
use super::{Control, ControlError, answer, waiting};

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
    /// The tenant of the client or user, by name; empty is the default one.
    pub tenant: String,
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
    /// The tenant of the client or user, by name; empty is the default one.
    pub tenant: String,
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
    let (mut target, mut tenant, mut reason, mut seconds) = (None, String::new(), String::new(), None);
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("reason", Value::String(text)) => reason = text,
            ("tenant", Value::String(name)) => tenant = name,
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
    Ok(BanRequest { target: target.ok_or_else(whom_to_name)?, tenant, reason, seconds })
}

fn whom_to_name() -> ControlError {
    ControlError::Invalid("name one of address, client and user".to_owned())
}

pub(super) async fn remove<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let removed = waiting(move || {
        let (target, tenant) = read_target(query.as_deref())?;
        if source.unban(&target, &tenant)? {
            return Ok(());
        }
        Err(ControlError::Refused("there is no such ban".to_owned()))
    });
    answer(removed.await.map(|()| json!({ "removed": true })))
}

/// Whom a query is about, and in which tenant.
fn read_target(query: Option<&str>) -> Result<(BanTarget, String), ControlError> {
    let (mut target, mut tenant) = (None, None);
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned() {
        if key == "tenant" && tenant.is_none() {
            tenant = Some(value);
        } else if target.is_none() {
            target = Some(BanTarget::of(&key, value).ok_or_else(whom_to_name)?);
        } else {
            return Err(whom_to_name());
        }
    }
    Ok((target.ok_or_else(whom_to_name)?, tenant.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_one_target_and_nothing_unknown() {
        let read = |text: &str| read_request(text.as_bytes());
        let request = read(r#"{"client": "c", "reason": "why", "for_seconds": 60}"#).unwrap();
        let target = BanTarget::Client("c".to_owned());
        let tenant = String::new();
        assert_eq!(request, BanRequest { target, tenant, reason: "why".to_owned(), seconds: Some(60) });
        assert_eq!(read(r#"{"user": "u", "for_seconds": null}"#).unwrap().seconds, None);
        assert_eq!(read(r#"{"tenant": "acme", "user": "u"}"#).unwrap().tenant, "acme");
        assert_eq!(read_target(Some("user=u&tenant=t")).unwrap(), (BanTarget::User("u".to_owned()), "t".to_owned()));
        for wrong in ["", "tenant=t", "user=u&client=c", "user=u&tenant=t&tenant=t", "user=u&x=y"] {
            assert!(read_target(Some(wrong)).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"client": 1}"#,
            r#"{"client": "a", "user": "b"}"#,
            r#"{"client": "a", "for_seconds": 0}"#,
            r#"{"client": "a", "for_seconds": -1}"#,
            r#"{"client": "a", "for_seconds": 3153600001}"#,
            r#"{"client": "a", "tenant": 1}"#,
            r#"{"client": "a", "forever": true}"#,
        ] {
            assert!(matches!(read(wrong), Err(ControlError::Invalid(_))), "{wrong}");
        }
    }
}
