//! Avro: schemas (specification 1.12, "Schema Declaration") and data in binary encoding, without a header. It is written here, as
//! the library of Apache bounds neither the depth of a datum nor its values.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

/// Deepest nesting of a datum, and of a schema.
const MAX_DEPTH: usize = 64;
/// Most types of a schema.
const MAX_TYPES: usize = 10_000;
/// Most values of a datum, of all levels. A value may take no byte, so the size of a payload bounds nothing.
const MAX_VALUES: usize = 100_000;

/// Why a schema cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum AvroSchemaError {
    #[error("it is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("it has more than {MAX_TYPES} types")]
    TooManyTypes,
    #[error("`{0}` is no type")]
    NotType(Value),
    #[error("there is no type `{0}`")]
    Unknown(String),
    #[error("a {kind} has no `{member}` as {wanted}")]
    Missing { kind: String, member: &'static str, wanted: &'static str },
    #[error("two types have the name `{0}`")]
    Twice(String),
}

/// Why bytes are no datum of a schema.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatumError {
    #[error("it is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("it has more than {MAX_VALUES} values")]
    TooManyValues,
    #[error("it ends too early")]
    TooEarly,
    #[error("{0} bytes are left over")]
    LeftOver(usize),
    #[error("a boolean is {0}")]
    Boolean(u8),
    #[error("an int has more than 32 bits")]
    Int,
    #[error("a number has more than 64 bits")]
    Long,
    #[error("a number is not finite")]
    NotFinite,
    #[error("a string is not UTF-8")]
    NotText,
    #[error("a length is {0}")]
    Length(i64),
    #[error("there is no choice {number} of {count}")]
    Choice { number: i64, count: usize },
}

/// The place of a type in its schema.
type Id = usize;

#[derive(Debug)]
enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    /// A number of bytes.
    Fixed(usize),
    Enum(Vec<String>),
    Array(Id),
    Map(Id),
    Union(Vec<Id>),
    Record(Vec<(String, Id)>),
}

/// A schema.
#[derive(Debug)]
pub(super) struct AvroSchema {
    types: Vec<Type>,
    root: Id,
}

impl AvroSchema {
    /// Reads the JSON of a schema.
    ///
    /// # Errors
    /// When it is not one.
    pub(super) fn new(value: &Value) -> Result<Self, AvroSchemaError> {
        let mut parser = Parser::default();
        let root = parser.parse(value, "", 0)?;
        Ok(Self { types: parser.types, root })
    }

    /// Reads a datum. Bytes become base64.
    ///
    /// # Errors
    /// When the bytes are not exactly a datum of this schema.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Value, DatumError> {
        let mut reader = DatumReader { types: &self.types, rest: bytes, values: MAX_VALUES };
        let value = reader.value(self.root, 0)?;
        if reader.rest.is_empty() { Ok(value) } else { Err(DatumError::LeftOver(reader.rest.len())) }
    }
}

#[derive(Default)]
struct Parser {
    types: Vec<Type>,
    names: HashMap<String, Id>,
}

