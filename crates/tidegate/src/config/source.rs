//! Where a value comes from, and where in a file that is.

use std::fmt;
use std::ops::Range;

/// Where the value of a key comes from. The later ones win.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nobody said anything.
    #[default]
    Default,
    /// These bytes of the configuration file.
    File(Range<usize>),
    /// This environment variable.
    Environment(String),
    /// This flag, as it was given.
    Flag(String),
}

/// What some editors, of Windows above all, put before a text in UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A configuration file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileText {
    /// Its name, as a person gave it.
    pub(crate) name: String,
    /// What is in it, and in the files that it includes, in their places.
    pub(crate) text: String,
    /// Where the text goes over from one file into another, by bytes.
    joints: Vec<Joint>,
}

/// From a byte on the text is another file's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Joint {
    offset: usize,
    /// Its name; `None` for the including file itself.
    name: Option<String>,
    /// The number of the line that begins there, in that file.
    line: usize,
}

/// A place in a file, for people: both counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineColumn {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl FileText {
    /// What was read from a file. The mark that some editors put before the text is none of it.
    pub(crate) fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.starts_with(BYTE_ORDER_MARK) {
            text.remove(0);
        }
        Self { name: name.into(), text, joints: Vec::new() }
    }

    /// Puts other files in behind the line that ends at a byte; gives the byte behind them.
    pub(crate) fn include(&mut self, offset: usize, files: &[Self]) -> usize {
        let line = self.line_column(offset).line;
        let mut included = String::new();
        for file in files {
            self.joints.push(Joint { offset: offset + included.len(), name: Some(file.name.clone()), line: 1 });
            included.push_str(&file.text);
            if !file.text.ends_with('\n') {
                included.push('\n');
            }
        }
        self.joints.push(Joint { offset: offset + included.len(), name: None, line });
        self.text.insert_str(offset, &included);
        offset + included.len()
    }

    /// The line and the column of a byte, in the file that it is from.
    pub(crate) fn line_column(&self, offset: usize) -> LineColumn {
        let (begin, first) = self.joint(offset).map_or((0, 1), |joint| (joint.offset, joint.line));
        let before = self.text.get(begin..offset).unwrap_or_else(|| self.text.get(begin..).unwrap_or_default());
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        LineColumn { line: before.matches('\n').count() + first, column: before[start..].chars().count() + 1 }
    }

    /// The name of the file that a byte is from.
    pub(crate) fn name_at(&self, offset: usize) -> &str {
        self.joint(offset).and_then(|joint| joint.name.as_deref()).unwrap_or(&self.name)
    }

    fn joint(&self, offset: usize) -> Option<&Joint> {
        self.joints.iter().rev().find(|joint| joint.offset <= offset)
    }

    /// The text of a line, counted from 1.
    pub(crate) fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }

    /// `name:line:column` of a byte.
    pub(crate) fn place(&self, offset: usize) -> String {
        let LineColumn { line, column } = self.line_column(offset);
        format!("{}:{line}:{column}", self.name_at(offset))
    }
}

impl Source {
    /// The source for people, with the place in the file.
    pub(crate) fn describe(&self, file: Option<&FileText>) -> String {
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
