//! A message as JSON, the same in events and answers of HTTP and CoAP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tidegate_client::MessageProperties;

/// The fields of a message.
pub fn message_json(
    topic: &str,
    payload: &[u8],
    qos: u8,
    retain: bool,
    properties: &MessageProperties,
) -> Map<String, Value> {
    let mut object = Map::new();
    let mut add = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    add("topic", topic.into());
    match std::str::from_utf8(payload) {
        Ok(text) => add("payload", text.into()),
        Err(_) => add("payload_base64", STANDARD.encode(payload).into()),
    }
    add("qos", qos.into());
    add("retain", retain.into());
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
        add("user_properties", json!(properties.user_properties));
    }
    object
}