impl Parser {
    fn parse(&mut self, value: &Value, namespace: &str, depth: usize) -> Result<Id, AvroSchemaError> {
        if depth > MAX_DEPTH {
            return Err(AvroSchemaError::TooDeep);
        }
        match value {
            Value::String(name) => match primitive(name) {
                Some(primitive) => self.add(primitive),
                None => self.named(name, namespace),
            },
            Value::Array(of) => {
                let of = of.iter().map(|one| self.parse(one, namespace, depth + 1)).collect::<Result<_, _>>()?;
                self.add(Type::Union(of))
            }
            Value::Object(fields) => self.object(fields, namespace, depth + 1),
            other => Err(AvroSchemaError::NotType(other.clone())),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, namespace: &str, depth: usize) -> Result<Id, AvroSchemaError> {
        let kind = fields.get("type").ok_or_else(|| missing("type", "type", "a type"))?;
        let name = kind.as_str().unwrap_or("type");
        let member = |member| fields.get(member).ok_or_else(|| missing(name, member, "a type"));
        let list = |member| {
            let list = fields.get(member).and_then(Value::as_array);
            list.ok_or_else(|| missing(name, member, "an array"))
        };
        match kind.as_str() {
            Some("array") => {
                let items = self.parse(member("items")?, namespace, depth)?;
                self.add(Type::Array(items))
            }
            Some("map") => {
                let values = self.parse(member("values")?, namespace, depth)?;
                self.add(Type::Map(values))
            }
            Some("fixed") => {
                let size = fields.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
                let id = self.add(Type::Fixed(size.ok_or_else(|| missing(name, "size", "a number"))?))?;
                self.name(fields, namespace, id).map(|_| id)
            }
            Some("enum") => {
                let text = |symbol: &Value| {
                    symbol.as_str().map(str::to_owned).ok_or_else(|| missing(name, "symbols", "an array of texts"))
                };
                let id = self.add(Type::Enum(list("symbols")?.iter().map(text).collect::<Result<_, _>>()?))?;
                self.name(fields, namespace, id).map(|_| id)
            }
            Some("record" | "error") => {
                // A field may be of the record itself.
                let id = self.add(Type::Record(Vec::new()))?;
                let namespace = self.name(fields, namespace, id)?;
                let field = |field: &Value| {
                    let name = field.get("name").and_then(Value::as_str);
                    let name = name.ok_or_else(|| missing("field", "name", "a text"))?;
                    let kind = field.get("type").ok_or_else(|| missing("field", "type", "a type"))?;
                    Ok::<_, AvroSchemaError>((name.to_owned(), self.parse(kind, &namespace, depth)?))
                };
                let all = list("fields")?;
                self.types[id] = Type::Record(all.iter().map(field).collect::<Result<_, _>>()?);
                Ok(id)
            }
            // A type with attributes, such as a logical type.
            _ => self.parse(kind, namespace, depth),
        }
    }

    fn add(&mut self, kind: Type) -> Result<Id, AvroSchemaError> {
        if self.types.len() >= MAX_TYPES {
            return Err(AvroSchemaError::TooManyTypes);
        }
        self.types.push(kind);
        Ok(self.types.len() - 1)
    }

    /// Gives a type its full name, and returns the namespace of the types in it.
    fn name(&mut self, fields: &Map<String, Value>, namespace: &str, id: Id) -> Result<String, AvroSchemaError> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let kind = text("type").unwrap_or_default();
        let name = text("name").ok_or_else(|| missing(kind, "name", "a text"))?;
        let full = full_name(name, text("namespace").unwrap_or(namespace));
        let inner = full.rsplit_once('.').map_or("", |(space, _)| space).to_owned();
        if self.names.insert(full.clone(), id).is_some() {
            return Err(AvroSchemaError::Twice(full));
        }
        Ok(inner)
    }

    fn named(&self, name: &str, namespace: &str) -> Result<Id, AvroSchemaError> {
        let known = self.names.get(&full_name(name, namespace)).or_else(|| self.names.get(name));
        known.copied().ok_or_else(|| AvroSchemaError::Unknown(name.to_owned()))
    }
}

fn missing(kind: &str, member: &'static str, wanted: &'static str) -> AvroSchemaError {
    AvroSchemaError::Missing { kind: kind.to_owned(), member, wanted }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn primitive(name: &str) -> Option<Type> {
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" => Type::Int,
        "long" => Type::Long,
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "string" => Type::Text,
        _ => return None,
    })
}

struct DatumReader<'a> {
    types: &'a [Type],
    rest: &'a [u8],
    /// Values that the datum may still have.
    values: usize,
}

