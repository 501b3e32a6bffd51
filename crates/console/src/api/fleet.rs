//! `/api/v1/fleet`: the brokers behind an orchestrator, and `/api/v1/drain`: sending its clients elsewhere.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::answers::refusal;
use super::{Control, ControlError, answer, only_pair, waiting};

/// The header that says that a change is meant, and its value. No web page of another origin can send it.
const COMMAND: (&str, &str) = ("tidegate-command", "fleet");

/// Most clients sent away per second.
const MAX_PER_SECOND: u64 = 1_000_000;

/// An orchestrator and its brokers.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetStatus {
    /// The orchestrator's name in the fleet.
    pub orchestrator: String,
    /// How publishes are spread.
    pub policy: &'static str,
    /// Clients that are connected, at home here or relayed to their home.
    pub clients: u64,
    /// Their sessions, and those of clients that are away.
    pub sessions: u64,
    /// Filters that they want, each counted once.
    pub filters: u64,
    /// Whether the fleet takes messages.
    pub open: bool,
    /// Users whose own credentials brokers are shown.
    pub identities: u64,
    /// The longest turn of a shard lately, milliseconds.
    pub loop_lag_ms: u64,
    /// Messages received from clients and brokers so far.
    pub messages_in: u64,
    /// Messages sent to clients and brokers so far.
    pub messages_out: u64,
    /// Messages that clients did not get so far, since this orchestrator had no room for them.
    pub dropped: u64,
    /// Messages that were not taken so far, since brokers owed as much as they may.
    pub dropped_fleet_full: u64,
    /// The brokers.
    pub brokers: Vec<BrokerStatus>,
}

/// One broker of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerStatus {
    /// Its name.
    pub name: String,
    /// Where it listens, without credentials.
    pub address: String,
    /// How far it is: a word such as `serving`.
    pub state: &'static str,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// The version of MQTT that is spoken with it.
    pub version: Option<String>,
    /// Filters that it holds.
    pub filters: u64,
    /// Filters that it does not hold yet.
    pub filters_pending: u64,
    /// Filters that it refuses, or whose SUBSCRIBE makes it close the connection.
    pub filters_refused: u64,
    /// Messages that wait to be sent to it.
    pub queued: u64,
    /// Messages that it has not acknowledged.
    pub in_flight: u64,
    /// Messages that it has acknowledged and not brought back.
    pub unreturned: u64,
    /// Messages sent to it so far.
    pub sent: u64,
    /// Messages that it has acknowledged.
    pub acknowledged: u64,
    /// Own messages that came back.
    pub returned: u64,
    /// Messages taken from it and given to others.
    pub resent: u64,
    /// Messages received from it.
    pub received: u64,
    /// Of these, those that had come before.
    pub duplicates: u64,
    /// Messages delivered to clients without it, which took them and does not bring them back.
    pub delivered_here: u64,
    /// Messages given to no broker any more, since this one closed the connection each time that it got them.
    pub set_aside: u64,
    /// What went wrong last.
    pub last_error: String,
}

/// How far an orchestrator's clients have been sent elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainStatus {
    /// Whether it sends them elsewhere.
    pub draining: bool,
    /// Clients still connected, relayed ones too.
    pub clients: u64,
    /// Messages accepted and not settled by brokers, and those that sessions are owed.
    pub owed: u64,
}

/// How clients are sent elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainRequest {
    /// What MQTT 5 clients are told to use instead (0x9C), `HOST:PORT`.
    pub server_reference: Option<String>,
    /// Clients per second.
    pub per_second: u32,
    /// Time from the beginning after which those are closed, too, who cannot be told to leave, because they do not
    /// speak MQTT 5.
    pub evict_after: Duration,
}

impl BrokerStatus {
    /// Messages accepted from clients and not settled by it.
    pub fn owed(&self) -> u64 {
        self.queued + self.in_flight + self.unreturned
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "address": self.address,
            "state": self.state,
            "since_ms": self.since_ms,
            "version": self.version,
            "filters": self.filters,
            "filters_pending": self.filters_pending,
            "filters_refused": self.filters_refused,
            "queued": self.queued,
            "in_flight": self.in_flight,
            "unreturned": self.unreturned,
            "owed": self.owed(),
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "returned": self.returned,
            "resent": self.resent,
            "received": self.received,
            "duplicates": self.duplicates,
            "delivered_here": self.delivered_here,
            "set_aside": self.set_aside,
            "last_error": self.last_error,
        })
    }
}

impl FleetStatus {
    fn json(&self) -> Value {
        json!({
            "orchestrator": self.orchestrator,
            "policy": self.policy,
            "clients": self.clients,
            "sessions": self.sessions,
            "filters": self.filters,
            "open": self.open,
            "identities": self.identities,
            "owed": self.brokers.iter().map(BrokerStatus::owed).sum::<u64>(),
            "loop_lag_ms": self.loop_lag_ms,
            "messages_in": self.messages_in,
            "messages_out": self.messages_out,
            "dropped": self.dropped,
            "dropped_fleet_full": self.dropped_fleet_full,
            "brokers": self.brokers.iter().map(BrokerStatus::json).collect::<Vec<Value>>(),
        })
    }
}

pub(super) async fn get<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || source.fleet()).await.map(|fleet| fleet.json()))
}

/// `PUT /api/v1/fleet/brokers/NAME` with `{"address": "mqtt://HOST:PORT", "replaces": [NAME, ...]}`.
pub(super) async fn set_broker<S: Control>(
    State(source): State<Arc<S>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    let asked = text_field(&body, "address").and_then(|address| Ok((address, names_field(&body, "replaces")?)));
    let set = move || asked.and_then(|(address, replaces)| source.set_broker(&name, &address, &replaces));
    answer(waiting(set).await.map(|()| json!({})))
}

