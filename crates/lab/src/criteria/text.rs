//! The table as text: for a terminal, and for a page of documentation.

use std::fmt::Write as _;

use super::{By, CRITERIA, Judged, Known};

/// For a terminal: a paragraph for each criterion, a line for each answer.
pub fn plain(judged: &[Judged]) -> String {
    let width = judged.iter().map(|judged| judged.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for criterion in &CRITERIA {
        // Writing to a text does not fail.
        let _ = writeln!(out, "{} {}", criterion.id, criterion.title);
        for broker in judged {
            for known in broker.known.iter().filter(|known| known.id == criterion.id) {
                let said = match known.by {
                    By::Unknown => "not known".to_owned(),
                    By::Scenario => known.text.clone(),
                    By::Probe | By::Datasheet => format!("{} ({})", known.text, known.by.word()),
                };
                let _ = writeln!(out, "  {:width$}  {said}", broker.name);
            }
        }
    }
    out
}

/// For a page: a table for each criterion, with a row for each answer and where it is from.
pub fn markdown(judged: &[Judged]) -> String {
    let mut out = String::new();
    for criterion in &CRITERIA {
        let _ = write!(out, "### {} {}\n\n", criterion.id, criterion.title);
        if let Some(scenario) = criterion.measured_by {
            let _ = write!(out, "Measured by {scenario}.\n\n");
        }
        if criterion.probed.is_some() {
            let _ = write!(out, "A probe tries it, as far as MQTT goes; what makers say beside that:\n\n");
        }
        let rows: Vec<String> = judged
            .iter()
            .flat_map(|broker| {
                let facts = broker.known.iter().filter(|known| known.id == criterion.id);
                facts
                    .filter(|known| matches!(known.by, By::Probe | By::Datasheet))
                    .map(|known| row(&broker.name, known))
            })
            .collect();
        if !rows.is_empty() {
            let _ = write!(out, "| broker | answer | from |\n| --- | --- | --- |\n{}\n", rows.concat());
        }
    }
    out
}

fn row(name: &str, known: &Known) -> String {
    let from = match &known.source {
        Some(page) => match page.strip_prefix("docs/") {
            Some(page) => format!("[{page}]({page})"),
            None => format!("<{page}>"),
        },
        None => known.by.word().to_owned(),
    };
    format!("| {name} | {} | {from} |\n", known.text)
}
