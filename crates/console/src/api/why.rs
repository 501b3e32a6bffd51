//! `GET /api/v1/why`: the story of a client, a topic or an address.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde_json::{Value, json};
use tidegate_engine::Reason;

use super::advice::advice;
use super::{Control, ControlError, answer, only_pair, waiting};

/// Whom one wants to know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A client id.
    Client(String),
    /// A topic name.
    Topic(String),
    /// An address or network.
    Address(String),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryEvent {
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// What, a word such as `refused`.
    pub kind: &'static str,
    /// The shard that saw it.
    pub shard: u16,
    /// The client id, if known.
    pub client_id: Option<String>,
    /// The topic, if it was about a message.
    pub topic: Option<String>,
    /// The client's address, if known.
    pub address: Option<String>,
    /// Why.
    pub reason: Option<Reason>,
    /// What exactly; may be empty.
    pub detail: String,
    /// Like events before this one that were only counted.
    pub suppressed: u64,
}

/// What happened, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// The events.
    pub events: Vec<StoryEvent>,
    /// Events after the last one that were only counted.
    pub suppressed: u64,
}

pub(super) async fn get<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let subject = subject_of(query.as_deref());
    let story = waiting(move || source.why(&subject?)).await;
    answer(story.map(|story| json(&story)))
}

fn subject_of(query: Option<&str>) -> Result<Subject, ControlError> {
    let (kind, name) = only_pair(query).ok_or_else(what_to_ask)?;
    match kind.as_str() {
        "client" => Ok(Subject::Client(name)),
        "topic" => Ok(Subject::Topic(name)),
        "address" => Ok(Subject::Address(name)),
        _ => Err(what_to_ask()),
    }
}

fn what_to_ask() -> ControlError {
    ControlError::Invalid("ask about one of client=ID, topic=NAME and address=ADDRESS".to_owned())
}

fn json(story: &Story) -> Value {
    let events: Vec<Value> = story.events.iter().map(event_json).collect();
    json!({ "events": events, "suppressed": story.suppressed })
}

fn event_json(event: &StoryEvent) -> Value {
    let reason = event.reason.map(|reason| {
        json!({
            "number": reason.number(),
            "label": reason.label(),
            "text": reason.text(),
            "code": reason.code() as u8,
            "advice": advice(reason),
        })
    });
    json!({
        "at_ms": event.at_ms,
        "kind": event.kind,
        "shard": event.shard,
        "client": event.client_id,
        "topic": event.topic,
        "address": event.address,
        "reason": reason,
        "detail": event.detail,
        "suppressed": event.suppressed,
    })
}
