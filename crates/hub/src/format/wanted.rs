//! The parts of a payload that expressions look at. Only these become values; the rest is read and checked.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The wanted parts of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The whole value.
    All,
    /// These fields, if it is an object.
    Fields(Vec<(String, Wanted)>),
}

impl Wanted {
    /// No part.
    pub(crate) fn nothing() -> Self {
        Self::Fields(Vec::new())
    }

    /// Adds the value at a path of fields.
    pub(crate) fn add<'a>(&mut self, mut path: impl Iterator<Item = &'a str>) {
        let Self::Fields(fields) = self else { return };
        let Some(name) = path.next() else {
            *self = Self::All;
            return;
        };
        let at = fields.iter().position(|(known, _)| known == name).unwrap_or(fields.len());
        if at == fields.len() {
            fields.push((name.to_owned(), Self::nothing()));
        }
        if let Some((_, field)) = fields.get_mut(at) {
            field.add(path);
        }
    }
}

/// Reads a value, and keeps the wanted parts. An object without its other fields stays an object; other values that are
/// not wanted become null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartReader<'w> {
    wanted: Option<&'w Wanted>,
    /// Levels of arrays and objects that may come.
    levels: usize,
}

impl<'w> PartReader<'w> {
    /// A value with at most this number of levels of arrays and objects.
    pub(crate) fn new(wanted: &'w Wanted, levels: usize) -> Self {
        Self { wanted: Some(wanted), levels }
    }

    fn below<E: Error>(self, wanted: Option<&'w Wanted>) -> Result<Self, E> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Self { wanted, levels }),
            None => Err(too_deep()),
        }
    }
}

fn too_deep<E: Error>() -> E {
    E::custom("it is nested too deep")
}

impl<'de> DeserializeSeed<'de> for PartReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.wanted != Some(&Wanted::All) {
            return deserializer.deserialize_any(self);
        }
        let value: Value = serde::Deserialize::deserialize(deserializer)?;
        if is_within(&value, self.levels) { Ok(value) } else { Err(too_deep()) }
    }
}

impl<'de> Visitor<'de> for PartReader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let item = self.below(None)?;
        while items.next_element_seed(item)?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let fields = match self.wanted {
            Some(Wanted::Fields(fields)) => fields.as_slice(),
            _ => &[],
        };
        let mut found = Map::new();
        while let Some(at) = entries.next_key_seed(FieldFinder(fields))? {
            let field = at.and_then(|at| fields.get(at));
            let value = entries.next_value_seed(self.below(field.map(|(_, wanted)| wanted))?)?;
            if let Some((name, _)) = field {
                found.insert(name.clone(), value);
            }
        }
        Ok(Value::Object(found))
    }
}

/// Reads the name of a field, and looks for it among the wanted ones.
struct FieldFinder<'w>(&'w [(String, Wanted)]);

impl<'de> DeserializeSeed<'de> for FieldFinder<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldFinder<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|(wanted, _)| wanted == name))
    }
}

/// True if a value has at most this number of levels of arrays and objects.
pub(super) fn is_within(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return !value.is_array() && !value.is_object() };
    match value {
        Value::Array(items) => items.iter().all(|item| is_within(item, left)),
        Value::Object(fields) => fields.values().all(|value| is_within(value, left)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::format::Format;

    fn wanted(paths: &[&str]) -> Wanted {
        let mut wanted = Wanted::nothing();
        for path in paths {
            wanted.add(path.split('.').filter(|name| !name.is_empty()));
        }
        wanted
    }

    #[test]
    fn only_wanted_parts_of_a_payload_become_values() {
        let payload = json!({ "a": 1, "b": { "c": [1, { "x": 2 }], "d": "e" }, "f": [[]], "g": null });
        let text = payload.to_string();
        let packed = rmp_serde::to_vec_named(&payload).unwrap();
        let mut cbor = Vec::new();
        ciborium::into_writer(&payload, &mut cbor).unwrap();
        let read = |paths: &[&str]| {
            let wanted = wanted(paths);
            let value = Format::Json.decode_parts(text.as_bytes(), &wanted).unwrap();
            assert_eq!(Format::MessagePack.decode_parts(&packed, &wanted).unwrap(), value);
            let whole = Format::Cbor.decode_parts(&cbor, &wanted).unwrap();
            for path in paths {
                let pointer = format!("/{}", path.replace('.', "/"));
                assert!(path.is_empty() || whole.pointer(&pointer) == value.pointer(&pointer), "{path}");
            }
            value
        };
        assert_eq!(read(&[]), json!({}));
        assert_eq!(read(&["a", "b.d", "z"]), json!({ "a": 1, "b": { "d": "e" } }));
        assert_eq!(read(&["b.c.x", "f"]), json!({ "b": { "c": null }, "f": [[]] }));
        assert_eq!(read(&["b", "b.c"]), json!({ "b": payload["b"] }));
        assert_eq!(read(&["b.c", "b"]), json!({ "b": payload["b"] }));
        assert_eq!(read(&["a", ""]), payload);
    }

    #[test]
    fn a_payload_is_checked_where_it_is_not_wanted() {
        let read = |text: &[u8]| Format::Json.decode_parts(text, &wanted(&["a"]));
        assert_eq!(read(br#"{"a":1,"a":2}"#).unwrap(), json!({ "a": 2 }));
        assert_eq!(read(br#"[{"a":1}]"#).unwrap(), Value::Null);
        let nested = |levels: usize| format!("{{\"b\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(nested(63).as_bytes()).is_ok());
        let of_whole = |text: &[u8]| Format::Json.decode(text).is_err();
        let deep = nested(64);
        for text in [&b"{"[..], b"", b"{} x", b"{\"b\":1e999}", b"{\"b\":\"\xff\"}", b"{\"b\":tru}", deep.as_bytes()] {
            assert!(read(text).is_err() && of_whole(text), "{}", String::from_utf8_lossy(text));
        }
    }
}
