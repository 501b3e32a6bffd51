//! The table as text: for a terminal, and for a page of documentation.

use std::fmt::Write as _;

use super::{By, CRITERIA, Criterion, Judged, Known};

/// For a terminal: a paragraph for each criterion, a line for each answer.
pub fn plain(judged: &[Judged]) -> String {
    let width = judged.iter().map(|judged| judged.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for criterion in &CRITERIA {
        // Writing to a text does not fail.
        let _ = writeln!(out, "{} {}", criterion.id, criterion.title);
        if judged.is_empty() {
            let _ = writeln!(out, "  {}", answered_by(criterion));
        }
        for broker in judged {
            for known in broker.known.iter().filter(|known| known.id == criterion.id) {
                let _ = writeln!(out, "  {:width$}  {}", broker.name, answer(known));
            }
        }
    }
    out
}

/// For a page: a table with a row for each criterion, and a column for each broker; without brokers, [`list`].
pub fn markdown(judged: &[Judged]) -> String {
    if judged.is_empty() {
        return list();
    }
    let mut out = "| id | criterion |".to_owned();
    for broker in judged {
        let _ = write!(out, " {} |", broker.name);
    }
    let _ = writeln!(out, "\n| --- | --- |{}", " --- |".repeat(judged.len()));
    for criterion in &CRITERIA {
        let _ = write!(out, "| {} | {} |", criterion.id, criterion.title);
        for broker in judged {
            let answers: Vec<String> =
                broker.known.iter().filter(|known| known.id == criterion.id).map(answer).collect();
            let _ = write!(out, " {} |", answers.join("; "));
        }
        out.push('\n');
    }
    out
}

/// The criteria and how the lab answers each, as a table in Markdown.
pub fn list() -> String {
    let mut out = "| id | criterion | answered by |\n| --- | --- | --- |\n".to_owned();
    for criterion in &CRITERIA {
        let _ = writeln!(out, "| {} | {} | {} |", criterion.id, criterion.title, answered_by(criterion));
    }
    out
}

fn answered_by(criterion: &Criterion) -> String {
    match (criterion.probed.is_some(), criterion.measured_by) {
        (_, Some(scenario)) => format!("scenario {scenario}"),
        (true, None) => "probe".to_owned(),
        (false, None) => "not measured".to_owned(),
    }
}

fn answer(known: &Known) -> String {
    match known.by {
        By::Unknown => "not known".to_owned(),
        By::Scenario => known.text.clone(),
        By::Probe => format!("{} ({})", known.text, known.by.word()),
    }
}
