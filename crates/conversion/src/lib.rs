//! The report of a converted configuration, and the writer of the result.
//!
//! A converter reads the settings of another broker, gives each of them an outcome with its reason, and puts a [`Plan`]
//! together. [`conversion`] writes the plan as TOML and notes the resulting keys of each setting. [`key_page`] writes the
//! page of the keys of a broker. The crate reads no file.

mod key_page;
mod writer;

pub use key_page::{KeyRow, key_page};
pub use tidegate_units::quote::quoted;
pub use writer::{Plan, conversion};

/// A file with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// As messages name it.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// The outcome for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It is in the result, or was so already.
    Carried,
    /// The result does it in another way, or need not do it.
    Changed,
    /// It is not in the result. If it restricts access, its listener or bridge is closed.
    Refused,
}

impl Outcome {
    /// The word for scripts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Carried => "carried",
            Self::Changed => "changed",
            Self::Refused => "refused",
        }
    }
}

/// A line with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertedLine {
    /// Its file.
    pub file: String,
    /// Its number there, from 1.
    pub line: usize,
    /// Its key.
    pub key: String,
    /// Its value; passwords are hidden.
    pub value: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if there is one.
    pub why: String,
    /// The resulting settings, such as `listener.0.max_connections = 7`.
    pub becomes: Vec<String>,
}

/// A converted configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    /// Ours, TOML.
    pub toml: String,
    /// Each line with content, in the order of the files.
    pub lines: Vec<ConvertedLine>,
    /// Remarks that do not concern one line.
    pub notes: Vec<String>,
    /// Whether any line was left out.
    pub left_out: bool,
}

/// A value of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// `true` or `false`.
    Truth(bool),
    /// A number.
    Number(u64),
    /// Texts.
    List(Vec<String>),
}

/// A key of ours with its value and the original line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key within its section.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// The index of the line that it comes from.
    pub line: Option<usize>,
}

impl Setting {
    /// From this line.
    pub fn new(key: &'static str, value: Value, line: usize) -> Self {
        Self { key, value, line: Some(line) }
    }
}

/// Sections of ours that occur once, with their settings.
pub type Sections = Vec<(&'static str, Setting)>;
