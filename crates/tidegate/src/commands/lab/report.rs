//! `tidegate lab report`: a report from results that are there.

use std::fs;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use tidegate_lab::report::{html, overview};
use tidegate_lab::results::{Results, csv};

use crate::exit::{Exit, report};

/// The flags of `tidegate lab report`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// The directory with results.json; report.html and results.csv are written beside it
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The broker that ratios are against, in place of the one that they were against
    #[arg(long, value_name = "PEER")]
    base: Option<String>,
}

pub(super) fn run(args: &Args) -> Exit {
    match done(args) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn done(args: &Args) -> Result<(), String> {
    let mut results = super::compare::read(&args.directory)?;
    if let Some(base) = &args.base {
        let peers = results.peer_names();
        if !peers.contains(base) {
            return Err(format!("the base `{base}` has no runs here; there are {}", peers.join(", ")));
        }
        results.settings.base = Some(base.clone());
    }
    write(&args.directory, &results, false)
}

/// Writes the page that leads to the reports of several scenarios.
pub(super) fn write_overview(directory: &std::path::Path, all: &[Results]) -> Result<(), String> {
    let path = directory.join("report.html");
    fs::write(&path, overview(all)).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Writes what a reader gets.
pub(super) fn write(directory: &std::path::Path, results: &Results, with_json: bool) -> Result<(), String> {
    let keep = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    if with_json {
        let text = serde_json::to_string(results).map_err(|error| format!("results cannot be written: {error}"))?;
        keep("results.json", text)?;
    }
    keep("results.csv", csv(results))?;
    keep("report.html", html(results))
}
