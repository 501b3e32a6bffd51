//! The headers of records, and the encoding of values that not every bus can carry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_bus::Header;

/// How the value holds the message: `plain`, `json` or `msgpack`.
pub(super) const ENVELOPE: &str = "envelope";
/// The receiver: a node, a group, or an application.
pub(super) const RECIPIENT: &str = "recipient";
/// The node that has sent it.
pub(super) const NODE: &str = "node";
/// The gateway at which it came in.
pub(super) const GATEWAY: &str = "gateway";
/// One of its own for each message, so that a repetition is known.
pub(super) const ID: &str = "id";
/// The rest of the topic after the address.
pub(super) const TOPIC: &str = "topic";
pub(super) const QOS: &str = "qos";
pub(super) const RETAIN: &str = "retain";
/// Seconds after which it is of no use.
pub(super) const EXPIRY: &str = "expiry";
/// When it is of no use any more, milliseconds since 1970.
pub(super) const EXPIRES_AT: &str = "expires-at";
pub(super) const PRIORITY: &str = "priority";
pub(super) const RECEIPT: &str = "receipt";
pub(super) const CONTENT_TYPE: &str = "content-type";
/// `utf-8` where the sender says that the payload is text.
pub(super) const PAYLOAD_FORMAT: &str = "payload-format";
pub(super) const RESPONSE_TOPIC: &str = "response-topic";
/// In base64.
pub(super) const CORRELATION_DATA: &str = "correlation-data";
/// JSON: an array of pairs.
pub(super) const USER_PROPERTIES: &str = "user-properties";
/// JSON: the context that the node sent last.
pub(super) const CONTEXT: &str = "context";

/// The last header of a name.
pub(super) fn get<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    let found = headers.iter().rev().find(|header| header.name.eq_ignore_ascii_case(name));
    found.map(|header| header.value.as_str())
}

/// Whether a text can be the value of a header as it is.
pub(super) fn fits(text: &str) -> bool {
    !text.chars().any(char::is_control) && text.trim() == text
}

/// JSON without control characters: JSON may contain some that no header accepts.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    if !text.chars().any(char::is_control) {
        return text;
    }
    let escape = |character: char| {
        if character.is_control() {
            format!("\\u{:04x}", u32::from(character)).chars().collect::<Vec<_>>()
        } else {
            vec![character]
        }
    };
    text.chars().flat_map(escape).collect()
}

pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}
