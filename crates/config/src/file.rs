//! Reads a configuration file: TOML with the place of everything in it.

use std::collections::BTreeMap;
use std::ops::Range;

use tidegate_document::{Spanned, Table, Value};

use super::finding::Findings;
use super::key::SectionKeys;
use super::path::{KeyPath, known_key, unknown_key_anywhere};
use super::sections::section_keys;
use super::source::{FileText, Source};
use super::value::{Problem, Raw};

/// A value of a file that goes to a key.
pub(crate) struct Entry {
    pub path: KeyPath,
    pub raw: Raw,
    /// The bytes of the value.
    pub span: Range<usize>,
}

/// The entries of a file, as far as it could be parsed.
#[derive(Default)]
pub(crate) struct Entries {
    /// The values.
    pub list: Vec<Entry>,
    /// How many there are of each section that may stand several times; one without any key counts, too.
    pub repeated: BTreeMap<&'static str, usize>,
}

/// Reads the values of a file. An unknown key is a finding.
pub(crate) fn read(file: &FileText, findings: &mut Findings) -> Entries {
    let (table, faults) = file.parse();
    if !faults.is_empty()
        && let Some(place) = tidegate_mosquitto_conf::first_key(&file.text)
    {
        let problem = Problem::new("this reads like a configuration of Mosquitto, and not like one of ours");
        let hint = format!("`tidegate config convert {} -o tidegate.toml` makes one of ours of it", file.name);
        findings.push(problem.hint(hint), Source::File(place));
        return Entries::default();
    }
    for fault in &faults {
        findings.push(Problem::new(fault.message.as_str()), Source::File(fault.span.clone()));
    }
    let mut entries = Entries::default();
    if faults.is_empty() {
        for (name, value) in table.get_ref() {
            read_section(name, value, &mut entries, findings);
        }
        entries.list.sort_by_key(|entry| entry.span.start);
    }
    entries
}

type Name<'text> = Spanned<std::borrow::Cow<'text, str>>;

fn read_section(name: &Name<'_>, value: &Spanned<Value<'_>>, entries: &mut Entries, findings: &mut Findings) {
    let Some(section) = section_keys(name.get_ref()) else {
        findings.push(unknown_key_anywhere(name.get_ref()), Source::File(name.span()));
        return;
    };
    match value.get_ref() {
        Value::Table(table) if !section.repeated => {
            read_keys(section, 0, table, entries, findings);
        }
        Value::Array(tables) if section.repeated => {
            for (index, element) in tables.iter().enumerate() {
                match element.get_ref() {
                    Value::Table(table) => read_keys(section, index, table, entries, findings),
                    _ => findings.push(misshapen(section), Source::File(element.span())),
                }
            }
            entries.repeated.insert(section.name, tables.len());
        }
        _ => findings.push(misshapen(section), Source::File(name.span())),
    }
}

fn misshapen(section: &SectionKeys) -> Problem {
    let header = section.header();
    Problem::new(format!("`{}` must be a section headed {header}", section.name))
        .hint(format!("write {header} on a line of its own, and the keys below it"))
}

fn read_keys(
    section: &'static SectionKeys,
    index: usize,
    table: &Table<'_>,
    entries: &mut Entries,
    findings: &mut Findings,
) {
    for (name, value) in table {
        match known_key(section, name.get_ref()) {
            Ok(key) => entries.list.push(Entry {
                path: KeyPath { section: section.name, index, key: key.name },
                raw: raw(value.get_ref()),
                span: value.span(),
            }),
            Err(problem) => findings.push(problem, Source::File(name.span())),
        }
    }
}

fn raw(value: &Value<'_>) -> Raw {
    match value {
        Value::String(text) => Raw::Text(text.to_string()),
        Value::Boolean(truth) => Raw::Boolean(*truth),
        Value::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Raw::Other("a number beyond 64 bits"), Raw::Integer),
        Value::Float(_) => Raw::Other("a number with a fraction"),
        Value::Datetime(_) => Raw::Other("a date or time"),
        Value::Array(values) => {
            let text = |value: &Spanned<Value<'_>>| match value.get_ref() {
                Value::String(text) => Some(text.to_string()),
                _ => None,
            };
            values.iter().map(text).collect::<Option<_>>().map_or(Raw::Other("a list"), Raw::List)
        }
        Value::Table(_) => Raw::Other("a table"),
    }
}
