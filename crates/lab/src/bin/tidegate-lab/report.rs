//! `tidegate lab report`: a report from results that are there.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use tidegate_lab::report::{html, overview};
use tidegate_lab::results::{Results, csv};

use super::results_error::ResultsError;
use tidegate_terminal::{Exit, report};

/// The flags of `tidegate lab report`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// The directory with results.json, beside which report.html and results.csv are written, or one with a directory
    /// for each scenario
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The base of ratios, in place of the earlier base
    #[arg(long, value_name = "PEER")]
    base: Option<String>,
}

pub(crate) fn run(args: &Args) -> Exit {
    match done(args) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn done(args: &Args) -> Result<(), ResultsError> {
    let several = series_in(&args.directory);
    if several.is_empty() {
        return again(&args.directory, args.base.as_deref()).map(|_| ());
    }
    let all: Result<Vec<Results>, ResultsError> =
        several.iter().map(|directory| again(directory, args.base.as_deref())).collect();
    write_overview(&args.directory, &all?)
}

/// The directories with results of a directory that has none itself, by name.
fn series_in(directory: &Path) -> Vec<PathBuf> {
    if directory.join("results.json").exists() {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.join("results.json").exists()).collect();
    found.sort();
    found
}

/// Writes the report of a directory again, with another base if one is given.
fn again(directory: &Path, base: Option<&str>) -> Result<Results, ResultsError> {
    let mut results = super::compare::read(directory)?;
    if let Some(base) = base {
        let peers = results.peer_names();
        if !peers.iter().any(|peer| peer == base) {
            let (base, directory) = (base.to_owned(), directory.to_owned());
            return Err(ResultsError::NoBase { base, directory, peers: peers.join(", ") });
        }
        results.settings.base = Some(base.to_owned());
    }
    write(directory, &results, false)?;
    Ok(results)
}

/// Writes the page that leads to the reports of several scenarios.
pub(crate) fn write_overview(directory: &Path, all: &[Results]) -> Result<(), ResultsError> {
    let path = directory.join("report.html");
    fs::write(&path, overview(all)).map_err(|source| ResultsError::Write { path, source })
}

/// Writes the files for readers.
pub(crate) fn write(directory: &Path, results: &Results, with_json: bool) -> Result<(), ResultsError> {
    let keep = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|source| ResultsError::Write { path, source })
    };
    if with_json {
        keep("results.json", serde_json::to_string(results)?)?;
    }
    keep("results.csv", csv(results))?;
    keep("report.html", html(results))
}
