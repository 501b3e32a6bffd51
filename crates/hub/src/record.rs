//! The records that go to a sink.

use std::fmt::Write;

use serde_json::{Map, Value};

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
    /// Fields in the order of the SELECT.
    pub fields: Vec<(String, Value)>,
    /// The payload as it came, where the pipeline has neither `sql` nor `set`.
    pub original: Option<Vec<u8>>,
    /// Why it is a dead letter, if it is one.
    pub reason: Option<String>,
}

impl Record {
    /// The fields as a line of JSON, without its end.
    pub fn json(&self) -> String {
        let mut text = String::from("{");
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to text does not fail.
            let _ = write!(text, "{comma}{}:{value}", Value::from(name.as_str()));
        }
        text.push('}');
        text
    }

    /// The fields as a value.
    pub fn object(&self) -> Map<String, Value> {
        self.fields.iter().cloned().collect()
    }

    /// The payload that a sink with topics sends: the one that came, or the fields as JSON.
    pub fn body(&self) -> Vec<u8> {
        self.original.clone().unwrap_or_else(|| self.json().into_bytes())
    }

    /// Bytes that it holds, roughly.
    pub fn size(&self) -> usize {
        let fields: usize = self.fields.iter().map(|(name, value)| name.len() + size_of_value(value)).sum();
        fields + self.original.as_ref().map_or(0, Vec::len) + self.topic.len() + self.id.len() + 64
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
