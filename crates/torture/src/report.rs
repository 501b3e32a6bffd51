//! The end of a run: a table for people, JSON for machines.

use std::path::Path;

use serde_json::json;

use crate::failure::Failure;
use crate::ledger::{CHECKS, Finding, Findings};

/// Prints totals, the table of checks, and the first cases of each finding with their traces.
pub(crate) fn print(findings: &Findings) {
    for (name, count) in findings.totals.rows() {
        println!("{name:<34}{count:>12}");
    }
    println!();
    for (finding, name) in CHECKS {
        let count = findings.count(finding);
        let share = share(findings, finding, count);
        println!("{name:<20}{}{share}", if count == 0 { "       ok".to_owned() } else { format!("{count:>9}") });
    }
    let failed = CHECKS.iter().filter(|(finding, _)| findings.count(*finding) > 0).count();
    // In the form that `./test` adds up: passed, failed, skipped.
    println!("\ntotal {} {failed} 0", CHECKS.len() - failed);
    for (check, text, trace) in findings.cases() {
        println!("\n{check}: {text}");
        for line in trace {
            println!("    {line}");
        }
    }
}

/// The share of owed messages that were lost.
fn share(findings: &Findings, finding: Finding, count: u64) -> String {
    let owed = match finding {
        Finding::LostQos1 => findings.totals.owed_qos1,
        Finding::LostQos2 => findings.totals.owed_qos2,
        _ => 0,
    };
    if owed == 0 || count == 0 {
        return String::new();
    }
    format!("  {:.2} % of {owed} owed", count as f64 * 100.0 / owed as f64)
}

/// Writes the report as JSON.
pub(crate) fn write_json(findings: &Findings, seed: u64, path: &Path) -> Result<(), Failure> {
    let mut report = findings.json();
    report["seed"] = json!(seed);
    let text = format!("{report:#}\n");
    if path == Path::new("-") {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(path, text).map_err(Failure::file("writing", path))
}
