//! Reads a `mosquitto.conf` and makes a configuration of ours of it.
//!
//! Mosquitto's own parser and manual are the reference. A line that restricts who may connect, publish or subscribe is
//! carried over; if it cannot be, its listener or bridge is left out or refuses all clients. The result is never more
//! open than the original. Every line gets an outcome with its reason. The crate reads no file.

mod bridge;
mod draft;
mod dynamic_security;
mod finish;
mod keys;
mod lines;
mod listener;
mod output;
mod tls;
mod values;

pub use dynamic_security::{DynamicSecurity, SecurityError, dynamic_security};
pub use keys::{KEYS, Key, PREFIXES, key};

use std::io;

use draft::Draft;
use lines::Line;

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
pub struct Verdict {
    /// Its file.
    pub file: String,
    /// Its number there, from 1.
    pub line: usize,
    /// Its first word.
    pub key: String,
    /// The rest of the line; passwords are hidden.
    pub value: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if there is one.
    pub why: String,
    /// The resulting settings, such as `listener.0.max_connections = 7`.
    pub becomes: Vec<String>,
}

/// A converted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Ours, TOML.
    pub toml: String,
    /// Each line with content, in the order of the files.
    pub lines: Vec<Verdict>,
    /// Remarks that do not concern one line.
    pub notes: Vec<String>,
    /// Whether any line was left out.
    pub left_out: bool,
}

/// The text is not a configuration of Mosquitto: no line begins with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no mosquitto.conf")]
pub struct NotMosquitto;

/// Converts a file with its included files. `folder` reads the files of a folder whose names end with `.conf`, in the
/// order of their names.
///
/// # Errors
///
/// When no line begins with a key of Mosquitto, although there are lines.
pub fn convert(main: &File, folder: &dyn Fn(&str) -> io::Result<Vec<File>>) -> Result<Conversion, NotMosquitto> {
    let (files, unread) = lines::with_included(main, folder);
    let all: Vec<Line<'_>> = files.lines();
    if !all.is_empty() && !all.iter().any(is_theirs) {
        return Err(NotMosquitto);
    }
    let mut draft = Draft::new(&all);
    for (index, line) in all.iter().enumerate() {
        match unread.iter().find(|(number, _)| *number == line.number && line.file == 0) {
            Some((_, reason)) => draft.include_failed(index, reason),
            None => draft.take(index, *line),
        }
    }
    Ok(output::conversion(&files, &all, draft.finish()))
}

/// The first line with content, if a configuration of Mosquitto may begin so: the bytes of its first word.
pub fn first_key(text: &str) -> Option<std::ops::Range<usize>> {
    let line = lines::of(text, 0).into_iter().next()?;
    is_theirs(&line).then_some(line.offset..line.offset + line.key.len())
}

/// Whether a line begins with a key of theirs; ours have `=` behind their keys.
fn is_theirs(line: &Line<'_>) -> bool {
    key(line.key).is_some() && !line.value.starts_with('=')
}
