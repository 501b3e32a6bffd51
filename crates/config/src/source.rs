//! Where a value comes from, and where in a file that is.

use std::fmt;
use std::ops::Range;

/// Where the value of a key comes from. The later ones win.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// No source sets it.
    #[default]
    Default,
    /// These bytes of the configuration file.
    File(Range<usize>),
    /// This environment variable.
    Environment(String),
    /// This flag, as it was given.
    Flag(String),
}

/// A mark that some editors, most of them on Windows, write before a text in UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A configuration file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    /// Its name, as a person gave it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A place in a file, for people: both counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

impl FileText {
    /// A source with the text of a file, without the byte order mark that some editors put in front.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.starts_with(BYTE_ORDER_MARK) {
            text.remove(0);
        }
        Self { name: name.into(), text }
    }

    /// The line and the column of a byte.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        LineColumn { line: before.matches('\n').count() + 1, column: before[start..].chars().count() + 1 }
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

impl Source {
    /// The source for people, with the place in the file.
    pub fn describe(&self, file: Option<&FileText>) -> String {
        match (self, file) {
            (Self::File(span), Some(file)) => file.place(span.start),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(_) => f.write_str("configuration file"),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "command line, {flag}"),
        }
    }
}
