//! `config convert`: reads a configuration of Mosquitto and writes one that says the same, as far as it can be said.
//!
//! What is carried over goes through the same checks as a configuration of ours, so that the result can be run. What is
//! not carried over is listed with its line and the reason.

mod bridge;
mod draft;
mod keys;
mod tls;

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::io;
use std::ops::Range;

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

/// Converts a file with those that it includes: `folder` reads the files of one whose names end with `.conf`, in the
/// order of their names.
pub(crate) fn convert(file: FileText, folder: impl Fn(&str) -> io::Result<Vec<FileText>>) -> Converted {
    let (file, unread) = with_included(file, folder);
    let file = &file;
    let lines = lines(&file.text);
    let mut draft = Draft::new(file, &lines);
    let unread = |line: &Line<'_>| unread.iter().find(|(offset, _)| *offset == line.offset);
    let mut notes: Vec<_> =
        lines.iter().filter_map(|line| unread(line).map(|(_, reason)| (*line, reason.clone()))).collect();
    let mut carried = 0;
    for line in &lines {
        match draft.take(line) {
            Fate::Carried if unread(line).is_some() => {}
            Fate::Carried => carried += 1,
            Fate::Left(reason) => notes.push((*line, reason)),
        }
    }
    let (config, late) = draft.finish();
    notes.extend(late);
    notes.sort_by_key(|(line, _)| line.offset);
    let header = format!("# Converted from {}.\n", file.name);
    let body = show(&config, Which::Set);
    let toml = if body.is_empty() { header } else { format!("{header}\n{body}") };
    let mut notes = describe(file, carried, &notes);
    // Each value was checked by itself; what several of them say together shows only now.
    let result = FileText::new("the result", &*toml);
    if let Err(findings) = Config::load(Inputs { file: Some(result), ..Inputs::default() }) {
        let _ = write!(notes, "\nThe result cannot be run as it is:\n{findings}");
    }
    Converted { toml, notes }
}

/// The place of the first line that says something, if that is how Mosquitto's configurations begin.
pub(crate) fn first_key(text: &str) -> Option<Range<usize>> {
    let line = *lines(text).first()?;
    let theirs = keys::treatment(line.key).is_some() && !line.value.starts_with('=');
    theirs.then_some(line.offset..line.offset + line.key.len())
}

fn describe(file: &FileText, carried: usize, notes: &[(Line<'_>, String)]) -> String {
    let mut out = String::new();
    for (index, (line, reason)) in notes.iter().enumerate() {
        let separator = if line.value.is_empty() { "" } else { " " };
        let Line { offset, key, value } = line;
        let value = if key.contains("password") && !key.ends_with("_file") { HIDDEN } else { value };
        let (name, number) = (file.name_at(*offset), file.line_column(*offset).line);
        let _ = writeln!(out, "{name}:{number}: {key}{separator}{value}");
        if notes.get(index + 1).is_none_or(|(_, next)| next != reason) {
            let _ = writeln!(out, "    {reason}");
        }
    }
    out + &format!("{}: {carried} lines carried over, {} remarks\n", file.name, notes.len())
}

/// Puts the files of each folder that the main file includes behind the line that does so; files of a folder include
/// nothing. Also gives the lines whose folder cannot be read, by their bytes.
fn with_included(
    mut file: FileText,
    folder: impl Fn(&str) -> io::Result<Vec<FileText>>,
) -> (FileText, Vec<(usize, String)>) {
    let main = file.text.clone();
    let mut unread = Vec::new();
    let mut grown = 0;
    for line in lines(&main).iter().filter(|line| line.key == "include_dir") {
        let end = main[line.offset..].find('\n').map_or(main.len(), |end| line.offset + end + 1);
        match folder(line.value) {
            Ok(files) => {
                if !file.text.ends_with('\n') {
                    file.text.push('\n');
                }
                let end = if main[..end].ends_with('\n') { end } else { end + 1 };
                grown = file.include(end + grown, &files) - end;
            }
            Err(error) => {
                unread.push((line.offset + grown, format!("not carried over: cannot read {}: {error}", line.value)));
            }
        }
    }
    (file, unread)
}

/// The lines that say something: neither empty nor a comment.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut offset = 0;
    let mut lines = Vec::new();
    for raw in text.split_inclusive('\n') {
        let trimmed = raw.trim();
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            let (key, value) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
            lines.push(Line { offset, key, value: value.trim() });
        }
        offset += raw.len();
    }
    lines
}
