//! TOML files written by people: read key by key, with each mistake reported with its place and remedy.

mod finding;
mod keys;
mod value;

pub use finding::{Finding, Findings};
pub use keys::Keys;

use toml::de::DeTable;

/// Largest file that is read, bytes.
pub const MAX_DOCUMENT: u64 = 1024 * 1024;

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its name, as a person gave it.
    pub name: String,
    /// Its content.
    pub text: String,
}

impl Document {
    /// Reads the whole document with a function that requests its keys. Keys that the function did not request are
    /// findings, too.
    ///
    /// # Errors
    /// All findings, in the order of the file.
    pub fn read<T>(&self, read: impl FnOnce(&mut Keys<'_>) -> Option<T>) -> Result<T, Findings> {
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        let mut found = Findings::about(self);
        for error in &errors {
            found.note(error.span().unwrap_or_default().start, error.message().trim(), "correct the TOML there");
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

    /// Line and column of a byte, both from 1.
    fn place(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }
}
