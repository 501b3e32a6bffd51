//! Payloads as values.

use std::fmt::Display;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeSeed;
use serde_json::Value;

use super::Format;
use super::wanted::{PartReader, Wanted, is_within};

/// Deepest nesting of a payload.
const MAX_DEPTH: usize = 64;

/// A payload is not of its format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the payload is not {}: {why}", named(*.format))]
pub struct FormatError {
    /// The format.
    pub format: Format,
    /// The reader's error.
    pub why: String,
}

/// A value has no form in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has no form in {format}: {why}")]
pub struct EncodeError {
    /// The name of the format.
    pub format: &'static str,
    /// The writer's error.
    pub why: String,
}

/// A text is not JSON that a record can hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is not JSON; what the reader says.
    #[error("{0}")]
    Syntax(String),
    /// It is nested too deep.
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

const fn named(format: Format) -> &'static str {
    match format {
        Format::Json => "JSON",
        Format::Cbor => "CBOR that JSON can say",
        Format::MessagePack => "MessagePack that JSON can say",
        Format::Raw => "text",
    }
}

impl Format {
    /// Reads a payload.
    ///
    /// # Errors
    /// When it is not of this format.
    pub fn decode(self, payload: &[u8]) -> Result<Value, FormatError> {
        match self {
            Self::Json => json(payload).map_err(|error| self.refuse(&error)),
            Self::Cbor => {
                let read = ciborium::de::from_reader_with_recursion_limit(payload, MAX_DEPTH);
                read.map_err(|error| self.refuse(&cbor_fault(&error)))
            }
            Self::MessagePack => {
                let mut reader = rmp_serde::Deserializer::from_read_ref(payload);
                reader.set_max_depth(MAX_DEPTH);
                let read = serde::Deserialize::deserialize(&mut reader);
                read.map_err(|error: rmp_serde::decode::Error| self.refuse(&error))
            }
            Self::Raw => Ok(raw(payload)),
        }
    }

    /// Reads a payload, and makes values of the wanted parts alone, where the format allows it.
    ///
    /// # Errors
    /// When it is not of this format.
    pub(crate) fn decode_parts(self, payload: &[u8], wanted: &Wanted) -> Result<Value, FormatError> {
        let part = PartReader::new(wanted, MAX_DEPTH);
        match self {
            Self::Json => {
                let mut reader = serde_json::Deserializer::from_slice(payload);
                let read = part.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
                read.map_err(|error| self.refuse(&error))
            }
            Self::MessagePack => {
                let mut reader = rmp_serde::Deserializer::from_read_ref(payload);
                reader.set_max_depth(MAX_DEPTH);
                part.deserialize(&mut reader).map_err(|error| self.refuse(&error))
            }
            Self::Cbor | Self::Raw => self.decode(payload),
        }
    }

    fn refuse(self, error: &dyn Display) -> FormatError {
        FormatError { format: self, why: error.to_string() }
    }

    /// Writes a value, whose text is JSON, as a payload.
    ///
    /// # Errors
    /// When it has no form in this format.
    pub(crate) fn encode<T: Serialize + Display>(self, value: &T) -> Result<Vec<u8>, EncodeError> {
        let refused = |format, error: &dyn Display| EncodeError { format, why: error.to_string() };
        match self {
            Self::Json | Self::Raw => Ok(value.to_string().into_bytes()),
            Self::Cbor => {
                let mut out = Vec::new();
                ciborium::into_writer(value, &mut out).map_err(|error| refused("CBOR", &error))?;
                Ok(out)
            }
            Self::MessagePack => rmp_serde::to_vec(value).map_err(|error| refused("MessagePack", &error)),
        }
    }

    /// A payload as a value, whatever is in it.
    pub fn shown(self, payload: &[u8]) -> Value {
        self.decode(payload).unwrap_or_else(|_| raw(payload))
    }
}

/// Reads JSON that is nested no deeper than other formats may be, so that it can be read again within a record.
///
/// # Errors
/// When it is not JSON, or nested too deep.
pub(crate) fn json(text: &[u8]) -> Result<Value, JsonError> {
    let value = serde_json::from_slice(text).map_err(|error| JsonError::Syntax(error.to_string()))?;
    if is_within(&value, MAX_DEPTH) { Ok(value) } else { Err(JsonError::TooDeep) }
}

/// The fault of a payload, in words: the reader's own text is the name of a variant.
fn cbor_fault<T>(error: &ciborium::de::Error<T>) -> String {
    match error {
        ciborium::de::Error::Io(_) => "it ends too early".to_owned(),
        ciborium::de::Error::Syntax(at) => format!("no value begins at byte {at}"),
        ciborium::de::Error::Semantic(_, text) => text.clone(),
        ciborium::de::Error::RecursionLimitExceeded => format!("it is nested deeper than {MAX_DEPTH} levels"),
    }
}

fn raw(payload: &[u8]) -> Value {
    let text = std::str::from_utf8(payload).map(str::to_owned);
    Value::String(text.unwrap_or_else(|_| STANDARD.encode(payload)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn each_format_reads_its_own_output() {
        let value = json!({"a": [1, -2, 2.5, null, true], "b": {"c": "text"}, "large": u64::MAX});
        for format in [Format::Json, Format::Cbor, Format::MessagePack] {
            assert_eq!(format.decode(&format.encode(&value).unwrap()).unwrap(), value, "{format:?}");
        }
        assert_eq!(Format::MessagePack.encode(&json!({"a": 1})).unwrap(), b"\x81\xa1a\x01");
        assert_eq!(Format::Raw.encode(&json!(["text"])).unwrap(), b"[\"text\"]");
    }

    use super::*;

    #[test]
    fn each_format_reads_its_own_payload() {
        let value = json!({ "temp": 31.5, "tags": ["a", null, true], "n": 7 });
        let mut cbor = Vec::new();
        ciborium::into_writer(&value, &mut cbor).unwrap();
        let packed = rmp_serde::to_vec_named(&value).unwrap();
        assert_eq!(Format::Json.decode(value.to_string().as_bytes()).unwrap(), value);
        assert_eq!(Format::Cbor.decode(&cbor).unwrap(), value);
        assert_eq!(Format::MessagePack.decode(&packed).unwrap(), value);
        assert_eq!(Format::Raw.decode(b"on").unwrap(), json!("on"));
        assert_eq!(Format::Raw.decode(b"\xff\x00").unwrap(), json!("/wA="));
        assert!(Format::Json.decode(b"{").unwrap_err().to_string().contains("not JSON"));
        assert_eq!(Format::Json.shown(b"hello"), json!("hello"));
    }

    #[test]
    fn a_payload_nested_too_deep_is_refused() {
        let deep = vec![0x91_u8; 10_000];
        assert!(Format::MessagePack.decode(&deep).is_err());
        let why = Format::Cbor.decode(&vec![0x81_u8; 10_000]).unwrap_err().to_string();
        assert!(why.ends_with("it is nested deeper than 64 levels"), "{why}");
        let why = Format::Cbor.decode(b"\x7b\0\xff").unwrap_err().to_string();
        assert!(why.ends_with("it ends too early"), "{why}");
        assert!(Format::Json.decode("[".repeat(10_000).as_bytes()).is_err());
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Format::Json.decode(nested(MAX_DEPTH).as_bytes()).is_ok());
        let why = Format::Json.decode(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err().to_string();
        assert!(why.contains("deeper than 64"), "{why}");
        // A record with it as one field can be read again.
        assert!(Format::Json.shown(nested(127).as_bytes()).is_string());
    }
}
