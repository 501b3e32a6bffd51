//! The records that go to a sink.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::format::Format;
use crate::message::{FieldName, Message};

/// Fields in the order of the SELECT.
pub type Row = Vec<(FieldName, Value)>;

/// Fields as an object that keeps their order. As text it is JSON.
pub(crate) struct RowText<'a>(pub(crate) &'a [(FieldName, Value)]);

impl Serialize for RowText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (&**name, value)))
    }
}

impl fmt::Display for RowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}:{value}", Value::from(&**name))?;
        }
        f.write_str("}")
    }
}

/// The result of a pipeline's steps for one message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The message that it was made of. It gives the id and the time, and what the steps do not compute.
    pub message: Arc<Message>,
    /// Its own id, where there are several of the message.
    pub own_id: Option<String>,
    /// The topic that a step has computed.
    pub computed_topic: Option<String>,
    /// The key that a step has computed.
    pub computed_key: Option<String>,
    /// Its fields or its message.
    pub content: Content,
    /// The payload in the format of `encode`; nothing where sinks send it as it came, or the fields as JSON.
    pub encoded: Option<Vec<u8>>,
    /// Why it is a dead letter, if it is one.
    pub reason: Option<String>,
}

/// The fields or the message of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Fields in the order of the SELECT.
    Row(Row),
    /// The message, where the pipeline has neither `sql` nor `set`.
    Whole(WholeMessage),
    /// The message as a record of a log.
    Logged(Vec<u8>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Row(Vec::new())
    }
}

/// How the message of a record is read. The payload is read when a sink asks for the fields, and not for sinks that send
/// it as it came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WholeMessage {
    format: Format,
    fields: OnceLock<Row>,
}

impl WholeMessage {
    /// A message whose payload has this format.
    pub fn new(format: Format) -> Self {
        Self { format, fields: OnceLock::new() }
    }
}

impl Record {
    /// A record of a message, which has the topic and the key of the message.
    pub fn new(message: Arc<Message>, content: Content) -> Self {
        // Not from a default, whose message would be made and thrown away for each record.
        Self { message, content, own_id: None, computed_topic: None, computed_key: None, encoded: None, reason: None }
    }

    /// Empties it for another message; `none` is that of no record.
    pub(crate) fn reset(&mut self, none: Arc<Message>) {
        // By name, so that none is forgotten.
        let Self { message, content, own_id, computed_topic, computed_key, encoded, reason } = self;
        (*message, *content) = (none, Content::default());
        for text in [own_id, computed_topic, computed_key, reason] {
            *text = None;
        }
        *encoded = None;
    }

    /// Its id: that of the message, or of one of several records of the message. It is the same whenever the message comes.
    pub fn id(&self) -> &str {
        self.own_id.as_ref().unwrap_or(&self.message.id)
    }

    /// Where it goes, for sinks that have topics: that of the message, unless the pipeline computes another.
    pub fn topic(&self) -> &str {
        self.computed_topic.as_ref().unwrap_or(&self.message.topic)
    }

    /// Records of one key stay in order. Without a computed key, the topic of the message is the key.
    pub fn key(&self) -> &str {
        self.computed_key.as_ref().unwrap_or(&self.message.topic)
    }

    /// Pipelines that have published it one after the other, when this one has.
    pub fn hops(&self) -> u8 {
        self.message.hops.saturating_add(1)
    }

    /// When the broker took the message, Unix milliseconds.
    pub fn timestamp(&self) -> u64 {
        self.message.timestamp
    }

    /// The fields; a record of a log has none.
    pub fn fields(&self) -> &[(FieldName, Value)] {
        match &self.content {
            Content::Row(fields) => fields,
            Content::Whole(whole) => whole.fields.get_or_init(|| self.message.fields(whole.format)),
            Content::Logged(_) => &[],
        }
    }

    /// The payload as it came, where the pipeline has neither `sql` nor `set`.
    pub fn original(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Row(_) => None,
            Content::Whole(_) => Some(&self.message.payload),
            Content::Logged(bytes) => Some(bytes),
        }
    }

    /// Whether it is the message as it came, whose properties go with it.
    pub fn is_as_it_came(&self) -> bool {
        matches!(self.content, Content::Whole(_)) && self.encoded.is_none()
    }

    /// The fields as a line of JSON, without its end.
    pub fn json(&self) -> String {
        RowText(self.fields()).to_string()
    }

    /// The fields as a value.
    pub fn object(&self) -> Map<String, Value> {
        self.fields().iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }

    /// The payload that a sink with topics sends: in the format of `encode`, the received one, or the fields as JSON.
    pub fn body(&self) -> Vec<u8> {
        if let Some(encoded) = &self.encoded {
            return encoded.clone();
        }
        self.original().map_or_else(|| self.json().into_bytes(), <[u8]>::to_vec)
    }

    /// Memory that it takes beside its message, bytes. The overhead of allocations does not count.
    pub(crate) fn memory(&self) -> usize {
        let content = match &self.content {
            Content::Row(fields) => memory_of_row(fields),
            Content::Whole(_) => 0,
            Content::Logged(bytes) => bytes.len(),
        };
        let texts = [&self.own_id, &self.computed_topic, &self.computed_key, &self.reason];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        size_of::<Self>() + content + texts + self.encoded.as_ref().map_or(0, Vec::len)
    }

    /// Bytes that it holds, roughly.
    pub fn size(&self) -> usize {
        let content = match &self.content {
            Content::Row(fields) => fields.iter().map(|(name, value)| name.len() + size_of_value(value)).sum(),
            Content::Whole(_) => self.message.size(),
            Content::Logged(bytes) => bytes.len(),
        };
        let encoded = self.encoded.as_ref().map_or(0, Vec::len);
        content + encoded + self.topic().len() + self.id().len() + 64
    }
}

/// Memory of a row, bytes.
pub(crate) fn memory_of_row(row: &[(FieldName, Value)]) -> usize {
    // The records of a pipeline share the names.
    row.iter().map(|(_, value)| size_of::<FieldName>() + memory_of_value(value)).sum()
}

/// Memory of a value, bytes.
pub(crate) fn memory_of_value(value: &Value) -> usize {
    let below: usize = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_of_value).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| size_of::<String>() + name.len() + memory_of_value(value)).sum()
        }
    };
    size_of::<Value>() + below
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
        let record = Record::new(Arc::new(message), Content::Whole(WholeMessage::new(Format::Json)));
        let is_read =
            |record: &Record| matches!(&record.content, Content::Whole(whole) if whole.fields.get().is_some());
        assert_eq!((record.body(), record.size() > 0, is_read(&record)), (b"{\"a\":1}".to_vec(), true, false));
        assert_eq!(record.object()["payload"]["a"], 1);
        assert!(is_read(&record), "and it is read once");
    }
}
