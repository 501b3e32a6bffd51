//! Parquet: files of columns, uncompressed and in plain encoding, which every reader of the format knows. A column has
//! the type of its values; a missing field is null. Rows of a file are written in groups, so memory is bounded by a group.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value};

const MAGIC: &[u8] = b"PAR1";
/// Rows of a group, at most.
const MAX_ROWS: usize = 50_000;
/// Bytes of lines whose rows are one group, about.
const MAX_GROUP_BYTES: usize = 32 << 20;

/// A row: fields by their names.
pub(super) type Row = Map<String, Value>;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Whole,
    Real,
    Text,
    /// Any value as text in JSON.
    Json,
}

impl Kind {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Self::Boolean),
            Value::Number(number) => Some(if number.is_i64() { Self::Whole } else { Self::Real }),
            Value::String(_) => Some(Self::Text),
            Value::Array(_) | Value::Object(_) => Some(Self::Json),
        }
    }

    /// The type that holds the values of both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Whole, Self::Real) | (Self::Real, Self::Whole) => Self::Real,
            _ => Self::Json,
        }
    }

    /// Its number in the format.
    fn physical(self) -> i64 {
        match self {
            Self::Boolean => 0,
            Self::Whole => 2,
            Self::Real => 5,
            Self::Text | Self::Json => 6,
        }
    }

    /// The meaning of its bytes: 0 is text, 19 is JSON.
    fn converted(self) -> Option<i64> {
        match self {
            Self::Text => Some(0),
            Self::Json => Some(19),
            Self::Boolean | Self::Whole | Self::Real => None,
        }
    }
}

/// Columns by their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema(BTreeMap<String, Option<Kind>>);

impl Schema {
    /// Adds the fields of a row.
    pub(super) fn note(&mut self, row: &Row) {
        for (name, value) in row {
            let kind = Kind::of(value);
            let known = self.0.entry(name.clone()).or_default();
            *known = match (*known, kind) {
                (Some(known), Some(kind)) => Some(known.with(kind)),
                (known, kind) => known.or(kind),
            };
        }
    }

    /// A column without any value is one of text.
    fn columns(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.0.iter().map(|(name, kind)| (name.as_str(), kind.unwrap_or(Kind::Text)))
    }
}

/// A file that is being written.
pub(super) struct ParquetWriter<W> {
    out: W,
    offset: i64,
    schema: Schema,
    rows: i64,
    groups: Vec<Group>,
}

struct Group {
    rows: i64,
    /// Where the page of each column begins, and its bytes.
    chunks: Vec<(i64, i64)>,
}

impl<W: Write> ParquetWriter<W> {
    pub(super) fn new(mut out: W, schema: Schema) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out, offset: signed(MAGIC.len()), schema, rows: 0, groups: Vec::new() })
    }

    /// Writes rows whose fields the schema knows.
    pub(super) fn write(&mut self, rows: &[Row]) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let count = signed(rows.len());
        let mut group = Group { rows: count, chunks: Vec::new() };
        for (name, kind) in self.schema.columns() {
            let page = page(kind, rows.iter().map(|row| row.get(name).unwrap_or(&Value::Null)));
            let mut header = Thrift::default();
            header.number(1, I32, 0);
            header.number(2, I32, signed(page.len()));
            header.number(3, I32, signed(page.len()));
            header.structure(5, |header| {
                header.number(1, I32, count);
                // Values are plain, and levels are run lengths.
                header.number(2, I32, 0);
                header.number(3, I32, 3);
                header.number(4, I32, 3);
            });
            let header = header.end();
            self.out.write_all(&header)?;
            self.out.write_all(&page)?;
            let len = signed(header.len() + page.len());
            group.chunks.push((self.offset, len));
            self.offset += len;
        }
        self.rows += count;
        self.groups.push(group);
        Ok(())
    }

    /// Writes what readers begin with.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let footer = self.footer();
        self.out.write_all(&footer)?;
        self.out.write_all(&(footer.len() as u32).to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        Ok(self.out)
    }

    fn footer(&self) -> Vec<u8> {
        let mut footer = Thrift::default();
        footer.number(1, I32, 1);
        let root = |root: &mut Thrift| {
            root.bytes(4, b"record");
            root.number(5, I32, signed(self.schema.0.len()));
        };
        let elements = self.schema.columns().map(|(name, kind)| {
            move |element: &mut Thrift| {
                element.number(1, I32, kind.physical());
                // Optional.
                element.number(3, I32, 1);
                element.bytes(4, name.as_bytes());
                if let Some(converted) = kind.converted() {
                    element.number(6, I32, converted);
                }
            }
        });
        let mut list = vec![Thrift::of(root)];
        list.extend(elements.map(Thrift::of));
        footer.list(2, STRUCT, &list);
        footer.number(3, I64, self.rows);
        let groups: Vec<Vec<u8>> = self.groups.iter().map(|group| self.group(group)).collect();
        footer.list(4, STRUCT, &groups);
        footer.bytes(6, concat!("tidegate version ", env!("CARGO_PKG_VERSION")).as_bytes());
        footer.end()
    }

    fn group(&self, group: &Group) -> Vec<u8> {
        let chunk = |((name, kind), (offset, len)): ((&str, Kind), &(i64, i64))| {
            Thrift::of(|chunk| {
                chunk.number(2, I64, *offset);
                chunk.structure(3, |column| {
                    column.number(1, I32, kind.physical());
                    column.list(2, I32, &[zigzag(0), zigzag(3)]);
                    column.list(3, BINARY, &[prefixed(name.as_bytes())]);
                    // Not compressed.
                    column.number(4, I32, 0);
                    column.number(5, I64, group.rows);
                    column.number(6, I64, *len);
                    column.number(7, I64, *len);
                    column.number(9, I64, *offset);
                });
            })
        };
        let chunks: Vec<Vec<u8>> = self.schema.columns().zip(&group.chunks).map(chunk).collect();
        Thrift::of(|out| {
            out.list(1, STRUCT, &chunks);
            out.number(2, I64, group.chunks.iter().map(|(_, len)| len).sum());
            out.number(3, I64, group.rows);
        })
    }
}

