//! A message as JSON, the same in events, in frames of a WebSocket, in queues and in the history.

use serde_json::{Map, Value};
use tidegate_client::Message;
use tidegate_visitor::message_json;

/// The fields of a message.
pub(crate) fn object(message: &Message) -> Map<String, Value> {
    message_json(message.topic.as_str(), &message.payload, message.qos as u8, message.retain, &message.properties)
}
