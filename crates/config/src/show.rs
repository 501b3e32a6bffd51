//! `config show`: a configuration as a file that says the same.

use std::fmt::Write;

use super::Config;
use super::credentials::without_credentials;
use super::path::KeyPath;
use super::sections::SECTIONS;
use super::source::Source;

/// The keys to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Only the keys that are set.
    Set,
    /// All of them.
    Effective,
}

/// The configuration as TOML, with the source of each value behind it.
pub fn show(config: &Config, which: Which) -> String {
    let mut out = String::new();
    for keys in SECTIONS {
        for (index, section) in config.sections(keys.name).into_iter().enumerate() {
            let mut lines = Vec::new();
            for key in keys.keys {
                let path = KeyPath { section: keys.name, index, key: key.name };
                let source = config.origins.source(&path);
                if which == Which::Effective || *source != Source::Default {
                    let value = section.show(key.name);
                    let value = if key.credentials { without_credentials(&value) } else { value };
                    let line = format!("{} = {value}", key.name);
                    lines.push((line, source.describe(config.origins.file())));
                }
            }
            write_section(&mut out, &keys.header(), &lines);
        }
    }
    out
}

fn write_section(out: &mut String, header: &str, lines: &[(String, String)]) {
    if lines.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
    let _ = writeln!(out, "{header}");
    for (line, source) in lines {
        let _ = writeln!(out, "{line:width$}  # {source}");
    }
}
