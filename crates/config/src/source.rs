//! The source of a value, and its place in a file.

use std::fmt;
use std::ops::Range;

pub use tidegate_document::FileText;

/// The source of a key's value. The later ones win.
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