/// `POST /api/v1/fleet/brokers/NAME/drain`.
pub(super) async fn drain_broker<S: Control>(
    State(source): State<Arc<S>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || source.drain_broker(&name)).await.map(|()| json!({})))
}

/// `DELETE /api/v1/fleet/brokers/NAME`, with `?force=true` also when it owes messages.
pub(super) async fn remove_broker<S: Control>(
    State(source): State<Arc<S>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    let force = match query.as_deref().filter(|query| !query.is_empty()).map(|query| only_pair(Some(query))) {
        None => Ok(false),
        Some(Some((key, value))) if key == "force" && (value == "true" || value == "false") => Ok(value == "true"),
        Some(_) => Err(ControlError::Invalid("the one thing to ask for is force=true".to_owned())),
    };
    answer(waiting(move || source.remove_broker(&name, force?)).await.map(|()| json!({})))
}

pub(super) async fn drain_status<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(
        waiting(move || source.drain_status())
            .await
            .map(|status| json!({ "draining": status.draining, "clients": status.clients, "owed": status.owed })),
    )
}

/// `POST /api/v1/drain` with `{"server_reference": "HOST:PORT", "per_second": N, "evict_after_s": N}`.
pub(super) async fn drain<S: Control>(State(source): State<Arc<S>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    let request = read_drain(&body);
    answer(waiting(move || source.drain(request?)).await.map(|()| json!({})))
}

/// `DELETE /api/v1/drain`: clients are taken again.
pub(super) async fn end_drain<S: Control>(State(source): State<Arc<S>>, headers: HeaderMap) -> Response {
    if let Some(refused) = refused(&headers) {
        return refused;
    }
    answer(waiting(move || source.end_drain()).await.map(|()| json!({})))
}

/// The answer to a request that does not say that it means it.
pub(super) fn refused(headers: &HeaderMap) -> Option<Response> {
    let (name, value) = COMMAND;
    let meant = headers.get(name).is_some_and(|given| given.as_bytes() == value.as_bytes());
    let text = format!("send the header `{name}: {value}` with what changes the fleet");
    (!meant).then(|| refusal(StatusCode::FORBIDDEN, &text))
}

fn object(body: &[u8]) -> Result<serde_json::Map<String, Value>, ControlError> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(ControlError::Invalid("send a JSON object".to_owned())),
        Err(error) => Err(ControlError::Invalid(format!("no JSON: {error}"))),
    }
}

fn text_field(body: &[u8], name: &str) -> Result<String, ControlError> {
    match object(body)?.remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(ControlError::Invalid(format!("`{name}` is missing, or no text"))),
    }
}

/// A list of names, none when it is missing.
fn names_field(body: &[u8], name: &str) -> Result<Vec<String>, ControlError> {
    let invalid = || ControlError::Invalid(format!("`{name}` is a list of names"));
    let names = match object(body)?.remove(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(names)) => names,
        Some(_) => return Err(invalid()),
    };
    names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(invalid)).collect()
}

fn read_drain(body: &[u8]) -> Result<DrainRequest, ControlError> {
    let mut request =
        DrainRequest { server_reference: None, per_second: DEFAULT_PER_SECOND, evict_after: Duration::ZERO };
    for (key, value) in object(body)? {
        match (key.as_str(), value) {
            ("server_reference", Value::Null) => {}
            ("evict_after_s", value) => {
                let seconds = value.as_u64().filter(|seconds| *seconds <= MAX_EVICT_AFTER_S);
                let invalid = || ControlError::Invalid(format!("`evict_after_s` is 0 to {MAX_EVICT_AFTER_S}"));
                request.evict_after = Duration::from_secs(seconds.ok_or_else(invalid)?);
            }
            ("server_reference", Value::String(text)) => request.server_reference = Some(text),
            ("per_second", value) => {
                let number = value.as_u64().filter(|number| (1..=MAX_PER_SECOND).contains(number));
                let number = number.and_then(|number| u32::try_from(number).ok());
                let invalid = || ControlError::Invalid(format!("`per_second` is 1 to {MAX_PER_SECOND}"));
                request.per_second = number.ok_or_else(invalid)?;
            }
            (key, _) => return Err(ControlError::Invalid(format!("`{key}` is not known or of another type"))),
        }
    }
    Ok(request)
}

/// Longest time that clients have to leave by themselves, seconds.
const MAX_EVICT_AFTER_S: u64 = 86_400;

/// Clients sent away per second unless more or fewer are asked for.
const DEFAULT_PER_SECOND: u32 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_is_read_or_refused_with_what_is_wrong() {
        let request = read_drain(br#"{"server_reference":"b:1883","per_second":7,"evict_after_s":3}"#).unwrap();
        let evict_after = Duration::from_secs(3);
        assert_eq!(request, DrainRequest { server_reference: Some("b:1883".into()), per_second: 7, evict_after });
        assert_eq!(read_drain(b"{}").unwrap().evict_after, Duration::ZERO);
        assert!(read_drain(br#"{"evict_after_s":-1}"#).is_err());
        assert_eq!(read_drain(b"{}").unwrap().per_second, DEFAULT_PER_SECOND);
        for wrong in [&br#"{"per_second":0}"#[..], br#"{"x":1}"#, b"[]", b"", br#"{"server_reference":5}"#] {
            assert!(read_drain(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn an_address_is_asked_for() {
        assert_eq!(text_field(br#"{"address":"mqtt://h:1"}"#, "address").unwrap(), "mqtt://h:1");
        assert!(text_field(br#"{"address":1}"#, "address").is_err() && text_field(b"{}", "address").is_err());
    }
}
