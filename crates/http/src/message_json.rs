//! A message as JSON, the same in events, in frames of a WebSocket, in queues and in the history.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tidegate_client::Message;

/// The fields of a message.
pub(crate) fn object(message: &Message) -> Map<String, Value> {
    let properties = &message.properties;
    let mut object = Map::new();
    let mut add = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    add("topic", message.topic.as_str().into());
    match std::str::from_utf8(&message.payload) {
        Ok(text) => add("payload", text.into()),
        Err(_) => add("payload_base64", STANDARD.encode(&message.payload).into()),
    }
    add("qos", (message.qos as u8).into());
    add("retain", message.retain.into());
    if let Some(seconds) = properties.message_expiry {
        add("expiry", seconds.into());
    }
    if let Some(content_type) = &properties.content_type {
        add("content_type", content_type.as_str().into());
    }
    if let Some(topic) = &properties.response_topic {
        add("response_topic", topic.as_str().into());
    }
    if let Some(data) = &properties.correlation_data {
        add("correlation_data", STANDARD.encode(data).into());
    }
    if !properties.user_properties.is_empty() {
        let pairs = properties.user_properties.iter().map(|(name, value)| json!([name, value]));
        add("user_properties", pairs.collect());
    }
    object
}
