//! The schema of payloads: a JSON Schema that they have to fulfil (drafts 4, 6, 7, 2019-09 and 2020-12), or one of Avro or
//! Protobuf by which they are decoded.

use std::fmt::{self, Write as _};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use super::decoder::Decoder;
use super::environment::Environment;
use super::error::ComputeError;
use super::{Part, StepError, StepSettings, Steps, at};
use crate::format::Format;
use crate::message::Message;

/// Largest file of a schema, bytes.
const MAX_FILE: u64 = 1 << 20;
/// Longest reason why a payload does not fulfil it, characters.
const MAX_REASON: usize = 300;
/// The address under which it is known. A reference to another file is refused.
const ADDRESS: &str = "tidegate://schema/payload.json";

/// The schema of a pipeline.
#[derive(Debug)]
pub(super) enum PayloadSchema {
    /// Payloads have to fulfil it.
    Json(Box<JsonSchema>),
    /// Payloads are decoded by it.
    Decoder(Box<Decoder>),
}

/// Why a value is no JSON Schema.
#[derive(Debug, thiserror::Error)]
#[error("it is no JSON Schema: {0:#}")]
struct JsonSchemaError(Box<boon::CompileError>);

/// A JSON Schema that was read.
pub(super) struct JsonSchema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchema").finish_non_exhaustive()
    }
}

/// Loads nothing: a schema is one file.
struct NoOther;

impl boon::UrlLoader for NoOther {
    fn load(&self, _: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err("a schema is one file: put the other one below `$defs`".into())
    }
}

impl PayloadSchema {
    /// Reads the file of a schema, whose name says its kind: `.json`, `.avsc`, or `.desc` and `.binpb` for the descriptors
    /// of Protobuf. `name` is one of their messages.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or is no such schema.
    pub(super) fn open(path: &Path, name: Option<&str>) -> Result<Self, StepError> {
        let failed = |why: String| StepError::new(format!("{}: {why}", path.display()));
        let mut text = Vec::new();
        // A pipe would be waited for.
        if path.metadata().is_ok_and(|it| !it.is_file()) {
            return Err(failed("it is no file".to_owned()));
        }
        let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
        file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| failed(error.to_string()))?;
        if text.len() as u64 > MAX_FILE {
            return Err(failed(format!("it is larger than {MAX_FILE} bytes")));
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => {
                let value =
                    serde_json::from_slice(&text).map_err(|error| failed(format!("it is not JSON: {error}")))?;
                JsonSchema::new(value)
                    .map(|schema| Self::Json(Box::new(schema)))
                    .map_err(|error| failed(error.to_string()))
            }
            Some("avsc") => {
                let text = String::from_utf8(text).map_err(|error| failed(error.to_string()))?;
                Decoder::avro(&text)
                    .map(|decoder| Self::Decoder(Box::new(decoder)))
                    .map_err(|error| failed(error.to_string()))
            }
            Some("desc" | "binpb") => Decoder::protobuf(&text, name)
                .map(|decoder| Self::Decoder(Box::new(decoder)))
                .map_err(|error| failed(error.to_string())),
            Some("proto") => Err(failed(
                "make descriptors of it: protoc --include_imports --descriptor_set_out=FILE.desc FILE.proto".to_owned(),
            )),
            _ => Err(failed(
                "its name has to end in .json (JSON Schema), .avsc (Avro), .desc or .binpb (Protobuf)".to_owned(),
            )),
        }
    }
}

impl JsonSchema {
    fn new(value: Value) -> Result<Self, JsonSchemaError> {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.use_loader(Box::new(NoOther));
        compiler.enable_format_assertions();
        let wrong = |error| JsonSchemaError(Box::new(error));
        compiler.add_resource(ADDRESS, value).map_err(wrong)?;
        let index = compiler.compile(ADDRESS, &mut schemas).map_err(wrong)?;
        Ok(Self { schemas, index })
    }

    /// Checks a payload.
    ///
    /// # Errors
    /// With the first part that does not fulfil it.
    pub(super) fn check(&self, payload: &Value) -> Result<(), ComputeError> {
        self.schemas.validate(payload, self.index).map_err(|error| {
            let mut first = &error;
            while let Some(cause) = first.causes.first() {
                first = cause;
            }
            let mut reason = String::new();
            let place = first.instance_location.to_string();
            // Writing to a text does not fail.
            let _ = write!(reason, "{}: {}", if place.is_empty() { "the payload" } else { &place }, first.kind);
            ComputeError::Schema(reason.chars().take(MAX_REASON).collect())
        })
    }
}

