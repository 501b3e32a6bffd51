//! From a node's message to a record for applications.

use bytes::Bytes;
use tidegate_bus::{Append, Header};

use super::envelope::Blob;
use super::{Annotations, Envelope, Packing, headers};

/// Longest key, bytes; a longer client id is put there by its hash.
const MAX_KEY_BYTES: usize = 512;
/// Most bytes of all headers up to which a context is included; above it, the space is left to the sender's own
/// headers.
const MAX_WITH_CONTEXT: usize = 24 * 1024;

/// A message of a node for applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMessage {
    /// Its client id; empty for the broker itself, which sends receipts.
    pub node: String,
    /// The application: the level behind `PREFIX/to/app/`.
    pub application: String,
    /// The rest of the topic; may be empty.
    pub topic: String,
    /// 0, 1 or 2.
    pub qos: u8,
    /// RETAIN as published.
    pub retain: bool,
    /// Message Expiry Interval, seconds.
    pub expiry: Option<u32>,
    /// Its other properties.
    pub annotations: Annotations,
    /// The payload.
    pub payload: Vec<u8>,
}

/// The record of a message: `id` is its own, `context` the node's last context.
pub fn write_record(
    message: &NodeMessage,
    packing: Packing,
    gateway: &str,
    id: &str,
    context: Option<&[u8]>,
) -> Append {
    let context = context.and_then(|context| serde_json::from_slice::<serde_json::Value>(context).ok());
    let mut append = Append::new(Bytes::new()).with_key(key_of(&message.node));
    let into = &mut append;
    put(into, headers::ENVELOPE, packing.name());
    put(into, headers::RECIPIENT, &message.application);
    put(into, headers::NODE, &message.node);
    put(into, headers::GATEWAY, gateway);
    put(into, headers::ID, id);
    put(into, headers::TOPIC, &message.topic);
    put(into, headers::QOS, &message.qos.to_string());
    if message.retain {
        put(into, headers::RETAIN, "1");
    }
    if let Some(seconds) = message.expiry {
        put(into, headers::EXPIRY, &seconds.to_string());
    }
    if let Some(content_type) = &message.annotations.content_type {
        put(into, headers::CONTENT_TYPE, content_type);
    }
    if packing == Packing::Plain {
        put_annotations(&message.annotations, into);
        append.payload = message.payload.clone().into();
        if let Some(context) = context.map(|context| headers::json(&context)) {
            let size = append.size() - append.payload.len() + context.len();
            if size <= MAX_WITH_CONTEXT {
                append = append.with_header(headers::CONTEXT, context);
            }
        }
        return append;
    }
    append.payload = envelope_of(message, context).write(packing).unwrap_or_default().into();
    append
}

/// Adds a header, if every bus can carry it.
fn put(append: &mut Append, name: &str, value: &str) {
    if headers::fits(value) {
        append.headers.push(Header { name: name.to_owned(), value: value.to_owned() });
    }
}

fn put_annotations(annotations: &Annotations, into: &mut Append) {
    if annotations.is_text {
        put(into, headers::PAYLOAD_FORMAT, "utf-8");
    }
    if let Some(topic) = &annotations.response_topic {
        put(into, headers::RESPONSE_TOPIC, topic);
    }
    if let Some(data) = &annotations.correlation_data {
        put(into, headers::CORRELATION_DATA, &headers::encode(data));
    }
    if !annotations.user_properties.is_empty() {
        put(into, headers::USER_PROPERTIES, &headers::json(&annotations.user_properties));
    }
}

fn envelope_of(message: &NodeMessage, context: Option<serde_json::Value>) -> Envelope {
    let annotations = &message.annotations;
    Envelope {
        message: Some(Blob(message.payload.clone())),
        text: None,
        topic: Some(message.topic.clone()),
        recipient: Some(message.application.clone()),
        sender: Some(message.node.clone()).filter(|node| !node.is_empty()),
        context,
        duration: message.expiry,
        qos: Some(message.qos),
        priority: None,
        receipt: None,
        content_type: annotations.content_type.clone(),
        response_topic: annotations.response_topic.clone(),
        correlation_data: annotations.correlation_data.clone().map(Blob),
        user_properties: annotations.user_properties.clone(),
    }
}

/// The key of a node's records. Who has a very long client id has the beginning of it in common with others.
fn key_of(node: &str) -> Bytes {
    Bytes::copy_from_slice(node.as_bytes().get(..MAX_KEY_BYTES).unwrap_or(node.as_bytes()))
}
