//! Reads a `mosquitto.conf` and makes a configuration of ours of it.
//!
//! Mosquitto's own parser and manual are the reference. A line that restricts who may connect, publish or subscribe is
//! carried over; if it cannot be, its listener or bridge is left out or refuses all clients. The result is never more
//! open than the original. Every line gets an outcome with its reason. The crate reads no file.

mod bridge;
mod default_listener;
mod draft;
mod dynamic_security;
mod finish;
mod form;
mod keys;
mod lines;
mod listener;
mod once;
mod owner;
mod taken;
mod tls;
mod values;

pub use dynamic_security::{DynamicSecurity, SecurityError, dynamic_security};
pub use form::{Form, form};
pub use keys::{KEYS, Key, PREFIXES, key, key_page};

use std::io;

use tidegate_conversion::Plan;
pub use tidegate_conversion::{Conversion, ConvertedLine, File, Outcome};

use draft::Draft;
use lines::{Files, Line};

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
    let (plan, taken) = draft.finish();
    let lines = converted_lines(&files, &all, taken);
    let name = main.name.clone();
    Ok(tidegate_conversion::conversion(Plan { name, lines, ..plan }))
}

/// The lines with their outcomes.
fn converted_lines(files: &Files, lines: &[Line<'_>], taken: Vec<taken::Taken>) -> Vec<ConvertedLine> {
    lines
        .iter()
        .zip(taken)
        .map(|(line, taken)| ConvertedLine {
            file: files.files.get(line.file).map_or_else(String::new, |file| file.name.clone()),
            line: line.number,
            key: line.key.to_owned(),
            value: shown(line).to_owned(),
            outcome: taken.outcome,
            why: taken.why,
            becomes: Vec::new(),
        })
        .collect()
}

/// The replacement of a password.
const HIDDEN: &str = "***";

/// The value of a line, without a password.
fn shown<'a>(line: &Line<'a>) -> &'a str {
    let secret = line.key.contains("password") && !line.key.ends_with("_file")
        || line.key == "bridge_psk"
        || (line.key.contains("_opt_") && line.key.contains("pass"));
    if secret { HIDDEN } else { line.value }
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
