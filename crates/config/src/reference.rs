//! The meaning of keys, for people: `config explain` and `config reference`, which the site contains.

use std::fmt::Write;

use super::key::{Key, SectionKeys};
use super::path::KeyPath;
use super::sections::SECTIONS;
use super::value::Kind;

/// The beginning of the reference; the sections follow.
const INTRODUCTION: &str = "\
# Configuration

Every key with its type, default and environment variable. `docs/configuration.md` describes the sources of values and their units.
";

/// The reference of all keys, Markdown.
pub fn page() -> String {
    let mut out = INTRODUCTION.to_owned();
    for section in SECTIONS {
        let _ = write!(out, "\n## `{}`\n\n{}\n", section.header(), flow(section.doc));
        for key in section.keys {
            let _ = write!(out, "\n### `{}`\n\n{}\n\n", key.name, key.doc());
            for (name, text) in facts(section, key) {
                // A fact without a name is about the line before.
                let before = if name.is_empty() { "  - ".to_owned() } else { format!("- {name}: ") };
                let _ = writeln!(out, "{before}{text}");
            }
        }
    }
    out
}

/// The documentation of one key, for a terminal.
pub fn explain_key(section: &SectionKeys, key: &Key) -> String {
    let mut out = format!("{}.{}\n\n{}\n\n", section.name, key.name, wrap(&key.doc()));
    for (name, text) in facts(section, key) {
        let _ = writeln!(out, "{name:12} {}", text.replace('`', ""));
    }
    out
}

/// The keys of a section, for a terminal.
pub fn explain_section(section: &SectionKeys) -> String {
    let mut out = format!("{}\n\n{}\n\n", section.header(), wrap(&flow(section.doc)));
    let width = section.keys.iter().map(|key| key.name.len()).max().unwrap_or_default();
    for key in section.keys {
        let _ = writeln!(out, "  {:width$}  {}", key.name, first_sentence(&key.doc()));
    }
    out
}

/// All sections, for a terminal.
pub fn explain_all() -> String {
    let mut out = String::from("Sections; `tidegate config explain SECTION` lists the keys of one:\n\n");
    for section in SECTIONS {
        let _ = writeln!(out, "  {:12} {}", section.name, first_sentence(&flow(section.doc)));
    }
    out
}

fn facts(section: &SectionKeys, key: &Key) -> Vec<(&'static str, String)> {
    let path = KeyPath { section: section.name, index: 0, key: key.name };
    let mut facts = vec![("takes", key.kind.describe())];
    if let Kind::OneOf(words) = key.kind {
        facts.extend(words.iter().map(|(word, meaning)| ("", format!("`\"{word}\"`: {meaning}"))));
    }
    facts.push(("default", format!("`{}`", (key.default)())));
    facts.push(("environment", format!("`{}`", path.environment())));
    if !key.flags.is_empty() {
        let flags: Vec<String> = key.flags.iter().map(|flag| format!("`{flag}`")).collect();
        facts.push(("flag", flags.join(", ")));
    }
    facts
}

fn flow(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// Breaks a text into lines that fit a terminal.
fn wrap(text: &str) -> String {
    const WIDTH: usize = 80;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full = lines.last().is_some_and(|line| !line.is_empty() && line.len() + 1 + word.len() > WIDTH);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}
