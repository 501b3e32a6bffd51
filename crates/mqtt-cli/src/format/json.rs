//! Messages as JSON objects.

use jiff::Zoned;
use serde_json::value::RawValue;
use tidegate_client::Message;

use super::RenderError;
use super::time::strftime;

/// The indentation of one level of a JSON object.
const INDENT: &str = "  ";

/// Levels beyond this one are not indented any further, so that the layout grows no faster than the JSON.
const MAX_INDENTED_LEVELS: usize = 32;

/// How the payload appears in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// As a string; invalid UTF-8 is replaced.
    Text,
    /// As the JSON value that it is.
    Value,
}

/// Appends a message as an object.
pub(super) fn object(
    message: &Message,
    now: &Zoned,
    payload: Payload,
    pretty: bool,
    out: &mut Vec<u8>,
) -> Result<(), RenderError> {
    let mut object = String::from("{");
    member(&mut object, "tst", &string(&strftime("%Y-%m-%dT%H:%M:%S.%6f%z", now)));
    member(&mut object, "topic", &string(message.topic.as_str()));
    member(&mut object, "qos", &message.qos.bits().to_string());
    member(&mut object, "retain", &u8::from(message.retain).to_string());
    member(&mut object, "payloadlen", &message.payload.len().to_string());
    if let Some(packet_id) = message.packet_id {
        member(&mut object, "mid", &packet_id.to_string());
    }
    let properties = properties(message);
    if properties != "{}" {
        member(&mut object, "properties", &properties);
    }
    let text = String::from_utf8_lossy(&message.payload);
    let value = match payload {
        _ if message.payload.is_empty() => "null".to_owned(),
        Payload::Text => string(&text),
        Payload::Value => match serde_json::from_slice::<&RawValue>(&message.payload) {
            Ok(value) => layout(value.get(), false),
            Err(_) => {
                return Err(RenderError::NotJson { topic: message.topic.to_string() });
            }
        },
    };
    member(&mut object, "payload", &value);
    object.push('}');
    let object = if pretty { layout(&object, true) } else { object };
    out.extend_from_slice(object.as_bytes());
    Ok(())
}

/// The properties that are there, under the names of the specification.
fn properties(message: &Message) -> String {
    let properties = &message.properties;
    let mut object = String::from("{");
    if let Some(alias) = message.topic_alias {
        member(&mut object, "topic-alias", &alias.to_string());
    }
    if let Some(content_type) = &properties.content_type {
        member(&mut object, "content-type", &string(content_type));
    }
    if let Some(format) = properties.payload_format {
        member(&mut object, "payload-format-indicator", &(format as u8).to_string());
    }
    if let Some(seconds) = properties.message_expiry {
        member(&mut object, "message-expiry-interval", &seconds.to_string());
    }
    if let Some(topic) = &properties.response_topic {
        member(&mut object, "response-topic", &string(topic.as_str()));
    }
    if let Some(data) = &properties.correlation_data {
        member(&mut object, "correlation-data", &string(&String::from_utf8_lossy(data)));
    }
    let identifiers: Vec<_> = message.subscription_identifiers.iter().map(u32::to_string).collect();
    match identifiers.as_slice() {
        [] => {}
        [identifier] => member(&mut object, "subscription-identifier", identifier),
        several => member(&mut object, "subscription-identifier", &format!("[{}]", several.join(","))),
    }
    if !properties.user_properties.is_empty() {
        let pairs = properties.user_properties.iter();
        let pairs: Vec<_> = pairs.map(|(name, value)| format!("{{{}:{}}}", string(name), string(value))).collect();
        member(&mut object, "user-properties", &format!("[{}]", pairs.join(",")));
    }
    object.push('}');
    object
}

fn member(object: &mut String, name: &str, value: &str) {
    if !object.ends_with('{') {
        object.push(',');
    }
    object.push_str(&string(name));
    object.push(':');
    object.push_str(value);
}

/// Text as a JSON string.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Valid JSON with its white space renewed and nothing else changed: one line, or a line for each member. Numbers and
/// escapes stay as they were written, so nothing is lost.
fn layout(json: &str, pretty: bool) -> String {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0;
    let mut characters = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        if pretty {
            out.push('\n');
            out.extend(std::iter::repeat_n(INDENT, depth.min(MAX_INDENTED_LEVELS)));
        }
    };
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' | '\r' => {}
            '"' => {
                out.push('"');
                while let Some(character) = characters.next() {
                    out.push(character);
                    match character {
                        '\\' => out.extend(characters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(closing) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(closing);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(if pretty { ": " } else { ":" }),
            other => out.push(other),
        }
    }
    out
}
