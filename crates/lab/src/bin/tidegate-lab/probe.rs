//! `tidegate lab probe`: the measured abilities of a broker.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use tidegate_lab::probe::{Conformance, ProbeError, Probed, probe, probe_with_conformance};

use tidegate_terminal::{Exit, print_and_exit, report};

/// The flags of `tidegate lab probe`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// The broker: mqtt://HOST:PORT, or mqtt://USER:PASSWORD@HOST:PORT
    address: String,

    /// Also run the conformance suite: how many normative statements hold, and which do not
    #[arg(long)]
    conformance: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    let found = if args.conformance { probe_with_conformance(&args.address) } else { probe(&args.address) };
    match found {
        Ok(probed) if args.json => match serde_json::to_string(&probed) {
            Ok(text) => print_and_exit(&format!("{text}\n"), Exit::Ok),
            Err(error) => {
                report(&error);
                Exit::Failure
            }
        },
        Ok(probed) => print_and_exit(&table(&probed), Exit::Ok),
        Err(error @ (ProbeError::Address(_) | ProbeError::Transport(_))) => {
            report(&error);
            Exit::Usage
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn table(probed: &Probed) -> String {
    let width = probed.findings.iter().map(|finding| finding.title.len()).max().unwrap_or(0);
    let (mut out, mut group) = (String::new(), "");
    for finding in &probed.findings {
        // Writing to a text does not fail.
        if finding.group != group {
            group = finding.group;
            let _ = writeln!(out, "{group}");
        }
        let _ = writeln!(out, "  {:width$}  {}", finding.title, finding.answer);
    }
    if let Some(conformance) = &probed.conformance {
        statements(conformance, &mut out);
    }
    out
}

/// The score of each version, and the failed statements.
fn statements(conformance: &Conformance, out: &mut String) {
    // Writing to a text does not fail.
    let _ = writeln!(out, "Conformance");
    for score in &conformance.scores {
        let tried = score.held + score.broken;
        let _ = writeln!(
            out,
            "  MQTT {}: {} of {tried} statements hold, {} were not tried",
            score.version, score.held, score.skipped
        );
    }
    for failed in &conformance.failed {
        let statements = failed.statements.join(", ");
        let _ = writeln!(out, "  failed in MQTT {}: {} ({statements}): {}", failed.version, failed.case, failed.fault);
    }
}
