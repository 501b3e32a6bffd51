//! The records that go to a sink.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use crate::format::Format;
use crate::message::Message;

/// The result of a pipeline's steps for one message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The id of the message.
    pub id: String,
    /// Where it goes, for sinks that have topics: that of the message, unless the pipeline computes another.
    pub topic: String,
    /// Records of one key stay in order.
    pub key: String,
    /// When the broker took the message, Unix milliseconds.
    pub timestamp: u64,
    /// Its fields or its message.
    pub content: Content,
    /// Why it is a dead letter, if it is one.
    pub reason: Option<String>,
}

/// The fields or the message of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Fields in the order of the SELECT.
    Row(Vec<(String, Value)>),
    /// A message, where the pipeline has neither `sql` nor `set`.
    Whole(WholeMessage),
    /// A message as a record of a log.
    Logged(Vec<u8>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Row(Vec::new())
    }
}

/// A message as a record. Its payload is read when a sink asks for the fields, and not for sinks that send it as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeMessage {
    message: Arc<Message>,
    format: Format,
    fields: OnceLock<Vec<(String, Value)>>,
}

impl WholeMessage {
    /// A message whose payload has this format.
    pub fn new(message: Arc<Message>, format: Format) -> Self {
        Self { message, format, fields: OnceLock::new() }
    }
}

impl Record {
    /// The fields; a record of a log has none.
    pub fn fields(&self) -> &[(String, Value)] {
        match &self.content {
            Content::Row(fields) => fields,
            Content::Whole(whole) => whole.fields.get_or_init(|| whole.message.fields(whole.format)),
            Content::Logged(_) => &[],
        }
    }

    /// The payload as it came, where the pipeline has neither `sql` nor `set`.
    pub fn original(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Row(_) => None,
            Content::Whole(whole) => Some(&whole.message.payload),
            Content::Logged(bytes) => Some(bytes),
        }
    }

    /// The fields as a line of JSON, without its end.
    pub fn json(&self) -> String {
        let mut text = String::from("{");
        for (index, (name, value)) in self.fields().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to text does not fail.
            let _ = write!(text, "{comma}{}:{value}", Value::from(name.as_str()));
        }
        text.push('}');
        text
    }

    /// The fields as a value.
    pub fn object(&self) -> Map<String, Value> {
        self.fields().iter().cloned().collect()
    }

    /// The payload that a sink with topics sends: the one that came, or the fields as JSON.
    pub fn body(&self) -> Vec<u8> {
        self.original().map_or_else(|| self.json().into_bytes(), <[u8]>::to_vec)
    }

    /// Bytes that it holds, roughly.
    pub fn size(&self) -> usize {
        let content = match &self.content {
            Content::Row(fields) => fields.iter().map(|(name, value)| name.len() + size_of_value(value)).sum(),
            Content::Whole(whole) => whole.message.size(),
            Content::Logged(bytes) => bytes.len(),
        };
        content + self.topic.len() + self.id.len() + 64
    }
}

fn size_of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 16,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size_of_value).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + size_of_value(value) + 4).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_not_read_for_sinks_that_send_it() {
        let message = Message { topic: "t".into(), payload: b"{\"a\":1}".to_vec(), ..Message::default() };
        let whole = WholeMessage::new(Arc::new(message), Format::Json);
        let record = Record { content: Content::Whole(whole), ..Record::default() };
        let is_read =
            |record: &Record| matches!(&record.content, Content::Whole(whole) if whole.fields.get().is_some());
        assert_eq!((record.body(), record.size() > 0, is_read(&record)), (b"{\"a\":1}".to_vec(), true, false));
        assert_eq!(record.object()["payload"]["a"], 1);
        assert!(is_read(&record), "and it is read once");
    }
}
