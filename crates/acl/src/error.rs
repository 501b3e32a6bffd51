//! Why rules cannot be used.

use std::fmt;
use std::sync::Arc;

use tidegate_document::LineColumn;

/// A place in a file of rules, both counted from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The file, as its name was given.
    pub file: Arc<str>,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl FilePosition {
    /// The place of a byte of a text.
    pub(crate) fn of(file: &Arc<str>, text: &str, offset: usize) -> Self {
        let LineColumn { line, column } = LineColumn::of(text, offset);
        Self { file: Arc::clone(file), line: narrow(line), column: narrow(column) }
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One thing that is wrong in a file of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// The place in the file.
    pub place: FilePosition,
    /// The message.
    pub message: String,
    /// The proposed correction.
    pub fix: String,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.message, self.fix)
    }
}

/// Why a file of rules is refused. None of its rules is then used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It is larger than [`MAX_FILE_BYTES`](crate::MAX_FILE_BYTES).
    #[error(
        "{file} has {bytes} bytes, more than {}; split it by tenant, or use placeholders instead of a rule per client",
        crate::MAX_FILE_BYTES
    )]
    TooLarge {
        /// The file.
        file: Arc<str>,
        /// Its size.
        bytes: usize,
    },
    /// It is not text.
    #[error("{file} is no UTF-8 text at byte {offset}; save it as UTF-8")]
    NotText {
        /// The file.
        file: Arc<str>,
        /// The first byte that is wrong.
        offset: usize,
    },
    /// There are more than [`MAX_RULES`](crate::MAX_RULES) rules.
    #[error("{file} brings the rules to more than {}; use placeholders instead of a rule per client", crate::MAX_RULES)]
    TooMany {
        /// The file in which there are too many.
        file: Arc<str>,
    },
    /// Rules are wrong; at least one problem is listed, in the order of the file.
    #[error("{}", list(problems))]
    Wrong {
        /// The problems found.
        problems: Vec<RuleProblem>,
    },
}

fn list(problems: &[RuleProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// The text of a file.
pub(crate) fn text<'a>(file: &Arc<str>, bytes: &'a [u8]) -> Result<&'a str, LoadError> {
    if bytes.len() > crate::MAX_FILE_BYTES {
        return Err(LoadError::TooLarge { file: Arc::clone(file), bytes: bytes.len() });
    }
    // Some editors, of Windows above all, put a byte order mark before the text.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    std::str::from_utf8(bytes)
        .map_err(|error| LoadError::NotText { file: Arc::clone(file), offset: error.valid_up_to() })
}

/// A construct that is allowed but probably not intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The place in the file.
    pub place: FilePosition,
    /// The message, with the proposed correction.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