/// The page of a column: which values are there, and then these.
fn page<'a>(kind: Kind, values: impl Iterator<Item = &'a Value> + Clone) -> Vec<u8> {
    let is_there = bits(values.clone().map(|value| !value.is_null()));
    // One run of bits, in groups of eight.
    let mut levels = varint((is_there.len() as u64) << 1 | 1);
    levels.extend_from_slice(&is_there);
    let mut page = (levels.len() as u32).to_le_bytes().to_vec();
    page.extend_from_slice(&levels);
    let values = values.filter(|value| !value.is_null());
    if kind == Kind::Boolean {
        page.extend(bits(values.map(|value| value == &Value::Bool(true))));
        return page;
    }
    for value in values {
        match (kind, value) {
            (Kind::Whole, value) => page.extend_from_slice(&value.as_i64().unwrap_or_default().to_le_bytes()),
            (Kind::Real, value) => page.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes()),
            (Kind::Text, Value::String(text)) => counted(text.as_bytes(), &mut page),
            (_, value) => counted(value.to_string().as_bytes(), &mut page),
        }
    }
    page
}

fn counted(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Truth values as bits, the first one lowest.
fn bits(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, value) in values.enumerate() {
        if at % 8 == 0 {
            out.push(0);
        }
        if let Some(last) = out.last_mut() {
            *last |= u8::from(value) << (at % 8);
        }
    }
    out
}

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A structure in the compact protocol of Thrift. Fields come in the order of their numbers.
#[derive(Debug, Default)]
struct Thrift {
    out: Vec<u8>,
    last: u8,
}

impl Thrift {
    fn of(write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut structure = Self::default();
        write(&mut structure);
        structure.end()
    }

    fn field(&mut self, number: u8, kind: u8) {
        self.out.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn number(&mut self, field: u8, kind: u8, number: i64) {
        self.field(field, kind);
        self.out.extend(zigzag(number));
    }

    fn bytes(&mut self, field: u8, bytes: &[u8]) {
        self.field(field, BINARY);
        self.out.extend(prefixed(bytes));
    }

    fn structure(&mut self, field: u8, write: impl FnOnce(&mut Self)) {
        self.field(field, STRUCT);
        self.out.extend(Self::of(write));
    }

    /// A list of elements that are encoded.
    fn list(&mut self, field: u8, kind: u8, elements: &[Vec<u8>]) {
        self.field(field, LIST);
        match u8::try_from(elements.len()) {
            Ok(len) if len < 15 => self.out.push(len << 4 | kind),
            _ => {
                self.out.push(0xf0 | kind);
                self.out.extend(varint(elements.len() as u64));
            }
        }
        for element in elements {
            self.out.extend_from_slice(element);
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.out.push(0);
        self.out
    }
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn prefixed(bytes: &[u8]) -> Vec<u8> {
    let mut out = varint(bytes.len() as u64);
    out.extend_from_slice(bytes);
    out
}

fn zigzag(number: i64) -> Vec<u8> {
    varint(((number << 1) ^ (number >> 63)).cast_unsigned())
}

fn varint(mut rest: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

/// Makes a Parquet file of a file of lines of JSON, and syncs it. Lines that cannot be read go to the file `aside`.
pub(super) fn convert(lines: &Path, to: &Path, aside: &Path) -> io::Result<()> {
    let mut schema = Schema::default();
    let mut unreadable = Unreadable { path: aside, file: None, lines: 0 };
    let note = |rows: &[Row]| {
        for row in rows {
            schema.note(row);
        }
        Ok(())
    };
    each_group(lines, note, |line| unreadable.add(line))?;
    unreadable.finish()?;
    let mut writer = ParquetWriter::new(BufWriter::new(File::create(to)?), schema)?;
    each_group(lines, |rows| writer.write(rows), |_| Ok(()))?;
    let file = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// Lines that cannot be read, in a file that is made with the first of them.
struct Unreadable<'a> {
    path: &'a Path,
    file: Option<BufWriter<File>>,
    lines: u64,
}

impl Unreadable<'_> {
    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufWriter::new(File::create(self.path)?)),
        };
        self.lines += 1;
        file.write_all(line)?;
        file.write_all(b"\n")
    }

