//! A JSON Schema that payloads have to fulfil: drafts 4, 6, 7, 2019-09 and 2020-12.

use std::fmt::{self, Write as _};
use std::io::Read;
use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use super::StepError;
use super::error::ComputeError;

/// Largest file of a schema, bytes.
const MAX_FILE: u64 = 1 << 20;
/// Longest reason why a payload does not fulfil it, characters.
const MAX_REASON: usize = 300;
/// The address under which it is known. A reference to another file is refused.
const ADDRESS: &str = "tidegate://schema/payload.json";

/// A schema that was read.
pub(super) struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

/// Loads nothing: a schema is one file.
struct NoOther;

impl boon::UrlLoader for NoOther {
    fn load(&self, _: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err("a schema is one file: put the other one below `$defs`".into())
    }
}

impl Schema {
    /// Reads the file of a schema.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or is no JSON Schema.
    pub(super) fn open(path: &Path) -> Result<Self, StepError> {
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
        let value = serde_json::from_slice(&text).map_err(|error| failed(format!("it is not JSON: {error}")))?;
        Self::new(value).map_err(failed)
    }

    fn new(value: Value) -> Result<Self, String> {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.use_loader(Box::new(NoOther));
        compiler.enable_format_assertions();
        let wrong = |error: &boon::CompileError| format!("it is no JSON Schema: {error:#}");
        compiler.add_resource(ADDRESS, value).map_err(|error| wrong(&error))?;
        let index = compiler.compile(ADDRESS, &mut schemas).map_err(|error| wrong(&error))?;
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
        let schema = Schema::new(reading()).unwrap();
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
    fn a_schema_that_is_none_is_refused() {
        for (value, said) in [
            (json!({ "type": "nummer" }), "no JSON Schema"),
            (json!({ "$ref": "#/$defs/none" }), "no JSON Schema"),
            (json!({ "$ref": "other.json" }), "no JSON Schema"),
            (json!({ "$ref": "file:///etc/passwd" }), "one file"),
        ] {
            let error = Schema::new(value.clone()).err().unwrap();
            assert!(error.contains(said), "{value}: {error}");
        }
        let folder = std::env::temp_dir().join(format!("tidegate-schema-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("schema.json");
        for (text, said) in [(None, "No such file"), (Some("{"), "not JSON"), (Some("5"), "no JSON Schema")] {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            let error = Schema::open(&file).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("schema.json"), "{error}");
        }
        assert!(Schema::open(&folder).unwrap_err().to_string().contains("no file"));
        std::fs::write(&file, " ".repeat((1 << 20) + 1)).unwrap();
        assert!(Schema::open(&file).unwrap_err().to_string().contains("larger than"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
