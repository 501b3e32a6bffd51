//! A message as a pipeline sees it.

use serde_json::{Map, Value, json};

use crate::format::Format;

/// The user property in which the broker hands over who published a message, under which id, and when: it is set for
/// sessions of the hub alone.
pub const ORIGIN_PROPERTY: &str = "tidegate-hub";

/// Who published a message, and when the broker took it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The same whenever the message is delivered again.
    pub id: String,
    /// When the broker took it, Unix milliseconds.
    pub timestamp: u64,
    /// The client id of the publisher.
    pub client_id: String,
}

impl Origin {
    /// Reads the value of [`ORIGIN_PROPERTY`]: id, time and client id with a blank between them.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.split_once(' ')?;
        let (timestamp, client_id) = rest.split_once(' ')?;
        let timestamp = timestamp.parse().ok()?;
        Some(Self { id: id.to_owned(), timestamp, client_id: client_id.to_owned() })
    }
}

/// A message from a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its id: of the broker, or made up where the broker gives none.
    pub id: String,
    /// Whether the id is the same when the message is delivered again.
    pub lasting_id: bool,
    /// The topic name.
    pub topic: String,
    /// Who published it, where the broker says so.
    pub client_id: Option<String>,
    /// 0, 1 or 2, as it came to the hub.
    pub qos: u8,
    /// RETAIN as it came.
    pub retain: bool,
    /// When the broker took it, or else when the hub did; Unix milliseconds.
    pub timestamp: u64,
    /// Content Type of MQTT 5.
    pub content_type: Option<String>,
    /// User properties of MQTT 5, without the ones that the broker adds.
    pub user_properties: Vec<(String, String)>,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Message {
    /// Bytes that it holds, roughly.
    pub fn size(&self) -> usize {
        let properties: usize = self.user_properties.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.payload.len() + self.topic.len() + self.id.len() + properties + 64
    }

    /// What expressions look at beside the payload.
    pub fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            "id" => json!(self.id),
            "topic" => json!(self.topic),
            "clientid" => json!(self.client_id),
            "qos" => json!(self.qos),
            "retain" => json!(self.retain),
            "flags" => json!({ "retain": self.retain }),
            "timestamp" | "publish_received_at" => json!(self.timestamp),
            "pub_props" => json!({ "Content-Type": self.content_type, "User-Property": self.properties() }),
            _ => return None,
        })
    }

    fn properties(&self) -> Value {
        let pair = |(name, value): &(String, String)| (name.clone(), Value::String(value.clone()));
        Value::Object(self.user_properties.iter().map(pair).collect::<Map<_, _>>())
    }

    /// All of it, for a pipeline that selects nothing.
    pub fn fields(&self, format: Format) -> Vec<(String, Value)> {
        let payload = format.shown(&self.payload);
        let mut fields: Vec<(String, Value)> = ["id", "topic", "clientid", "qos", "retain", "timestamp"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.field(name)?)))
            .collect();
        if !self.user_properties.is_empty() {
            fields.push(("user_properties".to_owned(), self.properties()));
        }
        fields.push(("payload".to_owned(), payload));
        fields
    }
}

/// Names that expressions may look at.
pub(crate) const FIELDS: &[&str] =
    &["id", "topic", "clientid", "qos", "retain", "flags", "timestamp", "publish_received_at", "pub_props", "payload"];