impl<'a> DatumReader<'a> {
    fn value(&mut self, id: Id, depth: usize) -> Result<Value, DatumError> {
        if depth > MAX_DEPTH {
            return Err(DatumError::TooDeep);
        }
        self.values = self.values.checked_sub(1).ok_or(DatumError::TooManyValues)?;
        let types = self.types;
        Ok(match &types[id] {
            Type::Null => Value::Null,
            Type::Boolean => match self.take(1)?[0] {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => return Err(DatumError::Boolean(other)),
            },
            Type::Int => i32::try_from(self.long()?).map_err(|_| DatumError::Int)?.into(),
            Type::Long => self.long()?.into(),
            Type::Float => number(f64::from(f32::from_le_bytes(self.array()?)))?,
            Type::Double => number(f64::from_le_bytes(self.array()?))?,
            Type::Bytes => STANDARD.encode(self.sized()?).into(),
            Type::Fixed(size) => STANDARD.encode(self.take(*size)?).into(),
            Type::Text => self.text()?.into(),
            Type::Enum(symbols) => self.choice(symbols)?.as_str().into(),
            Type::Union(of) => {
                let chosen = *self.choice(of)?;
                self.value(chosen, depth + 1)?
            }
            Type::Array(items) => {
                let mut all = Vec::new();
                self.blocks(|reader| {
                    all.push(reader.value(*items, depth + 1)?);
                    Ok(())
                })?;
                Value::Array(all)
            }
            Type::Map(values) => {
                let mut all = Map::new();
                self.blocks(|reader| {
                    let name = reader.text()?.to_owned();
                    all.insert(name, reader.value(*values, depth + 1)?);
                    Ok(())
                })?;
                Value::Object(all)
            }
            Type::Record(fields) => {
                let mut all = Map::new();
                for (name, field) in fields {
                    all.insert(name.clone(), self.value(*field, depth + 1)?);
                }
                Value::Object(all)
            }
        })
    }

    /// Reads the elements of the blocks of an array or a map.
    fn blocks(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), DatumError>) -> Result<(), DatumError> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // The bytes of the block, for readers that skip it.
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                read(self)?;
            }
        }
    }

    fn choice<T>(&mut self, of: &'a [T]) -> Result<&'a T, DatumError> {
        let number = self.long()?;
        let chosen = usize::try_from(number).ok().and_then(|at| of.get(at));
        chosen.ok_or(DatumError::Choice { number, count: of.len() })
    }

    fn text(&mut self) -> Result<&'a str, DatumError> {
        std::str::from_utf8(self.sized()?).map_err(|_| DatumError::NotText)
    }

    fn sized(&mut self) -> Result<&'a [u8], DatumError> {
        let len = self.long()?;
        self.take(usize::try_from(len).map_err(|_| DatumError::Length(len))?)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DatumError> {
        self.take(N)?.try_into().map_err(|_| DatumError::TooEarly)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DatumError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DatumError::TooEarly)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number of variable length, with its sign in the lowest bit.
    fn long(&mut self) -> Result<i64, DatumError> {
        let mut bits = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            bits |= part << shift;
            if byte & 0x80 == 0 {
                return Ok((bits >> 1).cast_signed() ^ -((bits & 1).cast_signed()));
            }
        }
        Err(DatumError::Long)
    }
}

