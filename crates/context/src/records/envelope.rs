//! The envelope: the study's `SwapData`, as JSON or `MessagePack`, with additional fields of MQTT 5.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::Packing;

/// How deep an envelope may be nested.
const MAX_DEPTH: usize = 64;

/// A message and all that is said of it. Fields that a reader does not know are left out of account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The payload: in JSON as base64, in `MessagePack` as bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Blob>,
    /// The payload as text, for JSON written by hand; only read.
    #[serde(default, skip_serializing)]
    pub text: Option<String>,
    /// The rest of the topic after the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The node, the group, or the application that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient: Option<String>,
    /// The node that has sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// The sender's context, as it was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Seconds after which it is of no use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u32>,
    /// 0, 1 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<u8>,
    /// 0 to 9, where priorities are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// `delivered` or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// As in MQTT 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// As in MQTT 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_topic: Option<String>,
    /// As in MQTT 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_data: Option<Blob>,
    /// As in MQTT 5: pairs in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_properties: Vec<(String, String)>,
}

/// Why bytes are no envelope.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// They are not the JSON of one.
    #[error("no JSON envelope: {0}")]
    Json(#[source] serde_json::Error),
    /// They are not the `MessagePack` of one.
    #[error("no MessagePack envelope: {0}")]
    MessagePack(#[source] rmp_serde::decode::Error),
}

impl Envelope {
    /// Its bytes; `None` for a packing without an envelope.
    pub fn write(&self, packing: Packing) -> Option<Vec<u8>> {
        match packing {
            Packing::Plain => None,
            Packing::Json => serde_json::to_vec(self).ok(),
            Packing::MessagePack => rmp_serde::to_vec_named(self).ok(),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// When the bytes are no envelope.
    pub fn read(packing: Packing, bytes: &[u8]) -> Result<Self, EnvelopeError> {
        match packing {
            Packing::Plain => Ok(Self { message: Some(Blob(bytes.to_vec())), ..Self::default() }),
            Packing::Json => serde_json::from_slice(bytes).map_err(EnvelopeError::Json),
            Packing::MessagePack => {
                let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
                reader.set_max_depth(MAX_DEPTH);
                Self::deserialize(&mut reader).map_err(EnvelopeError::MessagePack)
            }
        }
    }
}

/// Bytes, which JSON has as base64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&STANDARD.encode(&self.0))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            return STANDARD.decode(text).map(Self).map_err(|error| D::Error::custom(format!("not base64: {error}")));
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

/// Takes bytes, and a string as its bytes.
struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Blob;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Blob, E> {
        Ok(Blob(bytes.to_vec()))
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Blob, E> {
        Ok(Blob(bytes))
    }

    fn visit_str<E>(self, text: &str) -> Result<Blob, E> {
        Ok(Blob(text.as_bytes().to_vec()))
    }
}
