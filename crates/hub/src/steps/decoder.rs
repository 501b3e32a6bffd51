//! Payloads of Avro and Protobuf, which only their schema explains: they become JSON before the other steps.

use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage, SerializeOptions, Value as Part,
};
use serde_json::Value;

use super::avro::{AvroSchema, AvroSchemaError};
use super::error::ComputeError;

/// Most fields and elements of a payload of Protobuf, of all levels. A message without a byte has all its fields as JSON.
const MAX_VALUES: usize = 100_000;
/// Its JSON has messages within messages without a limit.
const ANY: &str = "google.protobuf.Any";

/// Why a schema cannot decode payloads.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecoderError {
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it is no schema of Avro: {0}")]
    Avro(#[from] AvroSchemaError),
    #[error("it is no set of descriptors of Protobuf: {0}")]
    Descriptors(#[from] prost_reflect::DescriptorError),
    #[error("it has {ANY}, which is not supported")]
    Any,
    #[error("it has no message `{name}`; it has {names}")]
    NoMessage { name: String, names: String },
    #[error("it has {count} messages: name one in `schema_type`, such as {names}")]
    Several { count: usize, names: String },
}

/// Reads payloads of one schema.
#[derive(Debug)]
pub(super) enum Decoder {
    /// A schema of Avro.
    Avro(AvroSchema),
    /// A message of Protobuf.
    Protobuf(MessageDescriptor),
}

impl Decoder {
    /// A schema of Avro, as JSON.
    ///
    /// # Errors
    /// When it is not one.
    pub(super) fn avro(text: &str) -> Result<Self, DecoderError> {
        let value: Value = serde_json::from_str(text)?;
        Ok(Self::Avro(AvroSchema::new(&value)?))
    }

    /// A message of the descriptors that `protoc --include_imports --descriptor_set_out=FILE` writes. `name` may be left
    /// out if there is one message alone.
    ///
    /// # Errors
    /// When the bytes are no descriptors, or have no such message.
    pub(super) fn protobuf(bytes: &[u8], name: Option<&str>) -> Result<Self, DecoderError> {
        let pool = DescriptorPool::decode(bytes)?;
        if pool.get_message_by_name(ANY).is_some() {
            return Err(DecoderError::Any);
        }
        let mut all: Vec<MessageDescriptor> = pool.all_messages().filter(|message| !message.is_map_entry()).collect();
        let names = || all.iter().take(10).map(|it| it.full_name().to_owned()).collect::<Vec<_>>().join(", ");
        match name {
            Some(name) => pool
                .get_message_by_name(name)
                .map(Self::Protobuf)
                .ok_or_else(|| DecoderError::NoMessage { name: name.to_owned(), names: names() }),
            None if all.len() == 1 => Ok(Self::Protobuf(all.remove(0))),
            None => Err(DecoderError::Several { count: all.len(), names: names() }),
        }
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is not of the schema.
    pub(super) fn decode(&self, payload: &[u8]) -> Result<Value, ComputeError> {
        match self {
            Self::Avro(schema) => {
                schema.decode(payload).map_err(|error| ComputeError::NotDecoded("Avro", error.to_string()))
            }
            Self::Protobuf(descriptor) => {
                let message = DynamicMessage::decode(descriptor.clone(), payload);
                let message = message.map_err(|error| ComputeError::NotDecoded("Protobuf", error.to_string()))?;
                if !count(&message, &mut { MAX_VALUES }) {
                    let why = format!("it has more than {MAX_VALUES} values");
                    return Err(ComputeError::NotDecoded("Protobuf", why));
                }
                let options = SerializeOptions::new()
                    .stringify_64_bit_integers(false)
                    .use_proto_field_name(true)
                    .skip_default_fields(false);
                let value = message.serialize_with_options(serde_json::value::Serializer, &options);
                value.map_err(|error| ComputeError::NotDecoded("Protobuf", error.to_string()))
            }
        }
    }
}

/// Takes the fields and elements of a message from the number that may still come; false if it has more.
fn count(message: &DynamicMessage, left: &mut usize) -> bool {
    let mut take = |values: usize| {
        let rest = left.checked_sub(values);
        *left = rest.unwrap_or_default();
        rest.is_some()
    };
    if !take(message.descriptor().fields().len()) {
        return false;
    }
    message.fields().all(|(_, value)| match value {
        Part::Message(below) => count(below, left),
        Part::List(items) => count_all(items.iter(), left),
        Part::Map(entries) => count_all(entries.values(), left),
        _ => true,
    })
}

fn count_all<'a>(mut items: impl ExactSizeIterator<Item = &'a Part>, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(items.len()) else { return false };
    *left = rest;
    items.all(|item| match item {
        Part::Message(below) => count(below, left),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost::Message as _;
    use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
    use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
    use serde_json::json;

    use super::*;

    fn field(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(name.to_owned()),
            number: Some(number),
            label: Some(Label::Optional as i32),
            r#type: Some(kind as i32),
            ..FieldDescriptorProto::default()
        }
    }

    fn descriptors(names: &[&str]) -> Vec<u8> {
        let message = |name: &&str| DescriptorProto {
            name: Some((*name).to_owned()),
            field: vec![field("temp", 1, Type::Double), field("big_id", 2, Type::Int64), field("raw", 3, Type::Bytes)],
            ..DescriptorProto::default()
        };
        let file = FileDescriptorProto {
            name: Some("plant.proto".to_owned()),
            package: Some("plant".to_owned()),
            syntax: Some("proto3".to_owned()),
            message_type: names.iter().map(message).collect(),
            ..FileDescriptorProto::default()
        };
        FileDescriptorSet { file: vec![file] }.encode_to_vec()
    }

    #[test]
    fn a_message_of_protobuf_becomes_json() {
        let decoder = Decoder::protobuf(&descriptors(&["Reading"]), None).unwrap();
        // temp = 21.5, big_id = 300, raw = [1, 2].
        let bytes = [&[0x09][..], &21.5_f64.to_le_bytes(), &[0x10, 0xac, 0x02, 0x1a, 2, 1, 2]].concat();
        assert_eq!(decoder.decode(&bytes).unwrap(), json!({ "temp": 21.5, "big_id": 300, "raw": "AQI=" }));
        assert_eq!(decoder.decode(&[]).unwrap(), json!({ "temp": 0.0, "big_id": 0, "raw": "" }));
        for bytes in [&[0x09][..], &[0xff], &[0x1a, 5, 1]] {
            assert!(decoder.decode(bytes).unwrap_err().to_string().contains("Protobuf"), "{bytes:?}");
        }
    }

    #[test]
    fn values_of_a_message_are_bounded() {
        let list = DescriptorProto {
            name: Some("List".to_owned()),
            field: vec![FieldDescriptorProto {
                label: Some(Label::Repeated as i32),
                type_name: Some(".plant.List".to_owned()),
                ..field("below", 1, Type::Message)
            }],
            ..DescriptorProto::default()
        };
        let file = |name: &str, package: &str, message| FileDescriptorProto {
            name: Some(name.to_owned()),
            package: Some(package.to_owned()),
            syntax: Some("proto3".to_owned()),
            message_type: vec![message],
            ..FileDescriptorProto::default()
        };
        let set = |files| FileDescriptorSet { file: files }.encode_to_vec();
        let decoder = Decoder::protobuf(&set(vec![file("plant.proto", "plant", list)]), None).unwrap();
        assert_eq!(
            decoder.decode(&[0x0a, 0, 0x0a, 0]).unwrap(),
            json!({ "below": [{ "below": [] }, { "below": [] }] })
        );
        assert!(decoder.decode(&[0x0a, 0].repeat(60_000)).unwrap_err().to_string().contains("100000 values"));
        let any = DescriptorProto { name: Some("Any".to_owned()), ..DescriptorProto::default() };
        let error =
            Decoder::protobuf(&set(vec![file("any.proto", "google.protobuf", any)]), None).unwrap_err().to_string();
        assert!(error.contains("not supported"), "{error}");
    }

    #[test]
    fn one_of_several_messages_needs_its_name() {
        let set = descriptors(&["Reading", "Alarm"]);
        assert!(Decoder::protobuf(&set, Some("plant.Alarm")).is_ok());
        let error = Decoder::protobuf(&set, None).unwrap_err().to_string();
        assert!(error.contains("schema_type") && error.contains("plant.Reading"), "{error}");
        assert!(Decoder::protobuf(&set, Some("Alarm")).unwrap_err().to_string().contains("plant.Alarm"));
        assert!(
            Decoder::protobuf(b"message Reading {}", None).unwrap_err().to_string().contains("no set of descriptors")
        );
    }
}
