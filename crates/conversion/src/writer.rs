//! The result as text.

use std::fmt::Write;

use tidegate_units::quote::quoted;

use crate::{Conversion, ConvertedLine, Outcome, Sections, Setting, Value};

/// The result before it is written: its sections, and the lines that it was made of.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The name of the converted file.
    pub name: String,
    /// Each line with content, in the order of the files, with its outcome. The resulting keys are added by [`conversion`].
    pub lines: Vec<ConvertedLine>,
    /// The settings of each listener.
    pub listeners: Vec<Vec<Setting>>,
    /// The settings of each provider of authentication.
    pub auths: Vec<Vec<Setting>>,
    /// The settings of each tenant.
    pub tenants: Vec<Vec<Setting>>,
    /// The settings of each bridge.
    pub bridges: Vec<Vec<Setting>>,
    /// The settings of sections that occur once.
    pub broker: Sections,
    /// Remarks that do not concern one line.
    pub notes: Vec<String>,
}

/// Sections that occur once, in their order.
const SINGLE: [&str; 7] = ["access", "limits", "queue", "retained", "sys", "log", "store"];

/// Writes a plan.
pub fn conversion(plan: Plan) -> Conversion {
    let mut out = Writer { becomes: vec![Vec::new(); plan.lines.len()], lines: &plan.lines, toml: String::new() };
    let _ = writeln!(out.toml, "# Converted from {}.", plan.name);
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
    let lines: Vec<ConvertedLine> =
        plan.lines.into_iter().zip(becomes).map(|(line, becomes)| ConvertedLine { becomes, ..line }).collect();
    let left_out = lines.iter().any(|line| line.outcome == Outcome::Refused);
    Conversion { toml, lines, notes: plan.notes, left_out }
}

struct Writer<'a> {
    lines: &'a [ConvertedLine],
    toml: String,
    becomes: Vec<Vec<String>>,
}

impl Writer<'_> {
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
        let long = |setting: &Setting| matches!(&setting.value, Value::Text(text) if text.contains('\n'));
        let short = shown.iter().zip(settings).filter(|(_, setting)| !long(setting));
        let width = short.map(|((line, _), _)| line.chars().count()).max().unwrap_or_default();
        let _ = writeln!(self.toml, "\n{header}");
        for ((line, place), setting) in shown.iter().zip(settings) {
            let comment = if place.is_empty() { String::new() } else { format!("  # {place}") };
            let _ = match &setting.value {
                Value::Text(text) if long(setting) => {
                    writeln!(self.toml, "{} = \"\"\"\n{}\"\"\"{comment}", setting.key, lines_of(text))
                }
                _ if comment.is_empty() => writeln!(self.toml, "{line}"),
                _ => writeln!(self.toml, "{line:width$}{comment}"),
            };
        }
        for (setting, (line, _)) in settings.iter().zip(shown) {
            if let Some(becomes) = setting.line.and_then(|index| self.becomes.get_mut(index)) {
                becomes.push(format!("{path}.{line}"));
            }
        }
    }

    fn place(&self, line: Option<usize>) -> String {
        let line = line.and_then(|index| self.lines.get(index));
        line.map_or_else(String::new, |line| format!("{}:{}", line.file, line.line))
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

/// A text of several lines, for a string of TOML that has lines: there quotes are not escaped.
fn lines_of(text: &str) -> String {
    let line = |line: &str| {
        let quoted = quoted(line);
        let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
        if line.contains("\"\"\"") { inner.to_owned() } else { inner.replace("\\\"", "\"") }
    };
    text.trim_start_matches('\n').split('\n').map(line).collect::<Vec<_>>().join("\n")
}
