//! Several messages in one request.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tidegate_client::Publish;

use crate::fields::{Fields, MAX_USER_PROPERTIES};
use crate::request_error::RequestError;

/// Messages of one batch.
pub(crate) const MAX_MESSAGES: usize = 1_000;

/// Why a batch is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    /// The body is no JSON.
    #[error("the body is no JSON: {0}")]
    NoJson(#[source] serde_json::Error),
    /// The body is other JSON.
    #[error("the body is no array of messages")]
    NoArray,
    /// The array is too long.
    #[error("a batch has {MAX_MESSAGES} messages at most")]
    TooMany,
    /// A message is wrong.
    #[error("message {place}: {why}")]
    Message {
        /// Its place in the array, counted from 0.
        place: usize,
        /// The reason.
        why: MessageError,
    },
}

/// Why one message of a batch is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageError {
    /// It is no object.
    #[error("it is no object")]
    NoObject,
    /// It has no topic.
    #[error("it has no `topic`")]
    NoTopic,
    /// Its payload is ambiguous, or no text.
    #[error("it has a wrong `payload` or `payload_base64`, or both")]
    Payload,
    /// A field is an array or an object.
    #[error("`{0}` is neither a text, a number nor a truth value")]
    Type(&'static str),
    /// Its user properties are not texts, or too many.
    #[error("`user_properties` is an object of texts, {MAX_USER_PROPERTIES} at most")]
    UserProperties,
    /// A field, as in any request.
    #[error(transparent)]
    Field(#[from] RequestError),
}

/// Reads a batch: an array of objects with `topic` and `payload`, which is a text, or any other JSON that is sent as it
/// is, or `payload_base64`.
///
/// # Errors
/// When it is no JSON, no array, or a message is wrong; with the place of the message.
pub(crate) fn read(body: &[u8]) -> Result<Vec<Publish>, BatchError> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let mut refused = None;
    let messages = reader.deserialize_seq(Messages { refused: &mut refused });
    messages.and_then(|messages| reader.end().map(|()| messages)).map_err(|error| match error.classify() {
        // The text of such an error ends in a line and a column of the body, which say less than the message's place.
        serde_json::error::Category::Data => refused.unwrap_or(BatchError::NoArray),
        _ => BatchError::NoJson(error),
    })
}

/// Reads messages one by one, and nothing beyond the limit.
struct Messages<'a> {
    /// Why the reading ended early.
    refused: &'a mut Option<BatchError>,
}

impl<'de> Visitor<'de> for Messages<'_> {
    type Value = Vec<Publish>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Publish>, A::Error> {
        let mut messages = Vec::new();
        while let Some(item) = items.next_element::<Value>()? {
            let place = messages.len();
            let read = if place == MAX_MESSAGES {
                Err(BatchError::TooMany)
            } else {
                message(item).map_err(|why| BatchError::Message { place, why })
            };
            match read {
                Ok(message) => messages.push(message),
                Err(error) => {
                    let said = de::Error::custom(&error);
                    *self.refused = Some(error);
                    return Err(said);
                }
            }
        }
        Ok(messages)
    }
}

fn message(item: Value) -> Result<Publish, MessageError> {
    let Value::Object(mut object) = item else { return Err(MessageError::NoObject) };
    let Some(Value::String(topic)) = object.remove("topic") else { return Err(MessageError::NoTopic) };
    let payload = match (object.remove("payload"), object.remove("payload_base64")) {
        (Some(Value::String(text)), None) => text.into_bytes(),
        (Some(value), None) => value.to_string().into_bytes(),
        (None, Some(Value::String(text))) => {
            STANDARD.decode(text).map_err(|_| RequestError::Base64("payload_base64"))?
        }
        (None, None) => Vec::new(),
        _ => return Err(MessageError::Payload),
    };
    let user_properties = user_properties(object.remove("user_properties"))?;
    let mut text = |name: &'static str| text_of(&mut object, name);
    let fields = Fields {
        qos: text("qos")?,
        retain: text("retain")?,
        expiry: text("expiry")?,
        content_type: text("content_type")?,
        response_topic: text("response_topic")?,
        correlation_data: text("correlation_data")?,
        user_properties,
    };
    if let Some(name) = object.keys().next() {
        return Err(RequestError::UnknownField(name.clone()).into());
    }
    Ok(fields.message(&topic, payload)?)
}

fn text_of(object: &mut Map<String, Value>, name: &'static str) -> Result<Option<String>, MessageError> {
    match object.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
        Some(_) => Err(MessageError::Type(name)),
    }
}

fn user_properties(value: Option<Value>) -> Result<Vec<(String, String)>, MessageError> {
    let object = match value {
        None => return Ok(Vec::new()),
        Some(Value::Object(object)) if object.len() <= MAX_USER_PROPERTIES => object,
        Some(_) => return Err(MessageError::UserProperties),
    };
    let pair = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        _ => Err(MessageError::UserProperties),
    };
    object.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_client::QoS;

    #[test]
    fn a_batch_has_messages_of_all_kinds() {
        let body = br#"[{"topic":"a","payload":"text","qos":0},{"topic":"b","payload":{"n":1},"retain":true},
            {"topic":"c","payload_base64":"AP8=","content_type":"x/y","user_properties":{"k":"v"}},{"topic":"d"}]"#;
        let messages = read(body).unwrap();
        let payloads: Vec<&[u8]> = messages.iter().map(|it| it.payload.as_slice()).collect();
        assert_eq!(payloads, [&b"text"[..], br#"{"n":1}"#, &[0, 255], b""]);
        assert_eq!((messages[0].qos, messages[1].qos), (QoS::AtMostOnce, QoS::AtLeastOnce));
        assert!(messages[1].retain && !messages[0].retain);
        assert_eq!(messages[2].properties.user_properties, [("k".to_owned(), "v".to_owned())]);
    }

    #[test]
    fn a_wrong_batch_says_which_message_is_wrong() {
        let cases = [
            ("x", "no JSON"),
            ("{}", "the body is no array of messages"),
            (r#"[{"topic":"a"}] x"#, "no JSON"),
            (r#"[{"topic":"a"},{}]"#, "message 1: it has no `topic`"),
            (r#"[{"topic":"a/#"}]"#, "message 0: the topic"),
            (r#"[{"topic":"a","payload":1,"payload_base64":""}]"#, "or both"),
            (r#"[{"topic":"a","qos":[]}]"#, "`qos` is neither"),
            (r#"[{"topic":"a","ttl":1}]"#, "`ttl` is not known"),
            (r#"[{"topic":"a","user_properties":{"a":1}}]"#, "object of texts"),
        ];
        for (body, part) in cases {
            let error = read(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{body}: {error}");
            assert!(part == "no JSON" || !error.contains("column"), "{error}");
        }
        let many = format!("[{}]", vec![r#"{"topic":"a"}"#; MAX_MESSAGES + 1].join(","));
        assert!(read(many.as_bytes()).unwrap_err().to_string().contains("1000 messages at most"));
        let unread = many.replacen(']', ",!!!", 1);
        assert!(
            read(unread.as_bytes()).unwrap_err().to_string().contains("1000 messages at most"),
            "later messages are not read"
        );
    }
}
