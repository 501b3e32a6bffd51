//! `config convert`: reads a configuration of Mosquitto and writes one that says the same, as far as it can be said.
//!
//! What is carried over goes through the same checks as a configuration of ours, so that the result can be run. What is
//! not carried over is listed with its line and the reason.

mod draft;
mod keys;
mod tls;

#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::config::credentials::HIDDEN;
use crate::config::show::{Which, show};
use crate::config::source::FileText;
use crate::config::{Config, Inputs};

use draft::Draft;
use keys::Fate;

/// One line of a `mosquitto.conf` that says something.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    /// The byte at which it begins.
    offset: usize,
    /// Its number, counted from 1.
    number: usize,
    /// Its first word.
    key: &'a str,
    /// What follows; may be empty.
    value: &'a str,
}

/// A converted configuration.
#[derive(Clone, Debug)]
pub(crate) struct Converted {
    /// Ours.
    pub(crate) toml: String,
    /// What was not carried over, for people.
    pub(crate) notes: String,
}

/// Converts a file.
pub(crate) fn convert(file: &FileText) -> Converted {
    let lines = lines(&file.text);
    let mut draft = Draft::new(file, &lines);
    let mut notes = Vec::new();
    let mut carried = 0;
    for line in &lines {
        match draft.take(line) {
            Fate::Carried => carried += 1,
            Fate::Left(reason) => notes.push((*line, reason)),
        }
    }
    let (config, late) = draft.finish();
    notes.extend(late);
    notes.sort_by_key(|(line, _)| line.number);
    let header = format!("# Converted from {}.\n", file.name);
    let body = show(&config, Which::Set);
    let toml = if body.is_empty() { header } else { format!("{header}\n{body}") };
    let mut notes = describe(file, carried, &notes);
    // Each value was checked by itself; what several of them say together shows only now.
    let result = FileText { name: "the result".to_owned(), text: toml.clone() };
    if let Err(findings) = Config::load(Inputs { file: Some(result), ..Inputs::default() }) {
        let _ = write!(notes, "\nThe result cannot be run as it is:\n{findings}");
    }
    Converted { toml, notes }
}

fn describe(file: &FileText, carried: usize, notes: &[(Line<'_>, String)]) -> String {
    let mut out = String::new();
    for (line, reason) in notes {
        let separator = if line.value.is_empty() { "" } else { " " };
        let Line { number, key, value, .. } = line;
        let value = if key.contains("password") && !key.ends_with("_file") { HIDDEN } else { value };
        let _ = writeln!(out, "{}:{number}: {key}{separator}{value}\n    {reason}", file.name);
    }
    out + &format!("{}: {carried} lines carried over, {} remarks\n", file.name, notes.len())
}

/// The lines that say something: neither empty nor a comment.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut offset = 0;
    let mut lines = Vec::new();
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let trimmed = raw.trim();
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            let (key, value) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
            lines.push(Line { offset, number: index + 1, key, value: value.trim() });
        }
        offset += raw.len();
    }
    lines
}