impl Steps {
    /// A message whose payload is decoded by the schema, if that is of Avro or Protobuf. Nothing if the payload is not of the
    /// schema and such messages are dropped.
    ///
    /// # Errors
    /// When the payload is not of the schema.
    pub(super) fn decoded(&self, message: &Arc<Message>) -> Result<Option<Arc<Message>>, ComputeError> {
        let Some(PayloadSchema::Decoder(decoder)) = &self.schema else { return Ok(Some(Arc::clone(message))) };
        match decoder.decode(&message.payload) {
            Ok(value) => {
                let payload = value.to_string().into_bytes();
                Ok(Some(Arc::new(Message { payload, ..Message::clone(message) })))
            }
            Err(_) if self.drops_invalid => Ok(None),
            Err(error) => Err(at("schema")(error)),
        }
    }

    /// Whether payloads are decoded by the schema.
    pub(super) fn decodes(&self) -> bool {
        matches!(self.schema, Some(PayloadSchema::Decoder(_)))
    }

    /// The schema of the settings.
    pub(super) fn schema_of(settings: &StepSettings) -> Result<Option<PayloadSchema>, (Part, StepError)> {
        let Some(path) = &settings.schema else { return Ok(None) };
        let schema =
            PayloadSchema::open(path, settings.schema_type.as_deref()).map_err(|error| (Part::Schema, error))?;
        if matches!(schema, PayloadSchema::Decoder(_)) && settings.format != Format::Json {
            let said = "a schema of Avro or Protobuf says how payloads are read: leave out `format`";
            return Err((Part::Schema, StepError::new(said)));
        }
        Ok(Some(schema))
    }

    /// Whether the payload fulfils the schema, if there is one.
    ///
    /// # Errors
    /// When it does not, unless such messages are dropped, and when it is not of its format.
    pub(super) fn is_valid(&self, environment: &Environment<'_>) -> Result<bool, ComputeError> {
        let Some(PayloadSchema::Json(schema)) = &self.schema else { return Ok(true) };
        let payload = environment.payload().map_err(ComputeError::from);
        match payload.and_then(|payload| schema.check(payload)) {
            Ok(()) => Ok(true),
            Err(_) if self.drops_invalid => Ok(false),
            Err(error) => Err(at("schema")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reading() -> Value {
        json!({
            "type": "object",
            "required": ["temp"],
            "properties": { "temp": { "type": "number", "maximum": 100 }, "unit": { "$ref": "#/$defs/unit" } },
            "$defs": { "unit": { "enum": ["C", "F"] } }
        })
    }

    #[test]
    fn the_reason_names_the_part_that_is_wrong() {
        let schema = JsonSchema::new(reading()).unwrap();
        assert_eq!(schema.check(&json!({ "temp": 21.5, "unit": "C" })), Ok(()));
        for (payload, place) in [
            (json!({ "temp": "warm" }), "/temp: "),
            (json!({ "temp": 101 }), "/temp: "),
            (json!({ "temp": 1, "unit": "K" }), "/unit: "),
            (json!({}), "the payload: "),
            (json!([]), "the payload: "),
        ] {
            let error = schema.check(&payload).unwrap_err().to_string();
            assert!(error.contains(place), "{payload}: {error}");
        }
        let long = schema.check(&json!({ "temp": "x".repeat(10_000) })).unwrap_err().to_string();
        assert!(long.len() < 400, "{long}");
    }

    #[test]
    fn a_wrong_schema_is_refused() {
        for (value, said) in [
            (json!({ "type": "nummer" }), "no JSON Schema"),
            (json!({ "$ref": "#/$defs/none" }), "no JSON Schema"),
            (json!({ "$ref": "other.json" }), "no JSON Schema"),
            (json!({ "$ref": "file:///etc/passwd" }), "one file"),
        ] {
            let error = JsonSchema::new(value.clone()).err().unwrap().to_string();
            assert!(error.contains(said), "{value}: {error}");
        }
        let folder = std::env::temp_dir().join(format!("tidegate-schema-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("schema.json");
        for (text, said) in [(None, "No such file"), (Some("{"), "not JSON"), (Some("5"), "no JSON Schema")] {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            let error = PayloadSchema::open(&file, None).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("schema.json"), "{error}");
        }
        assert!(PayloadSchema::open(&folder, None).unwrap_err().to_string().contains("no file"));
        std::fs::write(&file, " ".repeat((1 << 20) + 1)).unwrap();
        assert!(PayloadSchema::open(&file, None).unwrap_err().to_string().contains("larger than"));
        for (name, said) in [("a.proto", "protoc"), ("a.txt", ".avsc"), ("a.avsc", "not JSON"), ("a.desc", "Protobuf")]
        {
            let file = folder.join(name);
            std::fs::write(&file, "x").unwrap();
            let error = PayloadSchema::open(&file, None).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
