//! The keys of one table, each asked for by its name and type.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate_units::suggestion::nearest;
use tidegate_units::{duration, size};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value;
use super::{FileText, Findings};

impl FileText {
    /// Reads the whole file with a function that requests its keys. Keys that the function did not request are
    /// findings, too.
    ///
    /// # Errors
    /// All findings, in the order of the file.
    pub fn read<T>(&self, read: impl FnOnce(&mut Keys<'_>) -> Option<T>) -> Result<T, Findings> {
        let mut found = Findings::about(self);
        let (table, faults) = self.parse();
        for fault in faults {
            found.note(fault.span.start, fault.message, "correct the TOML there");
        }
        if !found.is_empty() {
            return Err(found);
        }
        let value = {
            let mut keys = Keys::of(table.get_ref(), String::new(), 0, &mut found);
            let value = read(&mut keys);
            keys.finish();
            value
        };
        match value {
            Some(value) if found.is_empty() => Ok(value),
            _ => Err(found.sorted()),
        }
    }
}

/// The keys of a table. A requested key that is missing is `None`; a wrong one is a finding and `None`; one that was
/// not requested is a finding when the table is finished.
#[derive(Debug)]
pub struct Keys<'a> {
    table: &'a DeTable<'a>,
    path: String,
    offset: usize,
    asked: BTreeSet<String>,
    findings: &'a mut Findings,
}

impl<'a> Keys<'a> {
    fn of(table: &'a DeTable<'a>, path: String, offset: usize, findings: &'a mut Findings) -> Self {
        Self { table, path, offset, asked: BTreeSet::new(), findings }
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Marks a key as known without reading it: its faults are reported elsewhere.
    pub fn leave(&mut self, key: &str) {
        self.asked.insert(key.to_owned());
    }

    /// The place of the table in the file, bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of entries of a list; 0 if the key is missing or no list.
    pub fn length(&self, key: &str) -> usize {
        self.table.get(key).and_then(|value| value.get_ref().as_array()).map_or(0, |list| list.len())
    }

    /// The names of all keys.
    pub fn names(&self) -> Vec<String> {
        self.table.iter().map(|(name, _)| name.get_ref().to_string()).collect()
    }

    /// Text that is not empty.
    pub fn text(&mut self, key: &str) -> Option<String> {
        self.value(key, "text in quotes, such as \"a\"", |value| {
            value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
        })
    }

    /// One of some words.
    pub fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        self.value(key, &expected, |value| {
            let text = value.as_str()?;
            words.iter().find(|(name, _)| *name == text).map(|(_, word)| *word)
        })
    }

    /// A whole number in a range.
    pub fn number(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        self.value(key, &expected, |value| value::integer(value).filter(|number| range.contains(number)))
    }

    /// A number in a range, with or without a fraction.
    pub fn fraction(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        self.value(key, &expected, |value| value::float(value).filter(|number| range.contains(number)))
    }

    /// A length of time with its unit, in a range.
    pub fn duration(&mut self, key: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let shown = |length: &Duration| duration::show_length(*length);
        let expected = format!("a duration such as \"15s\", from {} to {}", shown(range.start()), shown(range.end()));
        self.value(key, &expected, |value| {
            duration::parse_length(value.as_str()?).filter(|length| range.contains(length))
        })
    }

    /// An amount of memory with its unit, in a range of bytes.
    pub fn bytes(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let shown = [*range.start(), *range.end()].map(size::show);
        let expected = format!("a size such as \"512MiB\", from {} to {}", shown[0], shown[1]);
        self.value(key, &expected, |value| size::parse(value.as_str()?).filter(|bytes| range.contains(bytes)))
    }

    /// True or false.
    pub fn truth(&mut self, key: &str) -> Option<bool> {
        self.value(key, "true or false", value::truth)
    }

