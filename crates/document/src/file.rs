//! The text of a file.

use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeTable;

/// Largest file that is read, bytes. A larger one is refused.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// A mark that some editors, most of them on Windows, write before a text in UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    /// Its name, as a person gave it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A place in a file, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A fault of the syntax of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxFault {
    /// The bytes of the fault.
    pub span: Range<usize>,
    /// The fault.
    pub message: String,
}

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", .path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// Reads a text file of at most [`MAX_FILE_BYTES`]. A device, and a file that the caller of the program has opened, have
/// no length to ask for beforehand.
///
/// # Errors
/// If it cannot be read, is larger, or is not UTF-8.
pub fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = tidegate_setting_file::open(path)?.take(MAX_FILE_BYTES + 1);
    file.read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => io::Error::new(error.kind(), "it is no UTF-8 text; save it as UTF-8"),
        _ => error,
    })?;
    if file.limit() == 0 {
        let text = format!("it is larger than {MAX_FILE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(text)
}

impl FileText {
    /// A text with the name of its file, without a byte order mark.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.starts_with(BYTE_ORDER_MARK) {
            text.remove(0);
        }
        Self { name: name.into(), text }
    }

    /// Reads a file of at most [`MAX_FILE_BYTES`].
    ///
    /// # Errors
    /// If it cannot be read, is larger, or is not UTF-8.
    pub fn load(path: &Path) -> Result<Self, ReadError> {
        let text = read_bounded(path).map_err(|source| ReadError { path: path.to_owned(), source })?;
        Ok(Self::new(path.display().to_string(), text))
    }

    /// The tables of the file, as far as its syntax is right, and the faults of its syntax.
    pub fn parse(&self) -> (Spanned<DeTable<'_>>, Vec<SyntaxFault>) {
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        let fault = |error: &toml::de::Error| SyntaxFault {
            span: error.span().unwrap_or_default(),
            message: error.message().trim().to_owned(),
        };
        (table, errors.iter().map(fault).collect())
    }

    /// The line and the column of a byte.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        LineColumn::of(&self.text, offset)
    }

    /// The text of a line, counted from 1.
    pub fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }

    /// `name:line:column` of a byte.
    pub fn place(&self, offset: usize) -> String {
        let LineColumn { line, column } = self.line_column(offset);
        format!("{}:{line}:{column}", self.name)
    }
}

impl LineColumn {
    /// The place of a byte of a text.
    pub fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        Self { line: before.matches('\n').count() + 1, column: before[start..].chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_its_line_and_column() {
        let file = FileText::new("f.toml", "\u{feff}a = 1\nü = \"x\"\n");
        assert_eq!(file.place(0), "f.toml:1:1");
        assert_eq!(file.place(file.text.find('=').unwrap()), "f.toml:1:3");
        assert_eq!(file.place(file.text.rfind('=').unwrap()), "f.toml:2:3");
        assert_eq!(file.line(2), "ü = \"x\"");
        // Beyond the end, and within a character.
        assert_eq!(file.line_column(1000).line, 3);
        assert_eq!(file.line_column(7).line, 3);
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_whole() {
        let path = std::env::temp_dir().join(format!("tidegate-document-{}", std::process::id()));
        std::fs::write(&path, "#".repeat(MAX_FILE_BYTES as usize)).unwrap();
        let whole = FileText::load(&path).map(|file| file.text.len());
        std::fs::write(&path, "#".repeat(MAX_FILE_BYTES as usize + 1)).unwrap();
        let larger = FileText::load(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(whole.unwrap(), MAX_FILE_BYTES as usize);
        assert!(larger.unwrap_err().to_string().ends_with("it is larger than 4194304 bytes"));
    }
}
