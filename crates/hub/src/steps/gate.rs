//! The check of a payload at the broker, before its publisher is acknowledged.

use std::sync::Arc;

use super::error::{MAX_GATED_PAYLOAD, MAX_GATED_VALUES};
use super::schema::PayloadSchema;
use super::values::count;
use super::{ComputeError, Part, StepError, StepSettings, Steps};
use crate::format::{Format, Wanted};

/// Longest reason of a refusal, characters. The rest is left out.
const MAX_REFUSAL: usize = 300;

/// Decides about payloads by the schema of a pipeline.
#[derive(Clone, Debug)]
pub struct PayloadGate {
    schema: Arc<PayloadSchema>,
    format: Format,
}

impl PayloadGate {
    /// Reads the schema of these steps; nothing without one.
    ///
    /// # Errors
    /// When the file cannot be read, or is no schema.
    pub fn open(settings: &StepSettings) -> Result<Option<Self>, (Part, StepError)> {
        let schema = Steps::schema_of(settings)?;
        Ok(schema.map(|schema| Self { schema: Arc::new(schema), format: settings.format }))
    }

    /// Why a payload is not accepted, for its publisher: the place of the fault and the expected value, in
    /// 300 characters at most, without control characters.
    pub fn refusal(&self, payload: &[u8]) -> Option<String> {
        let why = self.check(payload).err()?.to_string();
        let shown = |one: char| if tidegate_units::visible::is_hidden(one) { char::REPLACEMENT_CHARACTER } else { one };
        Some(why.chars().take(MAX_REFUSAL).map(shown).collect())
    }

    /// Checks a payload as the step `schema` does.
    ///
    /// # Errors
    /// When it is longer than `MAX_GATED_PAYLOAD`, has more than `MAX_GATED_VALUES` for a JSON Schema, or is not of the
    /// schema.
    pub fn check(&self, payload: &[u8]) -> Result<(), ComputeError> {
        if payload.len() > MAX_GATED_PAYLOAD {
            return Err(ComputeError::LongPayload);
        }
        match &*self.schema {
            PayloadSchema::Decoder(decoder) => decoder.decode(payload).map(drop),
            PayloadSchema::Json(schema) => {
                let value = self.format.decode_parts(payload, &Wanted::All)?;
                if count(&value) > MAX_GATED_VALUES {
                    return Err(ComputeError::ManyValues);
                }
                schema.check(&value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_checks_as_the_step_does_up_to_its_limit() {
        let folder = std::env::temp_dir().join(format!("tidegate-gate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (json, avro) = (folder.join("reading.json"), folder.join("reading.avsc"));
        std::fs::write(&json, r#"{"type":"object","required":["temp"]}"#).unwrap();
        std::fs::write(&avro, r#"{"type":"record","name":"r","fields":[{"name":"temp","type":"long"}]}"#).unwrap();
        let open = |schema: Option<&std::path::PathBuf>, format| {
            let settings = StepSettings { schema: schema.cloned(), format, ..StepSettings::default() };
            PayloadGate::open(&settings).unwrap()
        };
        assert!(open(None, Format::Json).is_none());
        let gate = open(Some(&json), Format::Json).unwrap();
        assert_eq!(gate.check(br#"{"temp":1}"#), Ok(()));
        for payload in [&b"{}"[..], b"", b"{", b"\xff", "[".repeat(1000).as_bytes()] {
            assert!(gate.check(payload).is_err(), "{payload:?}");
        }
        let filled = |len: usize| format!("{{\"temp\":\"{}\"}}", "x".repeat(len - 11)).into_bytes();
        assert_eq!(gate.check(&filled(MAX_GATED_PAYLOAD)), Ok(()));
        assert_eq!(gate.check(&filled(MAX_GATED_PAYLOAD + 1)), Err(ComputeError::LongPayload));
        let many = |count: usize| format!("{{\"temp\":[{}0]}}", "0,".repeat(count - 3)).into_bytes();
        assert_eq!(gate.check(&many(MAX_GATED_VALUES)), Ok(()));
        assert_eq!(gate.check(&many(MAX_GATED_VALUES + 1)), Err(ComputeError::ManyValues));
        let packed = open(Some(&json), Format::MessagePack).unwrap();
        assert_eq!(packed.check(b"\x81\xa4temp\x01"), Ok(()));
        assert!(packed.check(br#"{"temp":1}"#).is_err());
        assert_eq!(gate.refusal(br#"{"temp":"warm"}"#), None);
        assert_eq!(gate.refusal(b"[]").as_deref(), Some("the payload: want object, but got array"));
        std::fs::write(&json, r#"{"additionalProperties":false}"#).unwrap();
        let named = open(Some(&json), Format::Json).unwrap();
        let said = named.refusal(br#"{"a\u0000b":1}"#).unwrap();
        assert!(!said.chars().any(char::is_control), "{said:?}");
        let said = named.refusal(format!("{{\"{}\":1}}", "x".repeat(1000)).as_bytes()).unwrap();
        assert_eq!(said.chars().count(), MAX_REFUSAL);
        let gate = open(Some(&avro), Format::Json).unwrap();
        assert_eq!((gate.check(b"\x02"), gate.check(b"").is_err()), (Ok(()), true));
        std::fs::write(&json, "{").unwrap();
        let broken = StepSettings { schema: Some(json), ..StepSettings::default() };
        assert!(PayloadGate::open(&broken).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
