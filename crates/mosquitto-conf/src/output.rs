//! The result as text.

use std::fmt::Write;

use crate::draft::Setting;
use crate::finish::Plan;
use crate::lines::{Files, Line};
use crate::values::Value;
use crate::{Conversion, Outcome, Verdict};

/// The replacement of a password.
const HIDDEN: &str = "***";

/// Sections that occur once, in their order.
const SINGLE: [&str; 7] = ["access", "limits", "queue", "retained", "sys", "log", "store"];

/// The result of a plan.
pub(crate) fn conversion(files: &Files, lines: &[Line<'_>], plan: Plan) -> Conversion {
    let mut out = Writer { files, lines, toml: String::new(), becomes: vec![Vec::new(); lines.len()] };
    let name = files.files.first().map_or("", |file| file.name.as_str());
    let _ = writeln!(out.toml, "# Converted from {name}.");
    for note in &plan.notes {
        let _ = writeln!(out.toml, "# {note}.");
    }
    out.repeated("listener", &plan.listeners);
    out.repeated("auth", &plan.auths);
    out.repeated("tenant", &plan.tenants);
    for section in SINGLE {
        let settings: Vec<&Setting> =
            plan.broker.iter().filter(|(name, _)| *name == section).map(|(_, setting)| setting).collect();
        if !settings.is_empty() {
            out.section(&format!("[{section}]"), section, &settings);
        }
    }
    out.repeated("bridge", &plan.bridges);
    let Writer { toml, becomes, .. } = out;
    let verdicts: Vec<Verdict> = lines
        .iter()
        .zip(plan.taken)
        .zip(becomes)
        .map(|((line, taken), becomes)| Verdict {
            file: files.files.get(line.file).map_or_else(String::new, |file| file.name.clone()),
            line: line.number,
            key: line.key.to_owned(),
            value: shown(line).to_owned(),
            outcome: taken.outcome,
            why: taken.why,
            becomes,
        })
        .collect();
    let left_out = verdicts.iter().any(|verdict| verdict.outcome == Outcome::Refused);
    Conversion { toml, lines: verdicts, notes: plan.notes, left_out }
}

/// The value of a line, without a password.
fn shown<'a>(line: &Line<'a>) -> &'a str {
    let secret = line.key.contains("password") && !line.key.ends_with("_file")
        || line.key == "bridge_psk"
        || (line.key.contains("_opt_") && line.key.contains("pass"));
    if secret { HIDDEN } else { line.value }
}

struct Writer<'a, 'l> {
    files: &'a Files,
    lines: &'a [Line<'l>],
    toml: String,
    becomes: Vec<Vec<String>>,
}

impl Writer<'_, '_> {
    fn repeated(&mut self, section: &str, all: &[Vec<Setting>]) {
        for (index, settings) in all.iter().enumerate() {
            let settings: Vec<&Setting> = settings.iter().collect();
            self.section(&format!("[[{section}]]"), &format!("{section}.{index}"), &settings);
        }
    }

    fn section(&mut self, header: &str, path: &str, settings: &[&Setting]) {
        let shown: Vec<(String, String)> = settings
            .iter()
            .map(|setting| (format!("{} = {}", setting.key, text(&setting.value)), self.place(setting.line)))
            .collect();
        let width = shown.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
        let _ = writeln!(self.toml, "\n{header}");
        for (line, place) in &shown {
            if place.is_empty() {
                let _ = writeln!(self.toml, "{line}");
            } else {
                let _ = writeln!(self.toml, "{line:width$}  # {place}");
            }
        }
        for (setting, (line, _)) in settings.iter().zip(shown) {
            if let Some(becomes) = setting.line.and_then(|index| self.becomes.get_mut(index)) {
                becomes.push(format!("{path}.{line}"));
            }
        }
    }

    fn place(&self, line: Option<usize>) -> String {
        let Some(line) = line.and_then(|index| self.lines.get(index)) else { return String::new() };
        self.files.files.get(line.file).map_or_else(String::new, |file| format!("{}:{}", file.name, line.number))
    }
}

/// A value as TOML.
fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Truth(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::List(texts) => format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