    /// A list of texts; a single text is a list of one.
    pub fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        self.value(key, "a list of texts, such as [\"a\", \"b\"]", value::texts)
    }

    /// A single text or a list of at least one and at most `most`, each with its place in the file, bytes.
    pub fn texts_with_places(&mut self, key: &str, most: usize) -> Option<Vec<(String, usize)>> {
        let list = self.read(key, "text or a list of texts, such as [\"a\", \"b\"]", value::texts_with_places)?;
        if list.is_empty() {
            self.refuse(key, "is empty", "name at least one, or leave the key out");
            return None;
        }
        if list.len() > most {
            self.refuse(key, &format!("has {} values, more than {most}", list.len()), "split it, or use placeholders");
            return None;
        }
        Some(list)
    }

    /// Converts the value of a key by `read`. Where `read` gives `None`, the finding says that the value must be `expected`.
    pub fn value<T>(&mut self, key: &str, expected: &str, read: impl FnOnce(&DeValue<'_>) -> Option<T>) -> Option<T> {
        self.read(key, expected, |value, _| read(value))
    }

    /// A table of texts, in the order of the file's names.
    pub fn text_table(&mut self, key: &str) -> Option<Vec<(String, String)>> {
        self.value(key, "a table of texts", value::text_table)
    }

    /// Reads an inner table.
    pub fn table<T>(&mut self, key: &str, read: impl FnOnce(&mut Keys<'_>) -> Option<T>) -> Option<T> {
        self.asked.insert(key.to_owned());
        let spanned = self.table.get(key)?;
        let path = self.full(key);
        let Some(table) = spanned.get_ref().as_table() else {
            let hint = format!("write [{path}] on a line of its own, and its keys below it");
            self.findings.note(spanned.span().start, format!("`{path}` must be a table"), hint);
            return None;
        };
        let mut keys = Keys::of(table, path, spanned.span().start, self.findings);
        let value = read(&mut keys);
        keys.finish();
        value
    }

    /// Reads each table of a list, `[[key]]`.
    pub fn tables<T>(&mut self, key: &str, mut read: impl FnMut(&mut Keys<'_>) -> Option<T>) -> Vec<T> {
        self.asked.insert(key.to_owned());
        let Some(spanned) = self.table.get(key) else { return Vec::new() };
        let path = self.full(key);
        let Some(list) = spanned.get_ref().as_array() else {
            let hint = format!("write [[{path}]] on a line of its own, and its keys below it");
            self.findings.note(spanned.span().start, format!("`{path}` must be a list of tables"), hint);
            return Vec::new();
        };
        let mut read_all = Vec::new();
        for element in list {
            let Some(table) = element.get_ref().as_table() else {
                self.findings.note(
                    element.span().start,
                    format!("`{path}` must hold tables"),
                    format!("write [[{path}]]"),
                );
                continue;
            };
            let mut keys = Keys::of(table, path.clone(), element.span().start, self.findings);
            read_all.extend(read(&mut keys));
            keys.finish();
        }
        read_all
    }

    /// A key that must be there: a finding when it is not.
    pub fn need<T>(&mut self, key: &str, example: &str, read: impl FnOnce(&mut Self, &str) -> Option<T>) -> Option<T> {
        if self.has(key) {
            return read(self, key);
        }
        self.asked.insert(key.to_owned());
        let message = format!("`{}` is missing", self.full(key));
        self.findings.note(self.offset, message, format!("add, for example, {key} = {example}"));
        None
    }

    /// Says that a key is wrong for a reason that its type does not show.
    pub fn refuse(&mut self, key: &str, problem: &str, hint: &str) {
        let offset = self.table.get(key).map_or(self.offset, |value| value.span().start);
        let message = format!("`{}` {problem}", self.full(key));
        self.findings.note(offset, message, hint);
    }

    /// Notes a fault of a part of a value, at its place in the file, bytes.
    pub fn note(&mut self, offset: usize, message: impl Into<String>, hint: impl Into<String>) {
        self.findings.note(offset, message, hint);
    }

    /// Reports each key that was not requested.
    fn finish(self) {
        for (name, _) in self.table {
            if self.asked.contains(name.get_ref().as_ref()) {
                continue;
            }
            let path = if self.path.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{}.{}", self.path, name.get_ref())
            };
            let known: Vec<&str> = self.asked.iter().map(String::as_str).collect();
            let near = nearest(name.get_ref(), known.iter().copied());
            let hint = near
                .map_or_else(|| format!("known here: {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
            self.findings.note(name.span().start, format!("unknown key `{path}`"), hint);
        }
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn read<T>(&mut self, key: &str, expected: &str, read: impl FnOnce(&DeValue<'_>, usize) -> Option<T>) -> Option<T> {
        self.asked.insert(key.to_owned());
        let spanned: &Spanned<DeValue<'_>> = self.table.get(key)?;
        let value = read(spanned.get_ref(), spanned.span().start);
        if value.is_none() {
            let message = format!("`{}` must be {expected}", self.full(key));
            self.findings.note(spanned.span().start, message, format!("write {key} = ... with {expected}"));
        }
        value
    }
}