    fn finish(self) -> io::Result<()> {
        let Some(file) = self.file else { return Ok(()) };
        let path = self.path.display();
        tracing::warn!(%path, lines = self.lines, "unreadable lines were written to this file, not to the Parquet file");
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

fn each_group(
    lines: &Path,
    mut take: impl FnMut(&[Row]) -> io::Result<()>,
    mut set_aside: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for line in BufReader::new(File::open(lines)?).split(b'\n') {
        let line = line?;
        match serde_json::from_slice(&line) {
            Ok(row) => rows.push(row),
            Err(_) => set_aside(&line)?,
        }
        bytes += line.len();
        if rows.len() >= MAX_ROWS || bytes >= MAX_GROUP_BYTES {
            take(&rows)?;
            rows.clear();
            bytes = 0;
        }
    }
    take(&rows)
}

/// Rows as a whole file.
pub(super) fn encode(rows: &[Row]) -> io::Result<Vec<u8>> {
    let mut schema = Schema::default();
    for row in rows {
        schema.note(row);
    }
    let mut writer = ParquetWriter::new(Vec::new(), schema)?;
    writer.write(rows)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(values: Value) -> Vec<Row> {
        serde_json::from_value(values).unwrap()
    }

    #[test]
    fn a_column_has_the_type_of_its_values() {
        let mut schema = Schema::default();
        let values = json!([
            { "b": true, "w": 1, "r": 1, "t": "x", "j": 1, "n": null, "big": u64::MAX },
            { "b": null, "w": -2, "r": 0.5, "j": "x", "o": {} },
        ]);
        for row in rows(values) {
            schema.note(&row);
        }
        let kinds: Vec<(&str, Kind)> = schema.columns().collect();
        assert_eq!(
            kinds,
            [
                ("b", Kind::Boolean),
                ("big", Kind::Real),
                ("j", Kind::Json),
                ("n", Kind::Text),
                ("o", Kind::Json),
                ("r", Kind::Real),
                ("t", Kind::Text),
                ("w", Kind::Whole),
            ]
        );
    }

    #[test]
    fn a_page_says_which_values_are_there() {
        let values = [json!("ab"), Value::Null, json!("")];
        assert_eq!(page(Kind::Text, values.iter()), b"\x02\0\0\0\x03\x05\x02\0\0\0ab\0\0\0\0");
        let values = [json!(true), json!(false), Value::Null, json!(true)];
        assert_eq!(page(Kind::Boolean, values.iter()), b"\x02\0\0\0\x03\x0b\x05");
        let values = [json!("x"), json!([1])];
        assert_eq!(page(Kind::Json, values.iter()), b"\x02\0\0\0\x03\x03\x03\0\0\0\"x\"\x03\0\0\0[1]");
    }

    #[test]
    fn a_file_is_equal_to_a_file_that_other_readers_read() {
        // Read by PyArrow, which e2e/test_hub_files.py has read others.
        let file = encode(&rows(json!([{ "n": 7 }]))).unwrap();
        let page = b"\x15\0\x15\x1c\x15\x1c\x2c\x15\x02\x15\0\x15\x06\x15\x06\0\0\x02\0\0\0\x03\x01\x07\0\0\0\0\0\0\0";
        assert_eq!(file[..4 + page.len()], [MAGIC, page].concat());
        let footer = &file[4 + page.len()..];
        let len = u32::from_le_bytes(footer[footer.len() - 8..footer.len() - 4].try_into().unwrap());
        assert_eq!((len as usize, &footer[footer.len() - 4..]), (footer.len() - 8, MAGIC));
        let schema = b"\x15\x02\x19\x2c\x48\x06record\x15\x02\0\x15\x04\x25\x02\x18\x01n\0\x16\x02\x19\x1c";
        assert_eq!(footer[..schema.len()], *schema);
    }

    #[test]
    fn a_list_of_many_elements_has_its_length_apart() {
        let mut many = Thrift::default();
        many.list(1, I32, &vec![zigzag(1); 15]);
        assert_eq!(many.end(), [&[0x19, 0xf5, 15][..], &[2; 15], &[0]].concat());
    }
}