fn number(value: f64) -> Result<Value, DatumError> {
    Number::from_f64(value).map(Value::Number).ok_or(DatumError::NotFinite)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema(value: &Value) -> AvroSchema {
        AvroSchema::new(value).unwrap()
    }

    fn reading() -> AvroSchema {
        schema(&json!({ "type": "record", "name": "Reading", "fields": [
            { "name": "temp", "type": "double" },
            { "name": "unit", "type": ["null", "string"] },
            { "name": "raw", "type": "bytes" },
            { "name": "tags", "type": { "type": "array", "items": "int" } },
        ] }))
    }

    /// 21.5, "C", [1, 2], [7, -8] as the specification encodes them.
    fn bytes() -> Vec<u8> {
        let mut bytes = 21.5_f64.to_le_bytes().to_vec();
        bytes.extend([2, 2, b'C', 4, 1, 2, 4, 14, 15, 0]);
        bytes
    }

    #[test]
    fn a_datum_becomes_json() {
        let value = json!({ "temp": 21.5, "unit": "C", "raw": "AQI=", "tags": [7, -8] });
        assert_eq!(reading().decode(&bytes()).unwrap(), value);
        for (kind, bytes, value) in [
            (json!("int"), &[1_u8][..], json!(-1)),
            (json!("long"), &[0x80, 0x01], json!(64)),
            (json!("long"), &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], json!(i64::MIN)),
            (json!("float"), &[0, 0, 0xc0, 0x3f], json!(1.5)),
            (json!("string"), &[6, b'f', b'o', b'o'], json!("foo")),
            (json!({ "type": "long", "logicalType": "timestamp-millis" }), &[2], json!(1)),
            (json!({ "type": "fixed", "name": "F", "size": 2 }), &[1, 2], json!("AQI=")),
            (json!({ "type": "enum", "name": "E", "symbols": ["A", "B"] }), &[2], json!("B")),
            (json!({ "type": "map", "values": "boolean" }), &[2, 2, b'k', 1, 0], json!({ "k": true })),
            // A block with its size, and one without.
            (json!({ "type": "array", "items": "int" }), &[1, 2, 2, 2, 4, 0], json!([1, 2])),
        ] {
            assert_eq!(schema(&kind).decode(bytes).unwrap(), value, "{kind}");
        }
    }

    #[test]
    fn named_types_are_found_in_their_namespace() {
        let schema = schema(&json!({ "type": "record", "name": "List", "namespace": "a.b", "fields": [
            { "name": "unit", "type": { "type": "enum", "name": "Unit", "symbols": ["C"] } },
            { "name": "other", "type": "a.b.Unit" },
            { "name": "next", "type": ["null", "List"] },
        ] }));
        let end = json!({ "unit": "C", "other": "C", "next": null });
        assert_eq!(schema.decode(&[0, 0, 2, 0, 0, 0]).unwrap(), json!({ "unit": "C", "other": "C", "next": end }));
        let deep: Vec<u8> = std::iter::repeat_n([0, 0, 2], 100_000).flatten().collect();
        assert!(schema.decode(&deep).unwrap_err().to_string().contains("deep"));
    }

    #[test]
    fn bytes_that_are_no_datum_are_refused() {
        for end in 0..bytes().len() {
            assert!(reading().decode(&bytes()[..end]).is_err(), "{end}");
        }
        assert!(reading().decode(&[&bytes()[..], &[0]].concat()).unwrap_err().to_string().contains("left over"));
        for (kind, bytes, said) in [
            (json!("double"), &f64::NAN.to_le_bytes()[..], "finite"),
            (json!("boolean"), &[2], "boolean"),
            (json!("int"), &[0x80, 0x80, 0x80, 0x80, 0x20], "32 bits"),
            (json!("long"), &[0xff; 10], "64 bits"),
            (json!("string"), &[1], "length"),
            (json!("string"), &[2, 0xff], "UTF-8"),
            (json!(["null"]), &[2], "choice"),
            // A million values without a byte.
            (json!({ "type": "array", "items": "null" }), &[0x80, 0x89, 0x7a, 0], "100000 values"),
        ] {
            let error = schema(&kind).decode(bytes).unwrap_err().to_string();
            assert!(error.contains(said), "{kind}: {error}");
        }
    }

    #[test]
    fn a_wrong_schema_is_refused() {
        let nested = (0..100).fold(json!("int"), |inner, _| json!({ "type": "array", "items": inner }));
        for (value, said) in [
            (json!(5), "no type"),
            (json!("rekord"), "no type `rekord`"),
            (json!({ "items": "int" }), "no `type`"),
            (json!({ "type": "array" }), "no `items`"),
            (json!({ "type": "record", "fields": [] }), "no `name`"),
            (json!({ "type": "record", "name": "R", "fields": [{ "name": "a" }] }), "no `type`"),
            (json!({ "type": "fixed", "name": "F", "size": -1 }), "size"),
            (
                json!([{ "type": "fixed", "name": "F", "size": 1 }, { "type": "fixed", "name": "F", "size": 1 }]),
                "two types",
            ),
            (nested, "deep"),
            (Value::Array(vec![json!("int"); MAX_TYPES]), "types"),
        ] {
            let error = AvroSchema::new(&value).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = reading().decode(&bytes);
        }
    }
}
