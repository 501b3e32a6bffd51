//! All live entries as lines of JSON: `{"key":"hexadecimal","value":"base64"}`, with `"text"` where the entry is
//! readable, and a last line that summarises them.

use std::io::{self, Write};
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER};

use super::ending::Ending;
use super::salvage::{Skipped, salvage};
use super::{InspectError, at_rest, find, lock};
use crate::disk::Disk;
use crate::{MergeError, store};

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Entries written.
    pub entries: u64,
    /// Unreadable parts, with `salvage`.
    pub skipped: Vec<Skipped>,
}

/// Describes an entry for people; `None` when it has no description.
pub type Describe<'a> = dyn Fn(&[u8], &[u8]) -> Option<String> + 'a;

/// Writes all live entries in ascending order of their keys. With `salvage`, damaged parts are skipped and reported;
/// that needs memory for all entries. `describe` adds a text to an entry, which an import ignores.
///
/// # Errors
/// When the store is in use or does not exist, when the output fails, and without `salvage` when a part is damaged.
pub fn export(
    disk: &Arc<dyn Disk>,
    output: &mut dyn Write,
    save: bool,
    describe: &Describe<'_>,
) -> Result<ExportReport, InspectError> {
    let _lock = lock(&**disk)?;
    let mut report = ExportReport::default();
    let mut line = Line { text: String::new(), output, describe, failed: None, ending: Ending::default() };
    if save {
        let saved = salvage(&**disk)?;
        report.skipped = saved.skipped;
        for (key, value) in &saved.entries {
            line.write(key, value);
        }
    } else {
        let shared = at_rest(Arc::clone(disk), &find(&**disk)?);
        let visited = store::visit_all(&shared, &mut |key, value| line.write(key, value));
        visited.map_err(|error| match error {
            MergeError::Read(error) => InspectError::Read(error),
            MergeError::Write(error) => InspectError::Open(error),
        })?;
    }
    line.end();
    report.entries = line.ending.entries;
    match line.failed.map_or_else(|| line.output.flush(), Err) {
        Ok(()) => Ok(report),
        Err(error) => Err(InspectError::Output(error)),
    }
}

struct Line<'a> {
    text: String,
    output: &'a mut dyn Write,
    describe: &'a Describe<'a>,
    failed: Option<io::Error>,
    ending: Ending,
}

impl Line<'_> {
    fn write(&mut self, key: &[u8], value: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.text.clear();
        self.text.push_str("{\"key\":\"");
        HEXLOWER.encode_append(key, &mut self.text);
        self.text.push_str("\",\"value\":\"");
        BASE64.encode_append(value, &mut self.text);
        self.text.push('"');
        if let Some(text) = (self.describe)(key, value) {
            self.text.push_str(",\"text\":");
            self.text.push_str(&serde_json::Value::String(text).to_string());
        }
        self.text.push_str("}\n");
        match self.output.write_all(self.text.as_bytes()) {
            Ok(()) => self.ending.add(key, value),
            Err(error) => self.failed = Some(error),
        }
    }

    /// The last line, unless an entry is missing before it.
    fn end(&mut self) {
        if self.failed.is_none() {
            self.failed = writeln!(self.output, "{}", self.ending.line()).err();
        }
    }
}
